package roundtrip

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

// sort puts the answers that came with the call where the handler finds them.
// Only answers to questions that the sealed state says were asked count, in
// the shape that each question requires; the rest is dropped and reported.
// Schemas are applied where an answer is read, because only the reader knows
// the form.
func (p *pass) sort(ctx context.Context) {
	p.unused = 0
	if p.prior != nil {
		p.round.answers = p.prior.answers
	}
	cold := 0 // how many more are taken
	if p.call.AcceptCold || p.funnel.opts.Plain {
		cold = maxCold
	}
	for _, r := range p.call.Responses {
		q := p.asked(r.Key)
		switch {
		case p.round.find(r.Key) != nil:
			p.drop(r.Key, DropUnsolicited) // has been answered
		case q != nil:
			p.accept(ctx, q, r)
		case cold > 0:
			cold--
			p.round.answers = append(p.round.answers, &answer{
				key: r.Key, content: r.Result, round: p.round.number, unsolicited: true,
			})
		default:
			p.drop(r.Key, DropUnsolicited)
		}
	}
	if len(p.round.dropped) > 0 {
		p.observe(ctx, AnswersDropped{p.where, p.round.dropped})
	}
}

// maxCold is how many answers of one request are taken that nothing says were
// asked for. What a flow asks is bounded by the size of its state; here only the
// client decides, and every answer that is kept is looked at for each that
// follows. Nobody is asked as much at once.
const maxCold = 256

func (p *pass) asked(key string) *asked {
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

func (p *pass) accept(ctx context.Context, q *asked, r protocol.KeyedResponse) {
	outcome, content, err := interpret(q.kind, r.Result)
	if err != nil {
		p.drop(r.Key, DropMalformed)
		return
	}
	p.round.answers = append(p.round.answers, &answer{
		key: q.key, kind: q.kind, outcome: outcome, digest: q.digest, schema: q.schema, mark: q.mark,
		content: content, round: p.round.number,
	})
	if !p.funnel.silent {
		p.reportAnswered(ctx, q, outcome, time.Since(p.prior.issued))
	}
}

// reportAnswered tells the observer what a person has decided.
func (p *asker) reportAnswered(ctx context.Context, q *asked, outcome Outcome, waited time.Duration) {
	p.observe(ctx, Answered{
		Where: p.where, Key: q.key, Kind: q.kind, Outcome: outcome, Principal: p.call.Principal,
		QuestionDigest: digestQuestion(q.kind, q.key, q.digest, q.mark), Waited: waited,
	})
}

func (p *pass) drop(key string, reason DropReason) {
	p.unused++
	p.round.dropped = append(p.round.dropped, Dropped{key, reason})
}

// unheard reports whether answers came and none of them could be used.
func (p *pass) unheard() bool {
	return len(p.call.Responses) > 0 && p.unused == len(p.call.Responses)
}

// maxUnheard is after how many rounds of answers that were all dropped a flow
// is ended instead of asking again: the client loses the state, or garbles the
// answers, and the person would be asked for ever.
const maxUnheard = 2

// loserTable counts, for requests that came with answers but without state,
// how often they did: nothing in the request itself can tell. It is the only
// memory a funnel has of its clients, kept for misbehaving ones only and
// bounded in number and time.
type loserTable struct {
	mu     sync.Mutex
	counts *recent.Map[[32]byte, int]
}

const (
	maxLosers = 1024
	loserTTL  = 10 * time.Minute
)

// count notes one more such request and returns how many there were.
func (t *loserTable) count(key [32]byte) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = recent.New[[32]byte, int](maxLosers, loserTTL)
	}
	n, _ := t.counts.Get(key)
	n++
	t.counts.Put(key, n)
	return n
}

// forget drops the count: the client came back with its state.
func (t *loserTable) forget(key [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Delete(key)
}

// loserKey identifies a caller and its request.
func (p *pass) loserKey() [32]byte {
	c := claims{
		principal: p.call.Principal, method: p.call.Method, target: p.call.Target, arguments: p.arguments,
	}
	return sha256.Sum256(c.append(nil))
}
