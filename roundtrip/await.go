package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

// visitHold is how long [Await] holds a request of a modern revision: proxies and clients commonly
// give up on what is silent for half a minute. With progress it is not silent, but many clients
// give up after a minute in all.
const visitHold, visitHoldWithProgress = 25 * time.Second, 50 * time.Second

// visitPoll is the time between two looks at a visit that is not finished.
const visitPoll = time.Second

// errVisitTimeout ends a wait in a session.
var errVisitTimeout = errors.New("the visit was not finished in time")

// Await waits until a visit to a URL is finished. key names the question, which
// the person has accepted; that says no more than that they agreed to go there.
// In flow style it follows the call that asks:
//
//	if err := roundtrip.AskURL(ctx, "login", "Please sign in.", url); err != nil {
//		return nil, err
//	}
//	if err := roundtrip.Await(ctx, "login", signedIn); err != nil {
//		return nil, err
//	}
//
// In guard style it is all that a handler looks at:
//
//	switch err := roundtrip.Await(ctx, "login", signedIn); {
//	case errors.Is(err, roundtrip.ErrNotFinished):
//		return roundtrip.InputRequired(roundtrip.ElicitURL("login", "Please sign in.", url)), nil
//	case err != nil:
//		return nil, err
//	}
//
// done reports whether the visit is finished. It is called at once, then about every second, and
// not in later rounds once it has returned true. It may block: its context ends when the request is
// not held any longer, and what it returns then counts. An error of done ends Await.
//
// In a modern revision the request is held for up to 25 s. Then the client is asked for the same
// visit again, with "Not finished yet." in front. These rounds do not count toward the funnel's
// Limits.Rounds: the flow ends after its HumanTimeout, from when the person agreed. In a session
// Await waits in place, for as long; clients of revision 2025-11-25 are notified when the visit is
// finished (client/elicitation, "Completion Notifications"). The call waits for a person meanwhile,
// see [WatchWaiting]; where too many calls wait a request of a modern revision is not held.
//
// A request that ends while Await waits has no outcome: the run ends, further calls of this package
// fail, and the handler's result is dropped. With a [store.Guard] the same request can be sent
// again where the run had not kept a new [Memo], pushed a question, or called [OnCommit].
//
// A person who refuses gives a [*DeclinedError] or [*CancelledError], and a client that refuses
// without showing the question an [*UnseenError]. A handler cannot complete in a run in which a
// visit is not finished, whatever it makes of the error. A key under which something else than a
// visit was answered is a mistake of the server, which ends the flow with an internal error. Calls
// may overlap.
func Await(ctx context.Context, key string, done func(context.Context) (bool, error)) error {
	r := askerFrom(ctx)
	if r.run == nil {
		return ErrNoRound
	}
	finished, err := r.beginAwait(key, done == nil)
	if err != nil || finished {
		return err
	}
	outcome := Visited(ctx, key)
	if refused := r.refusalOf(key); refused != nil {
		return refused
	}
	if over, err := r.lookAtVisit(ctx, key, done, outcome == Accepted); over {
		return err
	}
	return r.suspendVisit(key, outcome == Accepted)
}

// lookAtVisit calls done, and holds the call if it may. It reports whether that decides what Await
// returns.
func (r asker) lookAtVisit(ctx context.Context, key string,
	done func(context.Context) (bool, error), hold bool) (over bool, err error) {
	finished, err := done(ctx)
	if err == nil && !finished && hold {
		finished, err = r.holdVisit(ctx, key, done)
	}
	switch {
	case !finished && r.ctx.Parent().Err() != nil: // whatever done made of that
		return true, r.cutOff(key)
	case err != nil:
		return true, err
	case finished:
		return true, r.finishVisit(ctx, key)
	}
	return false, nil
}

func (r *run) refusalOf(key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.findAnswerLocked(key); a != nil {
		return a.asRefusal()
	}
	return nil
}

// beginAwait reports whether the visit is known to be finished, and fails where
// nothing can be waited for.
func (r asker) beginAwait(key string, misused bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, ErrNoRound
	}
	if f := r.flow; f != nil && f.end != nil {
		return false, f.end.err
	} else if f != nil && f.asksClient() {
		return false, fmt.Errorf("%w: the visit %q has to wait", ErrPending, key)
	}
	if misused {
		r.startFlowLocked()
		return false, r.failLocked(fmt.Errorf("Await %q: nil function", key))
	}
	r.fixVersionLocked()
	if r.findMemoLocked(finishedKey(key)) != nil {
		return true, nil
	}
	if a := r.findAnswerLocked(key); a != nil && a.kind != "" && a.kind != protocol.KindElicitURL {
		r.startFlowLocked()
		return false, r.failLocked(fmt.Errorf("Await %q: it was asked as %s; Await is for a visit, "+
			"which AskURL or ElicitURL asks for", key, a.kind))
	}
	return false, nil
}

func (r *run) wasAskedLocked(key string) bool {
	return r.findAnswerLocked(key) != nil ||
		slices.ContainsFunc(r.asked(), func(q claims.Question) bool { return q.Key == key }) ||
		r.flow != nil && slices.Contains(r.flow.used, key)
}

// notFinishedLocked returns the error for a visit that is not finished and is not asked for by flow
// style. In guard style the handler has the question, before it has been asked as well.
func (r *run) notFinishedLocked(key string) error {
	if r.wasAskedLocked(key) {
		return fmt.Errorf("%w: %s", ErrNotFinished, key)
	}
	return fmt.Errorf("%w: %q has not been asked for; %s", ErrNotFinished, key, howToAskVisit)
}

// howToAskVisit ends the texts of visits that have not been asked for.
const howToAskVisit = "call AskURL with this key before Await, or return ElicitURL with it"

// finishedKey is the key of the memo that means that a visit is finished. Memos of
// authors do not begin in this way.
func finishedKey(key string) string { return "\x00finished\x00" + key }

// holdVisit waits for the end of a visit and reports whether it has come. In a
// session it ends the run if it has not.
func (r asker) holdVisit(ctx context.Context, key string,
	done func(context.Context) (bool, error)) (bool, error) {
	p, err := r.newQuestioner(ctx)
	if err != nil {
		return false, err
	}
	limit := p.askingMode().visitLimit(r, p)
	if limit == 0 { // a run of a task looks once
		return false, nil
	}
	w, err := p.beginWaiting(ctx)
	if err != nil {
		return false, p.askingMode().awaitRefusal(ctx, r, p, err)
	}
	defer w.endWaiting()
	timer := time.AfterFunc(limit, func() { w.Cancel(errVisitTimeout) })
	defer timer.Stop()
	for {
		if waiting.Sleep(&w.Context, visitPoll) != nil {
			break
		}
		finished, err := done(&w.Context)
		if finished && err == nil {
			err = w.awaitResume(ctx, nil)
			return err == nil, err
		}
		if err != nil && w.Err() == nil {
			return false, w.awaitResume(ctx, err)
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, p.askingMode().endVisit(r, key, context.Cause(&w.Context))
}

func refuseVisit(key string, cause error) *refusal {
	if errors.Is(cause, waiting.ErrClosing) {
		return cannotAsk(cause)
	}
	return &refusal{code: protocol.CodeFlowEnded,
		text: fmt.Sprintf("the visit %q was not finished in time; %s", key, howToFinish)}
}

// howToFinish ends the texts of visits that are not finished.
const howToFinish = "finish at the link, then call again"

// cutOff ends the run because its request has ended while a visit was waited for. That is no
// outcome: where nothing else was done the request can be sent again.
func (r asker) cutOff(key string) error {
	cause := context.Cause(r.ctx.Parent())
	e := &ending{err: fmt.Errorf("Await %q: the request has ended: %w", key, cause), cut: true}
	r.endWith(e)
	return e.err
}

// finishVisit records that a visit is finished and notifies the client.
func (r asker) finishVisit(ctx context.Context, key string) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrNoRound
	}
	r.acted = true // done is not called again after it has said so
	r.addMemoLocked(finishedKey(key), json.RawMessage("true"))
	p := r.exchange
	r.mu.Unlock()
	if p.call.Version != protocol.V20251125 {
		return nil
	}
	if id := p.wait.visits.takeID(key); id != "" {
		if client, ok := p.call.Push.(VisitCompleter); ok {
			_ = client.CompleteVisit(ctx, id) // a client must be able to do without
		}
	}
	return nil
}

// suspendVisit has the client come back for a visit that is not finished. again
// says that the person has agreed to it already.
func (r asker) suspendVisit(key string, again bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrNoRound
	}
	r.startFlowLocked()
	f := r.flow
	if f.end != nil {
		return f.end.err
	}
	f.unfinished = append(f.unfinished, unfinishedVisit{key, again})
	if again && r.taskRun() != nil {
		return r.waitLocked(key)
	}
	i := slices.IndexFunc(f.visits, func(q Question) bool { return q.key == key })
	if i < 0 {
		return r.notFinishedLocked(key)
	}
	f.pending = append(f.pending, f.visits[i])
	r.ctx.Cancel(ErrPending)
	return fmt.Errorf("%w: %s", ErrPending, key)
}

// An unfinishedVisit is a visit that was waited for in this run and did not finish.
type unfinishedVisit struct {
	key   string
	again bool // it had been agreed to, so the link is shown once more
}

// explainUnfinished puts in front of visits that are asked for again that they are not finished. It
// changes copies: the words are the author's, and what the flow remembers of them stays.
func (r responder) explainUnfinished(requests protocol.InputRequests) protocol.InputRequests {
	return changeRequests(requests, func(q protocol.KeyedRequest) protocol.InputRequest {
		visit, ok := q.Request.(*protocol.ElicitURL)
		if !ok || !r.wasAgreedTo(q.Key) {
			return q.Request
		}
		c := *visit
		c.Message = "Not finished yet. " + c.Message
		return &c
	})
}

func (r *run) wasAgreedTo(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flow != nil && slices.Contains(r.flow.unfinished, unfinishedVisit{key, true})
}

// showsVisitsOnly reports whether a round shows nothing but visits that the person has agreed to.
func (r *run) showsVisitsOnly(d *draft) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil || len(r.flow.unfinished) == 0 || len(d.questions) == 0 {
		return false
	}
	return !slices.ContainsFunc(d.questions, func(q Question) bool {
		return !slices.Contains(r.flow.unfinished, unfinishedVisit{q.key, true})
	})
}

// visitSince returns when the person agreed to the visit that is waited for.
func (r *run) visitSince() time.Time {
	if r.prior != nil && !r.prior.VisitSince.IsZero() {
		return r.prior.VisitSince
	}
	return r.opened
}

// visitTimeLeft returns how much longer a visit may take over all rounds that show it.
func (r *run) visitTimeLeft() time.Duration {
	return r.funnel.opts.HumanTimeout - time.Since(r.visitSince())
}

// A visitTable holds the ids under which the visits of a call were asked for in its session.
type visitTable struct {
	mu  sync.Mutex
	ids map[string]string // by the key of the question
}

func (t *visitTable) noteVisits(requests protocol.InputRequests) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range requests {
		if visit, ok := q.Request.(*protocol.ElicitURL); ok {
			if t.ids == nil {
				t.ids = map[string]string{}
			}
			t.ids[q.Key] = visit.ElicitationID
		}
	}
}

func (t *visitTable) takeID(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := t.ids[key]
	delete(t.ids, key)
	return id
}

// repeatHandler takes the handler's result. A handler that returns the URL elicitation error for
// visits to which the person has just agreed is called again while the request is held, as [Await]
// holds it: asking for them at once would use up the rounds of the flow. It runs after one second,
// then after twice as long each time. Between its runs the call waits.
func (r asker) repeatHandler(handler Handler, result protocol.Result,
	err error) (protocol.Result, error) {
	repeated := r.repeatedVisits(err)
	began := time.Now()
	for pause := visitPoll; len(repeated) > 0; pause *= 2 {
		left := r.maxVisitHold() - time.Since(began)
		until := time.Now().Add(min(pause, left))
		passed, failed := left > 0, error(nil)
		if passed {
			passed, failed = r.holdVisit(&r.ctx, repeated[0], func(context.Context) (bool, error) {
				return !time.Now().Before(until), nil
			})
		}
		switch {
		case failed != nil:
			return nil, failed
		case !passed: // held long enough, or too many calls wait
			r.noteUnfinished(repeated)
			return result, err
		}
		result, err = handler(&r.ctx)
		repeated = r.repeatedVisits(err)
	}
	return result, err
}

func (r *run) maxVisitHold() time.Duration {
	if r.call.Heartbeat != nil {
		return visitHoldWithProgress
	}
	return visitHold
}

// repeatedVisits returns the keys of the visits that err asks for, if it is a URL elicitation error
// and the answers of this round agreed to each of them, nil for anything else. A handler in flow
// style has [Await].
func (r asker) repeatedVisits(err error) (keys []string) {
	urls, ok := errors.AsType[*protocol.URLElicitationRequiredError](err)
	if !ok || urls == nil || !r.askingMode().returnsQuestions() {
		return nil
	}
	questions, wrong := urlQuestions(urls)
	r.mu.Lock()
	defer r.mu.Unlock()
	if wrong != nil || r.flow != nil {
		return nil
	}
	for _, q := range questions {
		a := r.findAnswerLocked(q.key)
		if a == nil || a.round != r.number || a.outcome != Accepted || !a.mark.Set ||
			!a.matchesLocked(&q) {
			return nil
		}
		keys = append(keys, q.key)
	}
	return keys
}

// noteUnfinished records that the visits timed out, for the text with which they are asked for
// again.
func (r asker) noteUnfinished(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startFlowLocked()
	for _, key := range keys {
		r.flow.unfinished = append(r.flow.unfinished, unfinishedVisit{key, true})
	}
}
