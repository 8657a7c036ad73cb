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

// A Relayed is a question that its upstream returned with a result (2026-07-28
// basic/patterns/mrtr): no call waits for the answer, which may reach another process. The host
// keeps it, sealed, in the state the client returns; the process that gets the answer ends it.
//
// The process that gets a late answer counts a timeout; if the client does not return, no process
// does. No question counts as both completed and timed out, unless its client sends a late copy of
// an answer to another process and no shared guard rejects it. The question is pending in the
// process that asked until the answer comes there or its time is over.
type Relayed struct {
	ID      string             `json:"i"`
	Mode    protocol.InputKind `json:"k"`
	Message string             `json:"m,omitempty"` // redacted, cut at 64 characters
	Created time.Time          `json:"c"`
	Expires time.Time          `json:"e"` // deadline of the answer; zero: the host has enforced it
}

const maxRelayedMessage = 64 // characters, in the client's state

// OpenRelayed creates a question from the elicitation/create parameters that an upstream returned.
// It is refused as in [Call.Elicit], with an [*Error], but has no limit on pending questions,
// because no goroutine waits.
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

// DeliverRelayed records that the transport accepted q. It may be called after [Call.End].
func (c *Call) DeliverRelayed(q *Relayed) {
	if _, ended := c.router.relayed.endOf(q.ID); !ended {
		c.emitQuestion(q, eventDelivered, nil)
	}
}

// CompleteRelayed records the client's answer; nil means an unusable one. For a late answer, which
// must not be used, the error is an [*Error] that is [ReasonTimeout]. Call it once.
func (c *Call) CompleteRelayed(q *Relayed, result *protocol.ElicitResult) error {
	ended, isCopy := c.router.relayed.endOf(q.ID)
	switch {
	case isCopy && ended != eventTimeout:
		return nil
	case isCopy, !q.Expires.IsZero() && time.Now().After(q.Expires):
		out := timeoutOutcome()
		c.endRelayed(q, out)
		return out.err
	case result == nil:
		c.endRelayed(q, failed(invalidReply(ReasonInvalidReply, errNoResult)))
	default:
		unseen := c.isUnseen(result, q.Created)
		c.endRelayed(q, outcome{state: eventCompleted, result: result, unseen: unseen})
	}
	return nil
}

// FailRelayed records that the request with the question ended without an answer: as timeout if its
// time is over, as cancelled if the client abandoned the request, and else as failed with cause.
// Call it once, instead of [Call.CompleteRelayed].
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

// endRelayed counts the outcome, unless this process has already handled a copy of the question.
func (c *Call) endRelayed(q *Relayed, out outcome) {
	if out.err != nil {
		out.err.RequestID = q.ID
	}
	if c.router.relayed.end(q.ID, out.state) {
		return
	}
	c.router.metrics.countOutcome(out, time.Since(q.Created))
	c.emitQuestion(q, out.state, &out)
}

// maxRelayed bounds relayed questions counted as pending, 100 bytes each; more are not counted.
const maxRelayed = 10_000

// A relayedQuestions has this process's questions that have not ended here or timed out.
type relayedQuestions struct {
	metrics *metrics
	expiry  *recent.Queue[string]

	mu    sync.Mutex
	open  map[string]*recent.Entry[string]
	ended *recent.Map[string, eventKind] // questions that ended lately, and how
}

func newRelayedQuestions(m *metrics, timeout time.Duration) *relayedQuestions {
	t := &relayedQuestions{metrics: m, open: map[string]*recent.Entry[string]{},
		ended: recent.New[string, eventKind](maxEndedQuestions, 0)}
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

func (t *relayedQuestions) end(id string, how eventKind) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again = t.ended.Get(id); !again {
		t.ended.Put(id, how)
		t.removeLocked(id)
	}
	return again
}

func (t *relayedQuestions) endOf(id string) (how eventKind, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended.Get(id)
}

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
