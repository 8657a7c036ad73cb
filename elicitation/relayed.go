package elicitation

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Relayed is a question that its upstream has returned with a result (2026-07-28
// basic/patterns/mrtr): nobody waits for the answer, which may come to another process. The host
// keeps the Relayed in the state that the client brings back, sealed, and whichever process gets
// the answer ends it.
//
// So its time-out is counted by the process to which the client comes too late, and never for a
// client that does not come at all: no question is counted as completed and as timed out, unless
// its client sends a copy of an answer to another process, too late, and no shared guard keeps that
// out. Until the answer comes to the process that asked, and no longer than its time, the question
// is pending there.
type Relayed struct {
	ID      string             `json:"i"`
	Mode    protocol.InputKind `json:"k"`
	Message string             `json:"m,omitempty"` // fit for logs, cut at 64 characters
	Created time.Time          `json:"c"`
	// Expires is when an answer comes too late. Zero: whoever asked has kept the time.
	Expires time.Time `json:"e"`
}

// maxRelayedMessage is how much of a message travels with the client, in characters: a state has a
// bound.
const maxRelayedMessage = 64

// OpenRelayed makes a question of the parameters of elicitation/create that an upstream returned.
// It is refused as [Call.Elicit] refuses it, with an [*Error], but for the limits on what is
// pending: nothing here waits for the answer.
func (c *Call) OpenRelayed(ctx context.Context, params json.RawMessage) (*Relayed, error) {
	parsed, refused := c.admitQuestion(ctx, params)
	if refused != nil {
		return nil, c.rejectQuestion(params, refused)
	}
	r, now := c.router, time.Now().Truncate(time.Millisecond)
	q := &Relayed{ID: newID(), Mode: parsed.kind, Created: now, Expires: now.Add(r.opts.Timeout)}
	if r.recordsEvents() {
		q.Message = redact.EscapeText(r.redactMessage(parsed.message), maxRelayedMessage)
	}
	r.metrics.requests.Add(1)
	r.relayed.add(q.ID)
	c.emitQuestion(q, eventCreated, nil)
	return q, nil
}

// DeliverRelayed records that the transport has taken the result with the question. It may be
// called after [Call.End].
func (c *Call) DeliverRelayed(q *Relayed) {
	if _, ended := c.router.relayed.endOf(q.ID); !ended {
		c.emitQuestion(q, eventDelivered, nil)
	}
}

// CompleteRelayed records the client's answer, nil: it sent none that can be used. An answer that
// comes too late is an [*Error] that is [ReasonTimeout], and must not be used. It is called once.
func (c *Call) CompleteRelayed(q *Relayed, result *protocol.ElicitResult) error {
	ended, isCopy := c.router.relayed.endOf(q.ID)
	switch {
	case isCopy && ended != stateTimedOut:
		return nil
	case isCopy, !q.Expires.IsZero() && time.Now().After(q.Expires):
		out := timeoutOutcome()
		c.endRelayed(q, out)
		return out.err
	case result == nil:
		c.endRelayed(q, failed(invalidReply(ReasonInvalidReply, errNoResult)))
		return nil
	}
	out := outcome{state: stateCompleted, result: result}
	out.unseen = result.Action != protocol.ActionAccept &&
		waiting.IsTooSoon(c.ctx, c.router.opts.MinHumanTime, time.Since(q.Created))
	c.endRelayed(q, out)
	return nil
}

// FailRelayed records that there will be no answer, because the request in which the question was
// asked ended without one: as timed out where its time is over, as cancelled where the client has
// given the request up, and else as failed with cause. It is called once, and not beside
// [Call.CompleteRelayed].
func (c *Call) FailRelayed(q *Relayed, cause error) {
	switch ended := context.Cause(c.ctx); {
	case !time.Now().Before(q.Expires):
		c.endRelayed(q, timeoutOutcome())
	case errors.Is(ended, waiting.ErrClosing), errors.Is(cause, waiting.ErrClosing):
		c.endRelayed(q, c.router.cancelledOutcome(byShutdown, ended))
	case ended != nil:
		c.endRelayed(q, c.router.cancelledOutcome(byClient, ended))
	default:
		c.endRelayed(q, failed(newFailure(ReasonDelivery, textUndelivered, errors.Join(cause))))
	}
}

// endRelayed counts the outcome of a question, unless a copy of the request that brought it has
// come to this process before.
func (c *Call) endRelayed(q *Relayed, out outcome) {
	if out.err != nil {
		out.err.RequestID = q.ID
	}
	if c.router.relayed.end(q.ID, out.state) {
		return
	}
	c.router.metrics.countOutcome(out, time.Since(q.Created))
	c.emitQuestion(q, out.eventKind(), &out)
}

// maxRelayed is how many relayed questions a process counts as pending, 100 bytes each. Beyond it
// they are asked all the same.
const maxRelayed = 10_000

// relayedQuestions are those that this process has asked, until their end here or for their time.
type relayedQuestions struct {
	metrics *metrics
	expiry  *recent.Queue[string]

	mu    sync.Mutex
	open  map[string]*recent.Entry[string]
	ended *recent.Map[string, state] // lately, and how
}

func newRelayedQuestions(m *metrics, timeout time.Duration) *relayedQuestions {
	t := &relayedQuestions{metrics: m, open: map[string]*recent.Entry[string]{},
		ended: recent.New[string, state](maxEndedQuestions, 0)}
	t.expiry = recent.NewQueue(timeout, t.remove)
	return t
}

func (t *relayedQuestions) add(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= maxRelayed {
		return
	}
	e := &recent.Entry[string]{}
	t.open[id] = e
	t.expiry.Add(e, id)
	t.metrics.pending.Add(1)
}

// end removes a question, and reports whether it has ended before.
func (t *relayedQuestions) end(id string, how state) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again = t.ended.Get(id); !again {
		t.ended.Put(id, how)
		t.removeLocked(id)
	}
	return again
}

// endOf returns how a question has lately ended in this process, if it has.
func (t *relayedQuestions) endOf(id string) (how state, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended.Get(id)
}

// remove removes a question that is not pending here any more.
func (t *relayedQuestions) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(id)
}

func (t *relayedQuestions) removeLocked(id string) {
	if e := t.open[id]; e != nil {
		t.expiry.Remove(e)
		delete(t.open, id)
		t.metrics.pending.Add(-1)
	}
}
