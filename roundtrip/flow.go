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

// A flowRun is what one run of the handler has done in flow style; guard style has one
// only after a visit or a failed push. The mutex of the run guards it.
//
// Flow style replays: the handler runs from its start in every round, and a call
// that asks returns at once if its question was answered in an earlier one. The
// first question without an answer ends the run. The outcome of the run is then
// decided by what is recorded here, and not by the handler's result:
//
//	Ask ─→ answered ──────────────────────────→ content, or the refusal
//	   └─→ missing ─→ in a session: askInPlace → as above
//	                └ suspendHandler: pending, context cancelled, ErrPending
//	handler returns or panics ─→ overruleHandler: ended? pending? else its own result
type flowRun struct {
	used     []string        // keys of the questions of this run
	noted    map[string]bool // keys of the memos of this run
	pending  []Question      // asked, and not answered yet
	end      *ending
	commits  []func(context.Context)
	rounds   int32 // that were asked in place
	pushes   int32 // questions of [PushRequest]
	answered bool  // a question of the last of them has been answered

	begins   bool     // the task begins here
	waitsFor []string // keys of what a task waits for that is no question

	unkeyed    *unkeyedTable // nil where nothing is asked without a key
	visits     []Question    // to URLs, asked for in this run
	unfinished []unfinishedVisit
}

// asksClient reports whether the run ends with a result that has the client come back.
func (f *flowRun) asksClient() bool { return len(f.pending) > 0 || f.suspendsTask() }

// suspendsTask reports whether the run ends because a task begins, or waits for something that is
// no question.
func (f *flowRun) suspendsTask() bool { return f.begins || len(f.waitsFor) > 0 }

// An ending fixes the outcome of a run before its handler returns.
type ending struct {
	err     error    // what the handler gets for every further call
	refusal *refusal // the response; nil: err is a bug of the server
	how     event.FlowEnd
	bug     bool // err is a mistake of the server, and the client gets refusal all the same
	cut     bool // the request ended while Await waited, and there is no outcome
}

// activeFlowLocked returns the flowRun of the run and creates it if need be. It fails if the
// handler has returned, or if the outcome of the run is fixed.
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

// versionedFlowLocked is activeFlowLocked for calls that read what earlier rounds left, or add
// to it: from then on the version of the flow is fixed, see [FlowVersion].
func (r *run) versionedFlowLocked() (*flowRun, error) {
	f, err := r.activeFlowLocked()
	if err == nil {
		r.fixVersionLocked()
	}
	return f, err
}

// startFlowLocked makes sure that the run has a flowRun. Unlike activeFlowLocked it also serves
// guard style.
func (r *run) startFlowLocked() {
	if r.flow == nil {
		r.flow = &flowRun{}
	}
}

// failLocked ends the run with a mistake of the server.
func (r *run) failLocked(err error) error {
	return r.endLocked(&ending{err: err, how: words.EndFailed})
}

// endLocked fixes the outcome of the run, cancels the handler's context and withdraws the
// questions that are open. It returns the error that the handler gets. An outcome that is
// fixed already stays.
func (r *run) endLocked(e *ending) error {
	if r.closed {
		return e.err
	}
	if r.flow.end == nil {
		r.flow.end = e
		r.ctx.Cancel(e.err)
	}
	return r.flow.end.err
}

// endWithText ends the run with a text for the person or the model.
func (r *run) endWithText(code int64, how event.FlowEnd, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endLocked(&ending{err: errors.New(text), refusal: &refusal{code: code, text: text},
		how: how})
}

// askQuestion is the common path of all questions in flow style. An answer that is recorded
// is returned. For a missing one it either waits in place, in a session, or suspends the
// handler: the client is asked when the handler returns, and the handler runs again.
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
	if r.ladder != nil || one.question.ways != 0 {
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

// takeKey checks the question and reserves its key: in one run each key is used once.
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

// freeKey releases the key of a question that the handler may ask again.
func (r asker) freeKey(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil {
		return
	}
	r.flow.used = slices.DeleteFunc(r.flow.used, func(used string) bool { return used == key })
}

// collectAnswer decodes the answer to the question. It reports whether there is none to use, and
// returns what the person refused.
func (r asker) collectAnswer(one *inquiry) (missing bool, err error) {
	content, err := r.recordedAnswer(&one.question)
	if err != nil {
		if err == errMissing {
			return true, nil
		}
		return false, err
	}
	// Code of the author's types; it runs outside of the mutex.
	if one.decode != nil && one.decode(content) != nil {
		r.failDecode(one.question.key)
		return true, nil
	}
	return false, nil
}

// suspendHandler adds a question to those that are asked when the handler returns, and cancels
// its context. The run is pending from here on, out of the handler's reach: whatever it
// returns, wraps or swallows, overruleHandler asks the client. Other goroutines of the handler
// may still add questions to the same round.
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

// noRound returns the error of a call in flow style whose ctx has no round. Its text says
// which mistake that probably is.
func noRound(ctx context.Context) error {
	if ctx.Value(runKey{}) != nil { // it is there, and empty
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
