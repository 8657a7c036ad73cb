package roundtrip

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// DroppedAnswers lists the unused answers of this round, in order of arrival.
func DroppedAnswers(ctx context.Context) []event.Dropped {
	if r := runFrom(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return append([]event.Dropped(nil), r.dropped...)
	}
	return nil
}

// matchAnswers records the call's answers to questions that the claims list as asked, in the shape
// of the question's kind, and drops and reports the others. Only readers know form schemas, so they
// validate. It runs before the handler starts, so it needs no lock.
func (r *run) matchAnswers(ctx context.Context) {
	if r.prior != nil {
		r.answers = openAnswers(r.prior.Answers, len(r.responses))
	}
	unsolicited := 0 // how many more are accepted
	if r.call.AcceptUnsolicited {
		unsolicited = maxUnsolicited
	}
	for i, response := range r.responses {
		q := r.findAsked(response.Key)
		switch {
		case r.findAnswerLocked(response.Key) != nil, r.isOnPage(response.Key):
			r.dropAnswer(response.Key, words.DropUnsolicited) // or a duplicate
		case q != nil:
			took := pushTime{waited: r.waited}
			if r.took != nil {
				took = r.took[i]
			}
			r.acceptAnswer(ctx, q, &r.responses[i].Result, took.waited)
		case unsolicited > 0:
			unsolicited--
			r.answers = append(r.answers, &answer{
				key: response.Key, content: response.Result, round: r.number, unsolicited: true,
			})
		default:
			r.dropAnswer(response.Key, words.DropUnsolicited)
		}
	}
	if len(r.dropped) > 0 {
		r.observe(ctx, event.AnswersDropped{Where: r.where, Dropped: r.dropped})
	}
}

// openAnswers returns the answers of a state, with room for more.
func openAnswers(carried []claims.Answer, more int) []*answer {
	if len(carried) == 0 {
		return nil
	}
	list, opened := make([]*answer, len(carried), len(carried)+more), make([]answer, len(carried))
	for i := range carried {
		c, a := &carried[i], &opened[i]
		a.key, a.kind, a.outcome, a.digest = c.Key, c.Kind, Outcome(c.Outcome), c.Digest
		a.schema, a.content, a.round = c.Schema, c.Content, c.Round
		a.unsolicited, a.checked, a.mark = c.Unsolicited, c.Checked, c.Mark
		list[i] = a
	}
	return list
}

// maxUnsolicited bounds the unsolicited answers of one request: the client alone decides their
// number, and each kept answer is compared with all that follow.
const maxUnsolicited = 256

func (r *run) findAsked(key string) *claims.Question {
	if r.prior == nil {
		return nil
	}
	for i := range r.prior.Asked {
		if r.prior.Asked[i].Key == key {
			return &r.prior.Asked[i]
		}
	}
	return nil
}

// acceptAnswer records and reports an answer to q after the time waited, or drops a misshapen one.
func (r *run) acceptAnswer(ctx context.Context, q *claims.Question, result *json.RawMessage,
	waited time.Duration) {
	outcome, content, err := r.interpretAfter(ctx, q.Kind, *result, waited)
	if err != nil {
		r.dropAnswer(q.Key, words.DropMalformed)
		return
	}
	if r.answers == nil {
		r.answers = r.room[:0]
	}
	a := &answer{
		key: q.Key, kind: q.Kind, outcome: outcome, digest: q.Digest, schema: q.Schema,
		mark: q.Mark, content: content, round: r.number,
		soon: r.ladder != nil && r.isTooSoon(ctx, waited),
	}
	r.noteForm(true)
	if !r.hideUnseen(a) {
		r.answers = append(r.answers, a)
	}
	r.reportAnswered(ctx, a, result, event.Answered{Where: r.where, Waited: waited})
}

// reportAnswered reports an answer, sent as result. The other fields of e are set.
func (p *questioner) reportAnswered(ctx context.Context, a *answer, result *json.RawMessage,
	e event.Answered) {
	if p.funnel.silent {
		return
	}
	if a.kind == protocol.KindElicitForm {
		e.Way = cmp.Or(e.Way, words.WayForm)
	}
	e.Content = (*rpc.Answer)(result)
	e.Key, e.Kind, e.Decision, e.Principal = a.key, a.kind, a.outcome.toDecision(), p.call.Principal
	e.QuestionDigest = claims.DigestQuestion(a.kind, a.key, a.digest, a.mark)
	p.observe(ctx, e)
}

// dropAnswer notes an unused answer; matchAnswers reports them all at once.
func (r *run) dropAnswer(key string, reason event.DropReason) {
	r.answersDropped++
	r.dropped = append(r.dropped, event.Dropped{Key: key, Reason: reason})
}

func (r responder) allAnswersDropped() bool {
	return len(r.responses) > 0 && r.answersDropped == len(r.responses)
}

// maxRoundsIgnored is after how many rounds in a row with only dropped answers a flow ends: the
// client loses the state or garbles answers, and the user would be asked endlessly.
const maxRoundsIgnored = 2

// countUnusableRound reports whether the flow is to end because the client keeps sending unusable
// answers. c counts such rounds in a row; for requests without a state the funnel counts by caller.
func (r responder) countUnusableRound(c *claims.Claims) bool {
	switch {
	case !r.allAnswersDropped():
		if r.prior != nil && r.prior.RoundsIgnored > 0 {
			r.funnel.stateless.forgetCaller(r.callerKey())
		}
		return false
	case r.prior == nil:
		c.RoundsIgnored = r.funnel.stateless.countRetry(r.callerKey())
	default:
		c.RoundsIgnored = r.prior.RoundsIgnored + 1
	}
	return c.RoundsIgnored >= maxRoundsIgnored
}

// statelessRetries counts, by caller, requests with answers but no state. It is a funnel's only
// memory of its clients, bounded in number and age, and only for misbehaving ones.
type statelessRetries struct {
	mu     sync.Mutex
	counts *recent.Map[[32]byte, int] // by callerKey
}

const (
	maxStatelessCallers = 1024
	statelessCallerTTL  = 10 * time.Minute
)

func (t *statelessRetries) countRetry(key [32]byte) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = recent.New[[32]byte, int](maxStatelessCallers, statelessCallerTTL)
	}
	n, _ := t.counts.Get(key)
	n++
	t.counts.Put(key, n)
	return n
}

func (t *statelessRetries) forgetCaller(key [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Delete(key)
}

// callerKey returns a digest that is the same for repeated calls.
func (e *exchange) callerKey() [32]byte {
	c := claims.Claims{Principal: e.call.Principal, Method: e.call.Method, Target: e.call.Target,
		Arguments: e.arguments, Audience: e.funnel.opts.Audience}
	return sha256.Sum256(c.AppendTo([]byte("rondo page 1\x00")))
}
