package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

// visitHold is how long [Await] holds a request of a modern revision: proxies and clients commonly
// give up after half a minute of silence, and many clients after a minute even with progress.
const visitHold, visitHoldWithProgress = 25 * time.Second, 50 * time.Second

const visitPoll = time.Second // between two checks of an unfinished visit

// linkPatience is how long a call of a modern revision waits for the page. Clients give a call up
// after some rounds, this module's after 10, and take its state with them. A call that ends before
// leaves the answer to the next one.
const linkPatience = 2 * time.Minute

var errVisitTimeout = errors.New("the visit was not finished in time")

// Await waits until a visit to a URL is finished. key names the question, which the user has
// accepted: that is, agreed to go there. In flow style Await follows the question:
//
//	if err := roundtrip.AskURL(ctx, "login", "Please sign in.", url); err != nil {
//		return nil, err
//	}
//	if err := roundtrip.Await(ctx, "login", signedIn); err != nil {
//		return nil, err
//	}
//
// In guard style a handler needs only this check:
//
//	switch err := roundtrip.Await(ctx, "login", signedIn); {
//	case errors.Is(err, roundtrip.ErrNotFinished):
//		return roundtrip.InputRequired(roundtrip.ElicitURL("login", "Please sign in.", url)), nil
//	case err != nil:
//		return nil, err
//	}
//
// done reports whether the visit is finished. It is called at once, then about every second, and
// not again in later rounds once it has returned true. It may block: its context ends when the
// request is no longer held, and its result still counts then. An error of done ends Await.
//
// In a modern revision the request is held for up to 25 s. Then the client is asked for the same
// visit again, with "Not finished yet." in front. These rounds do not count toward the funnel's
// Limits.Rounds; the flow ends HumanTimeout after the user agreed. In a session Await waits in
// place for HumanTimeout; clients of revision 2025-11-25 are notified when the visit is finished
// (client/elicitation, "Completion Notifications"). The call counts as waiting for a person, see
// [WatchWaiting]; if too many calls wait, a request of a modern revision is not held.
//
// A request that ends while Await waits has no outcome: the run ends, further calls of this package
// fail, and the handler's result is dropped. With a [store.Guard] the request can be sent again,
// unless the run kept a new [Memo], pushed a question, or called [OnCommit].
//
// A refusal is a [*DeclinedError], a [*CancelledError], or an [*UnseenError] if the client refused
// without showing the question. A handler cannot complete in a run with an unfinished visit, even
// if it ignores the error. A key that belongs to another kind of question is a bug of the server,
// which ends the flow with an internal error. Calls may overlap.
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

// lookAtVisit calls done(), and holds the call if it may. It reports whether Await is to return.
func (r asker) lookAtVisit(ctx context.Context, key string,
	done func(context.Context) (bool, error), hold bool) (over bool, err error) {
	finished, err := done(ctx)
	if err == nil && !finished && hold {
		finished, err = r.holdVisit(ctx, key, done)
	}
	switch {
	case !finished && r.ctx.Parent().Err() != nil: // whatever done returned
		return true, r.cutOff(key)
	case err != nil:
		return true, err
	case finished:
		return true, r.finishVisit(ctx, key) // done is not called again after success
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

// beginAwait reports whether the visit is known to be finished, and fails if Await cannot wait.
func (r asker) beginAwait(key string, misused bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, ErrNoRound
	}
	if f := r.flow; f != nil && f.end != nil {
		f.goesOn = true
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

// notFinishedLocked returns the error for an unfinished visit that was not asked for in flow style:
// a guard-style handler must return the question, for the first time or again.
func (r *run) notFinishedLocked(key string) error {
	if r.wasAskedLocked(key) {
		return fmt.Errorf("%w: %s", ErrNotFinished, key)
	}
	return fmt.Errorf("%w: %q has not been asked for; %s", ErrNotFinished, key, howToAskVisit)
}

const howToAskVisit = "call AskURL with this key before Await, or return ElicitURL with it"

// finishedKey is the key of the memo of a finished visit; authors' memos have no such prefix.
func finishedKey(key string) string { return "\x00finished\x00" + key }

// holdVisit reports whether a visit finished in time. In a session a timeout ends the run.
func (r asker) holdVisit(ctx context.Context, key string,
	done func(context.Context) (bool, error)) (bool, error) {
	p, err := r.newQuestioner(ctx)
	if err != nil && (ctx.Err() != nil || !errors.Is(err, ErrPending)) { // see outliveSuspension
		return false, err
	}
	limit := p.askingMode().visitLimit(r, p)
	if limit == 0 { // a run of a task checks once
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
	if question, ok := strings.CutSuffix(key, linkSuffix); ok {
		text := fmt.Sprintf("the question %q was not answered in time; call again", question)
		if isPush(key) {
			text = "the question was not answered in time. " + waiting.UnknownEffect
		}
		return &refusal{code: protocol.CodeFlowEnded, text: text}
	}
	return &refusal{code: protocol.CodeFlowEnded,
		text: fmt.Sprintf("the visit %q was not finished in time; %s", key, howToFinish)}
}

const howToFinish = "finish at the link, then call again"

// cutOff ends the run because its request ended during the wait for a visit. The request then has
// no outcome, and can be sent again if the run did nothing else.
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
	r.acted = true // the handler may act on it
	r.addMemoLocked(finishedKey(key), json.RawMessage("true"))
	r.mu.Unlock()
	r.notifyFinished(ctx, key)
	return nil
}

// notifyFinished tells the client of a session, if it asked for a visit, that it is finished.
func (r *run) notifyFinished(ctx context.Context, key string) {
	if r.call.Version != protocol.V20251125 {
		return
	}
	if id := r.wait.visits.takeID(key); id != "" {
		if client, ok := r.call.Push.(VisitCompleter); ok {
			_ = client.CompleteVisit(ctx, id) // optional for clients
		}
	}
}

// suspendVisit makes the client come back for an unfinished visit; again means already agreed to.
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

// An unfinishedVisit is a visit that timed out in this run.
type unfinishedVisit struct {
	key   string
	again bool // agreed to already, so the link is shown once more
}

// explainUnfinished puts "Not finished yet." in front of copies of repeated visits.
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

// showsVisitsOnly reports whether a round only shows visits that the user has agreed to.
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

// visitSince returns when the user agreed to the visit.
func (r *run) visitSince() time.Time {
	if r.prior != nil && !r.prior.VisitSince.IsZero() {
		return r.prior.VisitSince
	}
	return r.opened
}

// visitTimeLeft returns how much longer a visit may take, over all its rounds.
func (r *run) visitTimeLeft() time.Duration {
	limit := r.funnel.opts.HumanTimeout
	if r.askingMode().returnsQuestions() && len(r.ladder.openBeside(nil)) > 0 {
		limit = min(limit, linkPatience)
	}
	return limit - time.Since(r.visitSince())
}

// A visitTable holds the ids of a call's visits in its session.
type visitTable struct {
	mu  sync.Mutex
	ids map[string]string // by question key
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
// just accepted visits is called again while the request is held, as in [Await], so as not to use
// up the flow's rounds. The delay starts at one second and doubles; between runs the call waits.
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
// and this round's answers agreed to all of them; else nil. Flow style has [Await] instead.
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

// noteUnfinished records that the visits timed out, for the text that asks again.
func (r asker) noteUnfinished(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startFlowLocked()
	for _, key := range keys {
		r.flow.unfinished = append(r.flow.unfinished, unfinishedVisit{key, true})
	}
}
