package roundtrip

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"
)

// A Dropped answer came with a request and was not used.
type Dropped struct {
	Key    string
	Reason DropReason
}

// A DropReason says why an answer was dropped.
type DropReason string

// The reasons.
const (
	// DropUnsolicited: the answer is to a question that this flow did not ask,
	// or the client lost the state that proves that it did.
	DropUnsolicited DropReason = "unsolicited"
	// DropMalformed: the answer has not the shape that its question requires.
	DropMalformed DropReason = "malformed"
	// DropExpired: the state was authentic but too old, and the flow restarted.
	DropExpired DropReason = "expired"
	// DropVersion: the answer was given to another version of the flow; see
	// [FlowVersion].
	DropVersion DropReason = "flow_version"
)

// DroppedAnswers lists the answers of this leg that were not used, in the
// order in which they came.
func DroppedAnswers(ctx context.Context) []Dropped {
	if r := runFrom(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return append([]Dropped(nil), r.dropped...)
	}
	return nil
}

// sortAnswers puts the answers that came with the call where the handler finds them.
// Only answers to questions that the sealed state says were asked count, in
// the shape that each question requires; the rest is dropped and reported.
// Schemas are applied where an answer is read, because only the reader knows
// the form.
func (r *run) sortAnswers(ctx context.Context) {
	if r.prior != nil {
		r.answers = r.prior.answers
	}
	unsolicited := 0 // how many more are taken
	if r.call.AcceptCold || r.funnel.opts.Plain {
		unsolicited = maxUnsolicited
	}
	for _, response := range r.responses {
		q := r.findAsked(response.Key)
		switch {
		case r.findAnswerLocked(response.Key) != nil:
			r.dropAnswer(response.Key, DropUnsolicited) // has been answered
		case q != nil:
			r.acceptAnswer(ctx, q, response.Result)
		case unsolicited > 0:
			unsolicited--
			r.answers = append(r.answers, &answer{
				key: response.Key, content: response.Result, round: r.number, unsolicited: true,
			})
		default:
			r.dropAnswer(response.Key, DropUnsolicited)
		}
	}
	if len(r.dropped) > 0 {
		r.observe(ctx, AnswersDropped{r.where, r.dropped})
	}
}

// maxCold is how many answers of one request are taken that nothing says were
// asked for. What a flow asks is bounded by the size of its state; here only the
// client decides, and every answer that is kept is looked at for each that
// follows. Nobody is asked as much at once.
const maxUnsolicited = 256

func (r *run) findAsked(key string) *pendingQuestion {
	if r.prior == nil {
		return nil
	}
	for i := range r.prior.asked {
		if r.prior.asked[i].key == key {
			return &r.prior.asked[i]
		}
	}
	return nil
}

func (r *run) acceptAnswer(ctx context.Context, q *pendingQuestion, result json.RawMessage) {
	outcome, content, err := interpret(q.kind, result)
	if err != nil {
		r.dropAnswer(q.key, DropMalformed)
		return
	}
	r.answers = append(r.answers, &answer{
		key: q.key, kind: q.kind, outcome: outcome, digest: q.digest, schema: q.schema, mark: q.mark,
		content: content, round: r.number,
	})
	if !r.funnel.silent {
		r.reportAnswered(ctx, q, outcome, time.Since(r.prior.issued))
	}
}

// reportAnswered tells the observer what a person has decided.
func (p *questioner) reportAnswered(ctx context.Context, q *pendingQuestion, outcome Outcome, waited time.Duration) {
	p.observe(ctx, Answered{
		Where: p.where, Key: q.key, Kind: q.kind, Outcome: outcome, Principal: p.call.Principal,
		QuestionDigest: digestQuestion(q.kind, q.key, q.digest, q.mark), Waited: waited,
	})
}

func (r *run) dropAnswer(key string, reason DropReason) {
	r.answersDropped++
	r.dropped = append(r.dropped, Dropped{key, reason})
}

// allAnswersDropped reports whether answers came and none of them could be used.
func (r *run) allAnswersDropped() bool {
	return len(r.responses) > 0 && r.answersDropped == len(r.responses)
}

// maxUnheard is after how many rounds of answers that were all dropped a flow
// is ended instead of asking again: the client loses the state, or garbles the
// answers, and the person would be asked for ever.
const maxRoundsIgnored = 2

// clientLosesState decides whether the flow is to end because answers never reach us.
func (r *run) clientLosesState(c *claims) bool {
	switch {
	case !r.allAnswersDropped():
		if r.prior != nil && r.prior.roundsIgnored > 0 {
			r.funnel.stateless.forgetCaller(r.callerKey())
		}
		return false
	case r.prior == nil:
		c.roundsIgnored = r.funnel.stateless.countRetry(r.callerKey(), time.Now())
	default:
		c.roundsIgnored = r.prior.roundsIgnored + 1
	}
	return c.roundsIgnored >= maxRoundsIgnored
}

// statelessRetries counts, for requests that came with answers but without state,
// how often they did: nothing in the request itself can tell. It is the only
// memory a funnel has of its clients, kept for misbehaving ones only and
// bounded in number and time.
type statelessRetries struct {
	mu      sync.Mutex
	entries map[[32]byte]statelessCaller
}

type statelessCaller struct {
	retries int
	seen    time.Time
}

const (
	maxStatelessCallers = 1024
	statelessCallerTTL  = 10 * time.Minute
)

// countRetry notes one more such request and returns how many there were.
func (t *statelessRetries) countRetry(key [32]byte, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.entries[key]
	if now.Sub(l.seen) > statelessCallerTTL {
		l.retries = 0
	}
	if t.entries == nil {
		t.entries = map[[32]byte]statelessCaller{}
	}
	if len(t.entries) >= maxStatelessCallers {
		t.evictLocked(now)
	}
	l.retries, l.seen = l.retries+1, now
	t.entries[key] = l
	return l.retries
}

// evictLocked makes room: the expired entries, or any one when none is.
func (t *statelessRetries) evictLocked(now time.Time) {
	var victim [32]byte
	for key, l := range t.entries {
		if now.Sub(l.seen) > statelessCallerTTL {
			delete(t.entries, key)
		}
		victim = key
	}
	if len(t.entries) >= maxStatelessCallers {
		delete(t.entries, victim)
	}
}

// forgetCaller drops the count: the client came back with its state.
func (t *statelessRetries) forgetCaller(key [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, key)
}

// callerKey identifies a caller and its request.
func (e *exchange) callerKey() [32]byte {
	c := claims{
		principal: e.call.Principal, method: e.call.Method, target: e.call.Target, arguments: e.arguments,
	}
	return sha256.Sum256(c.appendTo(nil))
}
