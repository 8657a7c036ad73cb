package middleware

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A leg has this package's data about a running request. The context carries it.
type leg struct {
	request *server.Request
	started time.Time
	watch   waiting.LazyWatch
	waiting event.Instrument // of waiting calls; may be nil

	mu         sync.Mutex
	id         string // of the request, once it is known
	flow       string
	round      int
	asked      event.Event   // its question, unless logged separately
	waitsSince time.Time     // start of the wait for a user, zero: not waiting
	waited     time.Duration // time waited before that
	ended      bool

	timedOut atomic.Bool
	logged   bool // it will be logged; set before it runs, not guarded by mu
}

type legContext struct {
	context.Context
	leg leg
}

type legKey struct{}

func (c *legContext) Value(key any) any {
	switch key {
	case legKey{}, rpc.IDKey{}:
		return &c.leg
	case waiting.Key():
		return c.leg.watch.Ensure(c.Context, &c.leg)
	}
	return c.Context.Value(key)
}

// withLeg returns the leg of a request, made by the outermost middleware. A handler's in-process
// request to another server, in its context, has a leg of its own.
func withLeg(ctx context.Context, request *server.Request) (context.Context, *leg) {
	if l := legFrom(ctx); l != nil && l.request == request {
		return ctx, l
	}
	c := &legContext{Context: ctx}
	c.leg.request, c.leg.started = request, time.Now()
	return c, &c.leg
}

func (l *leg) SetWaiting(waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
	case waiting:
		l.waitsSince = time.Now()
		l.addWaitingLocked(1)
	default:
		l.endWaitLocked()
	}
}

func (l *leg) endWaitLocked() {
	if !l.waitsSince.IsZero() {
		l.waited += time.Since(l.waitsSince)
		l.waitsSince = time.Time{}
		l.addWaitingLocked(-1)
	}
}

func (l *leg) addWaitingLocked(n float64) {
	if l.waiting != nil {
		l.waiting.Add(n)
	}
}

// endLeg returns how long the leg worked and waited for users. Goroutines left behind by the
// handler do not count. Several middlewares may call it.
func (l *leg) endLeg() (work, waited time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endWaitLocked()
	l.ended = true
	return time.Since(l.started) - l.waited, l.waited
}

func legFrom(ctx context.Context) *leg {
	l, _ := ctx.Value(legKey{}).(*leg)
	return l
}

// RequestID implements [rpc.Named]. It generates an id if the server has none.
func (l *leg) RequestID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requestIDLocked()
}

func (l *leg) requestIDLocked() string {
	if l.id == "" {
		if l.id = l.request.RequestID; l.id == "" {
			l.id = rpc.NewRequestID()
		}
	}
	return l.id
}

// noteEvent records an event's flow and round, and returns the level of its entry: debug for facts
// that the leg's entry repeats. A leg of revision 2026-07-28 ends with its questions, fields of its
// entry unless few rounds are left. In a session a call may ask several times. l may be nil.
func (l *leg) noteEvent(happened event.Event, where event.Where, level event.Level) event.Level {
	if l == nil {
		return level
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if where.Flow != "" {
		l.flow = where.Flow
	}
	l.round = max(l.round, where.Round)
	if !l.logged || level != event.LevelInfo {
		return level
	}
	switch e := happened.(type) {
	case event.InputRequested:
		if where.Version.Era() == protocol.Modern {
			l.asked = happened
			return event.LevelDebug
		}
	case event.FlowEnded:
		if e.How == words.EndComplete {
			return event.LevelDebug
		}
	}
	return level
}

func whereOfRequest(request *server.Request) event.Where {
	return event.Where{Version: request.Version, Method: request.Message.Method,
		Target:  rpc.LogTarget(request.Message.Method, request.Target),
		Request: request.RequestID}
}

// maskText masks strings of the request and apparent credentials. l may be nil.
func (l *leg) maskText(text string) string {
	var secrets redact.Secrets
	if l != nil {
		secrets.AddCredential(l.request.Credential)
		addParams(&secrets, l.request.Params)
	}
	return secrets.Redact(text)
}

func addParams(secrets *redact.Secrets, params protocol.Params) {
	switch p := params.(type) {
	case *protocol.CallToolParams:
		secrets.AddJSON(p.Arguments)
	case *protocol.GetPromptParams:
		secrets.AddJSON(p.Arguments)
	case *protocol.CompleteParams:
		secrets.AddText(p.Value)
		for _, value := range p.Context {
			secrets.AddText(value)
		}
	}
	retry := protocol.RetryOf(params)
	if retry == nil {
		return
	}
	if state, _ := retry.RequestState.Text(); state != "" {
		secrets.AddText(state)
	}
	for _, answer := range retry.InputResponses {
		secrets.AddJSON(answer.Result)
	}
}
