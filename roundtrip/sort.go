package roundtrip

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
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
func (p *exchange) sortAnswers(ctx context.Context) {
	p.answersDropped = 0
	if p.prior != nil {
		p.run.answers = p.prior.answers
	}
	cold := 0 // how many more are taken
	if p.call.AcceptCold || p.funnel.opts.Plain {
		cold = maxUnsolicited
	}
	for _, r := range p.call.Responses {
		q := p.findAsked(r.Key)
		switch {
		case p.run.findAnswerLocked(r.Key) != nil:
			p.dropAnswer(r.Key, DropUnsolicited) // has been answered
		case q != nil:
			p.acceptAnswer(ctx, q, r)
		case cold > 0:
			cold--
			p.run.answers = append(p.run.answers, &answer{
				key: r.Key, content: r.Result, round: p.run.number, unsolicited: true,
			})
		default:
			p.dropAnswer(r.Key, DropUnsolicited)
		}
	}
	if len(p.run.dropped) > 0 {
		p.observe(ctx, AnswersDropped{p.where, p.run.dropped})
	}
}

// maxCold is how many answers of one request are taken that nothing says were
// asked for. What a flow asks is bounded by the size of its state; here only the
// client decides, and every answer that is kept is looked at for each that
// follows. Nobody is asked as much at once.
const maxUnsolicited = 256

func (p *exchange) findAsked(key string) *pendingQuestion {
	if p.prior == nil {
		return nil
	}
	for i := range p.prior.asked {
		if p.prior.asked[i].key == key {
			return &p.prior.asked[i]
		}
	}
	return nil
}

func (p *exchange) acceptAnswer(ctx context.Context, q *pendingQuestion, r protocol.KeyedResponse) {
	outcome, content, err := interpret(q.kind, r.Result)
	if err != nil {
		p.dropAnswer(r.Key, DropMalformed)
		return
	}
	p.run.answers = append(p.run.answers, &answer{
		key: q.key, kind: q.kind, outcome: outcome, digest: q.digest, schema: q.schema, mark: q.mark,
		content: content, round: p.run.number,
	})
	if !p.funnel.silent {
		p.reportAnswered(ctx, q, outcome, time.Since(p.prior.issued))
	}
}

// reportAnswered tells the observer what a person has decided.
func (p *questioner) reportAnswered(ctx context.Context, q *pendingQuestion, outcome Outcome, waited time.Duration) {
	p.observe(ctx, Answered{
		Where: p.where, Key: q.key, Kind: q.kind, Outcome: outcome, Principal: p.call.Principal,
		QuestionDigest: digestQuestion(q.kind, q.key, q.digest, q.mark), Waited: waited,
	})
}

func (p *exchange) dropAnswer(key string, reason DropReason) {
	p.answersDropped++
	p.run.dropped = append(p.run.dropped, Dropped{key, reason})
}

// allAnswersDropped reports whether answers came and none of them could be used.
func (p *exchange) allAnswersDropped() bool {
	return len(p.call.Responses) > 0 && p.answersDropped == len(p.call.Responses)
}

// maxUnheard is after how many rounds of answers that were all dropped a flow
// is ended instead of asking again: the client loses the state, or garbles the
// answers, and the person would be asked for ever.
const maxRoundsIgnored = 2

// clientLosesState decides whether the flow is to end because answers never reach us.
func (p *exchange) clientLosesState(c *claims) bool {
	switch {
	case !p.allAnswersDropped():
		if p.prior != nil && p.prior.roundsIgnored > 0 {
			p.funnel.stateless.forgetCaller(p.callerKey())
		}
		return false
	case p.prior == nil:
		c.roundsIgnored = p.funnel.stateless.countRetry(p.callerKey(), time.Now())
	default:
		c.roundsIgnored = p.prior.roundsIgnored + 1
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
func (p *exchange) callerKey() [32]byte {
	c := claims{
		principal: p.call.Principal, method: p.call.Method, target: p.call.Target, arguments: p.arguments,
	}
	return sha256.Sum256(c.appendTo(nil))
}
