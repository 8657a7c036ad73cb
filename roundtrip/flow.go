package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/protocol"
)

// flow is what one run of a handler does in flow style. Guard style never has
// one. The round's mutex guards it.
//
// Whether a run is over is decided here and not by what the handler returns:
//
//	Ask ─→ answered ─────────────────────→ content, or the refusal
//	   └─→ missing ─→ live? push, wait ──→ as above
//	                └ suspend: pending, context cancelled, ErrPending
//	handler returns, wraps, panics ─→ overrule: ended? pending? else its own
type flow struct {
	used          []string        // keys of the questions of this run
	noted         map[string]bool // keys of the memos of this run
	pending       []Question      // asked, and not answered yet
	end           *ending
	commits       []func(context.Context)
	rounds        int          // live ones
	answered      bool         // a question of the last of them has been settled
	invalidAnswer *AnswerError // the answer to the last question pushed, if it is no good

	visits     []Question // to URLs, asked for in this run
	unfinished []unfinishedVisit
	stateOnly  bool // the client is to come back without being asked anything
}

// asksClient reports whether the run ends with the client being told to come back.
func (f *flow) asksClient() bool { return len(f.pending) > 0 || f.stateOnly }

// An ending settles a run before its handler returns.
type ending struct {
	err     error    // what the handler gets for every further call
	refusal *refusal // what the client gets; nil: err is a bug of the server
	how     FlowEnd
}

// activeFlowLocked returns the flow of the run. The caller holds the mutex. A run that
// is over, or settled, has none.
func (r *run) activeFlowLocked() (*flow, error) {
	if r.closed {
		return nil, errReturned()
	}
	if r.flow == nil {
		r.flow = &flow{}
		if r.exchange.funnel.opts.Plain {
			return nil, r.failLocked(errors.New("flow style needs sealed state, and the funnel has the option Plain"))
		}
	}
	if r.flow.end != nil {
		return nil, r.flow.end.err
	}
	return r.flow, nil
}

// versionedFlowLocked is flowing for calls that use what earlier rounds left, which must be
// of this version of the flow.
func (r *run) versionedFlowLocked() (*flow, error) {
	f, err := r.activeFlowLocked()
	if err == nil {
		r.fixVersionLocked()
	}
	return f, err
}

// failLocked ends the run with a bug of the server. The caller holds the mutex.
func (r *run) failLocked(err error) error { return r.endLocked(&ending{err: err, how: EndFailed}) }

// endLocked settles the run, unless it is settled or over. The caller holds the
// mutex.
func (r *run) endLocked(e *ending) error {
	if r.closed {
		return e.err
	}
	if r.flow.end == nil {
		r.flow.end = e
		r.ctx.cancelRun(e.err)
		r.withdrawLocked(e.err)
	}
	return r.flow.end.err
}

// askQuestions is every question of flow style.
func askQuestions(ctx context.Context, inquiries ...inquiry) error {
	r := runFrom(ctx)
	if r == nil {
		return noRound(ctx)
	}
	if err := r.takeKeys(inquiries); err != nil {
		return err
	}
	missing, err := r.collectAnswers(inquiries)
	switch {
	case err != nil || len(missing) == 0:
		return err
	}
	if err := r.checkOptional(ctx, missing); err != nil {
		r.freeKeys(inquiries)
		return err
	}
	if r.exchange.isLegacy() && !r.exchange.funnel.opts.ReplayOnLegacy {
		return r.askInPlace(ctx, inquiries, missing)
	}
	return r.suspendHandler(missing)
}

// takeKeys checks the questions and takes their keys.
func (r *run) takeKeys(inquiries []inquiry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.versionedFlowLocked()
	if err != nil {
		return err
	}
	for i := range inquiries {
		q := &inquiries[i].question
		switch {
		case q.err != nil:
			return r.failLocked(q.err)
		case q.key == "":
			return r.failLocked(errors.New("a question has an empty key"))
		case slices.Contains(f.used, q.key):
			return r.failLocked(&JournalError{q.key, "two questions are asked under it in one run of the handler"})
		}
		f.used = append(f.used, q.key)
		q.mark, err = q.makeMark()
		if err != nil {
			return r.failLocked(fmt.Errorf("question %q: %w", q.key, err))
		}
		if q.request.Kind() == protocol.KindElicitURL {
			f.visits = append(f.visits, *q)
		}
	}
	return nil
}

// collectAnswers hands the answers out, all or none. It returns the questions whose
// answers are missing, or else what the person refused.
func (r *run) collectAnswers(inquiries []inquiry) (missing []Question, err error) {
	var few [4]json.RawMessage
	contents := append(few[:0], make([]json.RawMessage, len(inquiries))...)
	var refused []error
	for i := range inquiries {
		content, err := r.recordedAnswer(&inquiries[i].question)
		switch {
		case err == errMissing:
			missing = append(missing, inquiries[i].question)
		case refusedWith[*JournalError](err):
			return nil, err
		case err != nil:
			refused = append(refused, err)
		}
		contents[i] = content
	}
	if len(refused) == 1 {
		return nil, refused[0]
	}
	if len(refused) > 0 || len(missing) > 0 {
		return missing, errors.Join(refused...)
	}
	for i, one := range inquiries {
		// Code of the author's types; it runs outside of the mutex.
		if one.decode != nil && one.decode(contents[i]) != nil {
			r.failDecode(one.question.key)
			missing = append(missing, one.question)
		}
	}
	return missing, nil
}

// suspendHandler marks the round pending: whatever the handler does now, the client is
// asked.
func (r *run) suspendHandler(missing []Question) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.activeFlowLocked()
	if err != nil {
		return err
	}
	f.pending = append(f.pending, missing...)
	r.ctx.cancelRun(ErrPending)
	return fmt.Errorf("%w: %s", ErrPending, questionKeys(missing))
}

func questionKeys(questions []Question) string {
	names := make([]string, len(questions))
	for i, q := range questions {
		names[i] = q.key
	}
	return strings.Join(names, ", ")
}

// isDecided reports whether the run is settled whatever the handler does.
func (r *run) isDecided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flow != nil && (r.flow.asksClient() || r.flow.end != nil)
}

// invokeHandler runs the handler in its round. A panic in a round that is settled
// anyway is as good as a return.
func (p *exchange) invokeHandler(ctx context.Context, handler Handler) (result protocol.Result, err error) {
	if p.run == nil {
		return handler(withoutRun(ctx))
	}
	p.run.ctx.Context, p.run.ctx.run = ctx, p.run
	defer p.run.closeRun()
	defer func() {
		if !p.run.isDecided() {
			return
		}
		if v := recover(); v != nil {
			if cause, ok := v.(error); !ok || !errors.Is(cause, ErrPending) {
				p.reportPanic(ctx, v)
			}
			result, err = nil, ErrPending
		}
	}()
	return handler(&p.run.ctx)
}

// closeRun ends the run: goroutines that the handler left behind ask nothing any
// more.
func (r *run) closeRun() {
	r.mu.Lock()
	r.closed = true
	r.withdrawLocked(context.Canceled)
	r.mu.Unlock()
	r.ctx.endRun()
}

// overruleHandler puts what the round says in the place of what the handler returned.
// It reports true when that settles the request.
func (p *exchange) overruleHandler(ctx context.Context, result protocol.Result, err error) (protocol.Result, error, bool) {
	f := p.run.flow
	switch {
	case f == nil:
		return result, err, false
	case f.end != nil && f.end.refusal == nil:
		return nil, p.reportBug(ctx, f.end.err), true
	case f.end != nil:
		p.reportFlowEnd(ctx, f.end.how)
		result, err = p.answerRefusal(f.end.refusal)
		return result, err, true
	case f.asksClient():
	case f.invalidAnswer != nil && completes(result, err):
		result, err = p.refuseInvalidAnswer(ctx, f.invalidAnswer)
		return result, err, true
	case len(f.unfinished) > 0 && completes(result, err):
		result, err = p.refuseUnfinished(ctx, f.unfinished[0].key)
		return result, err, true
	default:
		return result, err, false
	}
	asks, err := p.joinQuestions(f, result)
	if err != nil {
		return nil, p.reportBug(ctx, err), true
	}
	return asks, nil, false
}

// joinQuestions returns the result that asks the pending questions, and beside them
// those of a handler that returned some, as in guard style.
func (p *exchange) joinQuestions(f *flow, result protocol.Result) (*protocol.InputRequiredResult, error) {
	d := &draft{questions: f.pending}
	if f.stateOnly { // what the author keeps stays
		d.state, d.hasState = p.run.state, true
	}
	asks, ok := result.(*protocol.InputRequiredResult)
	if !ok || asks == nil {
		return d.buildResult(&protocol.InputRequiredResult{}), nil
	}
	own, err := p.readDraft(asks)
	if err != nil {
		return nil, err
	}
	d.questions = append(d.questions, own.questions...)
	if own.hasState {
		d.state, d.hasState = own.state, true
	}
	joined := d.buildResult(&protocol.InputRequiredResult{})
	joined.Meta = asks.Meta
	return joined, nil
}

// refusedBy returns whether the handler fails with a refusal of the person's,
// which is no failure of the server.
func refusedBy(err error) bool {
	if _, own := protocol.AsError(err); own {
		return false // the author chose code and words
	}
	return refusedWith[*DeclinedError](err) || refusedWith[*CancelledError](err)
}

// handlerContext is the context of a handler: that of the request, with the round
// as a value, and an end of its own. What it takes to end is made when somebody
// asks for it, because most handlers never do.
type handlerContext struct {
	context.Context
	run         *run
	cancellable atomic.Pointer[cancellableContext]
	over        atomic.Bool

	// Guarded by the mutex of the round.
	waits []*lazyctx.Context // that end with it, see attach
}

type cancellableContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// ensureCancellable returns the context that can end, and makes it if need be.
func (c *handlerContext) ensureCancellable() *cancellableContext {
	if e := c.cancellable.Load(); e != nil {
		return e
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	e := &cancellableContext{ctx, cancel}
	if !c.cancellable.CompareAndSwap(nil, e) {
		cancel(nil)
		return c.cancellable.Load()
	}
	if c.over.Load() {
		cancel(nil)
	}
	return e
}

func (c *handlerContext) cancelRun(cause error) { c.ensureCancellable().cancel(cause) }

// endRun releases what the context holds of the request's.
func (c *handlerContext) endRun() {
	c.over.Store(true)
	if e := c.cancellable.Load(); e != nil {
		e.cancel(nil)
	}
}

func (c *handlerContext) Done() <-chan struct{} { return c.ensureCancellable().Done() }

// current returns what speaks for c: itself can end only once somebody has asked
// for that, or the handler has returned.
func (c *handlerContext) current() context.Context {
	if e := c.cancellable.Load(); e != nil {
		return e
	}
	if c.over.Load() {
		return c.ensureCancellable()
	}
	return c.Context
}

func (c *handlerContext) Err() error { return c.current().Err() }

// Value also answers package context, which looks for the cause of an end among
// the values.
func (c *handlerContext) Value(key any) any {
	switch key.(type) {
	case runKey:
		return c.run
	case requestid.Key:
		return c.run
	}
	return c.current().Value(key)
}
