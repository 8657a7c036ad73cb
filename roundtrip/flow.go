package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A flowRun records what a run does in flow style (in guard style: after a visit or failed push).
//
// Flow style replays: the handler runs from its start in every round, and questions answered in an
// earlier round return at once. The first question without an answer ends the run. Its outcome is
// then decided by what is recorded here, not by the handler's result:
//
//	Ask ─→ answered ──────────────────────────→ content, or the refusal
//	   └─→ missing ─→ in a session: askInPlace → as above
//	                └ suspendHandler: pending, context cancelled, ErrPending
//	handler returns or panics ─→ overruleHandler: ended? pending? else its own result
type flowRun struct {
	used     []string        // keys of this run's questions
	numbered []string        // given to questions of a session's handler
	noted    map[string]bool // keys of this run's memos
	pending  []Question      // asked, not answered yet
	end      *ending
	commits  []func(context.Context)
	goesOn   bool  // the handler has used this package after the end
	rounds   int32 // asked in place
	answered bool  // a question of the last round has been answered

	begins   bool     // the task begins here
	waitsFor []string // keys of waits other than for questions

	unkeyed    *unkeyedTable // nil unless questions without keys are asked
	visits     []Question    // asked for in this run
	unfinished []unfinishedVisit
}

// asksClient reports whether the run's result makes the client or host come back.
func (f *flowRun) asksClient() bool { return len(f.pending) > 0 || f.suspendsTask() }

// suspendsTask reports whether a task begins here, or waits for something other than a question.
func (f *flowRun) suspendsTask() bool { return f.begins || len(f.waitsFor) > 0 }

// An ending fixes the outcome of a run before its handler returns.
type ending struct {
	err        error    // the handler's error for every further call
	refusal    *refusal // the response; nil: err is a bug of the server
	how        event.FlowEnd
	bug        bool // err is a mistake of the server, but the client gets refusal
	cut        bool // the request ended while Await waited: no outcome
	repeatable bool // the page failed or nobody answered, and the run can be repeated
}

// activeFlowLocked returns the flow, created if need be, unless the run is closed or decided.
func (r *run) activeFlowLocked() (*flowRun, error) {
	if r.closed {
		return nil, errReturned()
	}
	r.startFlowLocked()
	if r.flow.end != nil {
		return nil, r.flow.end.err
	}
	return r.flow, nil
}

// versionedFlowLocked is activeFlowLocked for a call by the handler. It fixes the version of the
// flow, see [FlowVersion].
func (r *run) versionedFlowLocked() (*flowRun, error) {
	f, err := r.activeFlowLocked()
	if err == nil {
		r.fixVersionLocked()
	} else if r.flow != nil {
		r.flow.goesOn = true
	}
	return f, err
}

// hasGoneOnLocked reports whether a handler that returned err went on although its run in flow
// style was decided. One that wraps or joins the error of its end may have.
func (r *run) hasGoneOnLocked(err error) bool {
	f := r.flow
	if f.end == nil {
		return f.asksClient() && !errors.Is(err, ErrPending)
	}
	return f.goesOn || !errors.Is(err, f.end.err) || !errors.Is(f.end.err, err)
}

// startFlowLocked makes sure that r.flow is set, in guard style too.
func (r *run) startFlowLocked() {
	if r.flow == nil {
		r.flow = &flowRun{}
	}
}

// failLocked ends the run with a mistake of the server.
func (r *run) failLocked(err error) error {
	return r.endLocked(&ending{err: err, how: words.EndFailed})
}

// endLocked fixes the outcome of the run unless it is fixed already, cancels the handler's context
// and withdraws open questions. It returns the handler's error.
func (r *run) endLocked(e *ending) error {
	if r.closed {
		return e.err
	}
	if r.flow.end == nil {
		r.flow.end = e
		r.ctx.Cancel(fmt.Errorf("%w", e.err)) // another than e.err, see hasGoneOnLocked
	}
	return r.flow.end.err
}

func (r *run) endWithText(code int64, how event.FlowEnd, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endLocked(&ending{err: errors.New(text), refusal: &refusal{code: code, text: text},
		how: how})
}

// askQuestion asks any flow-style question. It returns a recorded answer, waits in place (in a
// session), or suspends the handler, which runs again with the answer.
func askQuestion(ctx context.Context, one *inquiry) error {
	r := askerFrom(ctx)
	if r.run == nil {
		return noRound(ctx)
	}
	if err := r.takeKey(&one.question); err != nil {
		return err
	}
	if missing, err := r.collectAnswer(one); err != nil || !missing {
		return err
	}
	if r.ladder != nil || one.question.ways != nil {
		if over, err := r.askOnPage(ctx, one); over {
			return err
		}
	}
	if err := r.checkOptional(ctx, &one.question); err != nil {
		r.freeKey(one.question.key)
		return err
	}
	if r.askingMode().returnsQuestions() {
		return r.suspendHandler(&one.question)
	}
	err := r.askInPlace(ctx, one)
	if err != errNotShown {
		return err
	}
	if over, err := r.askOnPage(ctx, one); over {
		return err
	}
	return r.endWithText(protocol.CodeCannotAsk, words.EndUnseen, "nobody could be asked: the "+
		"client does not show the question; call again from one that does")
}

// takeKey checks the question and reserves its key, which one run may use once.
func (r asker) takeKey(q *Question) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.versionedFlowLocked()
	if err != nil {
		return err
	}
	switch {
	case q.err != nil:
		return r.failLocked(q.err)
	case q.key == "":
		return r.failLocked(errors.New("a question has an empty key"))
	case slices.Contains(f.used, q.key):
		return r.failLocked(&journalError{q.key,
			"two questions are asked under it in one run of the handler; " +
				"in a loop each turn needs a key of its own"})
	}
	if err := q.checkLength(); err != nil {
		return r.failLocked(err)
	}
	f.used = append(f.used, q.key)
	if q.mark, err = q.makeMark(); err != nil {
		return r.failLocked(fmt.Errorf("question %q: %w", q.key, err))
	}
	if q.request.Kind() == protocol.KindElicitURL {
		f.visits = append(f.visits, *q)
	}
	return nil
}

func (r asker) freeKey(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil {
		return
	}
	r.flow.used = slices.DeleteFunc(r.flow.used, func(used string) bool { return used == key })
}

// collectAnswer decodes the answer, reports whether none is usable, and returns a refusal as err.
func (r asker) collectAnswer(one *inquiry) (missing bool, err error) {
	content, err := r.recordedAnswer(&one.question)
	if err != nil {
		if err == errMissing {
			return true, nil
		}
		return false, err
	}
	// The author's code; it runs outside of the mutex.
	if one.decode != nil && one.decode(content) != nil {
		r.failDecode(one.question.key)
		return true, nil
	}
	return false, nil
}

// suspendHandler adds a question to those asked when the handler returns, and cancels its context.
// The run is now pending: whatever the handler returns or swallows, overruleHandler asks the
// client. Other goroutines of the handler may still add questions.
func (r asker) suspendHandler(missing *Question) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.activeFlowLocked()
	if err != nil {
		return err
	}
	f.pending = append(f.pending, *missing)
	r.ctx.Cancel(ErrPending)
	return fmt.Errorf("%w: %s", ErrPending, missing.key)
}

// noRound returns the error of a flow-style call whose ctx has no round, with the likely mistake.
func noRound(ctx context.Context) error {
	if ctx.Value(runKey{}) != nil { // present, but empty
		return fmt.Errorf("%w: requests of this method cannot ask; ask in a handler of "+
			"tools/call, prompts/get or resources/read", ErrNoRound)
	}
	if CalledByHandler() {
		return fmt.Errorf("%w: this is a handler, and the context is another one; pass on the "+
			"context that the handler was called with, not context.Background()", ErrNoRound)
	}
	return fmt.Errorf("%w: the context is not that of a handler of tools/call, prompts/get or "+
		"resources/read; pass on the one that the handler was called with", ErrNoRound)
}

func errReturned() error {
	return fmt.Errorf("%w: the handler has returned; wait in it for the goroutines that ask",
		ErrNoRound)
}
