package middleware

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A leg is what is learned about one request while it runs, by the middleware
// of this package and the events it observes. It travels in the context.
type leg struct {
	in      *server.Incoming
	started time.Time
	watch   waiting.Watch
	waiting prometheus.Gauge // of calls that wait; nil: nobody counts them
	logged  bool             // an entry will be written for it

	mu       sync.Mutex
	id       string // of the request, once it is known
	flow     string
	round    int
	asked    *askedFields  // what it asked, when its own entry says so
	waits    time.Time     // since when it waits for a person, zero: it does not
	waited   time.Duration // before that
	timedOut bool
	over     bool
}

// legContext is a context that carries a leg, in one allocation.
type legContext struct {
	context.Context
	leg leg
}

type legKey struct{}

func (c *legContext) Value(key any) any {
	switch key {
	case legKey{}, requestid.Key{}:
		return &c.leg
	case waiting.Key():
		return &c.leg.watch
	}
	return c.Context.Value(key)
}

// withLeg returns the leg of in and a context that carries it. The outermost
// middleware makes it. A server that is called in process by a handler of
// another one, under its context, has legs of its own.
func withLeg(ctx context.Context, in *server.Incoming) (context.Context, *leg) {
	if l := legFrom(ctx); l != nil && l.in == in {
		return ctx, l
	}
	c := &legContext{Context: ctx, leg: leg{in: in, started: time.Now()}}
	c.leg.watch.Init(ctx, &c.leg)
	return c, &c.leg
}

// SetWaiting implements [waiting.Listener].
func (l *leg) SetWaiting(waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
	case waiting:
		l.waits = time.Now()
		l.addWaitingLocked(1)
	default:
		l.endWaitLocked()
	}
}

func (l *leg) endWaitLocked() {
	if !l.waits.IsZero() {
		l.waited += time.Since(l.waits)
		l.waits = time.Time{}
		l.addWaitingLocked(-1)
	}
}

func (l *leg) addWaitingLocked(n float64) {
	if l.waiting != nil {
		l.waiting.Add(n)
	}
}

// end returns how long the leg took: the work, and the time that it waited for
// people. A goroutine that waits on after the handler has returned does not count.
func (l *leg) end() (work, waited time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endWaitLocked()
	l.over = true
	return time.Since(l.started) - l.waited, l.waited
}

// countWaiting has the leg counted in a gauge while it waits.
func (l *leg) countWaiting(gauge prometheus.Gauge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = gauge
}

func legFrom(ctx context.Context) *leg {
	l, _ := ctx.Value(legKey{}).(*leg)
	return l
}

// RequestID implements [requestid.Named]. A request that no server has named is
// named here.
func (l *leg) RequestID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requestIDLocked()
}

func (l *leg) requestIDLocked() string {
	if l.id == "" {
		if l.id = l.in.RequestID; l.id == "" {
			l.id = requestid.New()
		}
	}
	return l.id
}

// follow notes which flow and round a leg turned out to belong to.
func (l *leg) follow(where roundtrip.Where) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if where.Flow != "" {
		l.flow = where.Flow
	}
	l.round = max(l.round, where.Round)
}

// describe notes in the entry of the leg what it turned out to be: which request,
// of which flow, in which round, and what it asked, nil where an entry of its own
// says so.
func (l *leg) describe(e *requestEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.request, e.flow, e.round, e.asked = l.requestIDLocked(), l.flow, l.round, l.asked
}

// noteAsked notes what the leg asked, for its entry.
func (l *leg) noteAsked(asked *askedFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = asked
}

func (l *leg) setTimedOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timedOut = true
}

func (l *leg) isTimedOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timedOut
}

// whereOf returns which request an event is about. It reports false for events
// that are about none, or of a type that is not known here.
func whereOf(event roundtrip.Event) (roundtrip.Where, bool) {
	switch e := event.(type) {
	case roundtrip.StateRejected:
		return e.Where, true
	case roundtrip.AnswersDropped:
		return e.Where, true
	case roundtrip.Answered:
		return e.Where, true
	case roundtrip.AnswerInvalid:
		return e.Where, true
	case roundtrip.DeclineIgnored:
		return e.Where, true
	case roundtrip.HandlerFailed:
		return e.Where, true
	case roundtrip.Resumed:
		return e.Where, true
	case roundtrip.InputRequested:
		return e.Where, true
	case roundtrip.FlowEnded:
		return e.Where, true
	case roundtrip.CapabilityRefused:
		return e.Where, true
	case roundtrip.LegRunning:
		return e.Where, true
	case roundtrip.PushFailed:
		return e.Where, true
	case roundtrip.HandlerPanicked:
		return e.Where, true
	case roundtrip.ServerBug:
		return e.Where, true
	case roundtrip.QuotaExceeded:
		return e.Where, true
	case roundtrip.WaitBegan:
		return e.Where, true
	case roundtrip.WaitEnded:
		return e.Where, true
	}
	return roundtrip.Where{}, false
}

// where tells observers which request an event is about.
func where(in *server.Incoming) roundtrip.Where {
	return roundtrip.Where{Version: in.Version, Method: in.Request.Method, Target: in.Target, Request: in.RequestID}
}
