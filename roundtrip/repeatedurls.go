package roundtrip

import (
	"context"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// repeatHandler takes the handler's result. A handler that returns the URL elicitation
// error for visits to which the person has just agreed is called again while the request is held,
// as [Await] holds it: asking for them once more at once would use up the rounds of the flowRun
// before anybody can be done there. It runs after one second, then after twice as long each time.
// Between its runs the call waits, so what it does when the visits are finished counts as running.
func (r asker) repeatHandler(handler Handler, result protocol.Result,
	err error) (protocol.Result, error) {
	repeated := r.repeatedVisits(err)
	began := time.Now()
	for pause := visitPoll; len(repeated) > 0; pause *= 2 {
		left := maxVisitHold - time.Since(began)
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

// noteUnfinished records that the visits were waited for in vain, for the text with which they are
// asked for again.
func (r asker) noteUnfinished(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startFlowLocked()
	for _, key := range keys {
		r.flow.unfinished = append(r.flow.unfinished, unfinishedVisit{key, true})
	}
}
