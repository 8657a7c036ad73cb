package middleware

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A leg is what the middleware and the observers of this package learn about one
// request while it runs. The context carries it.
type leg struct {
	request *server.Request
	started time.Time
	watch   waiting.LazyWatch
	waiting prometheus.Gauge // of calls that wait; nil: nobody counts them
	logged  bool             // an entry will be written for it

	mu         sync.Mutex
	id         string // of the request, once it is known
	flow       string
	round      int
	asked      *askedFields  // what it asked, when its own entry says so
	waitsSince time.Time     // since when it waits for a person, zero: it does not
	waited     time.Duration // before that
	timedOut   bool
	ended      bool
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
		return c.leg.watch.Ensure(c.Context, &c.leg)
	}
	return c.Context.Value(key)
}

// withLeg returns the leg of in and a context that carries it. The outermost
// middleware makes the leg. When a handler calls another server in process, under
// its context, the leg of the outer request is not used.
func withLeg(ctx context.Context, request *server.Request) (context.Context, *leg) {
	if l := legFrom(ctx); l != nil && l.request == request {
		return ctx, l
	}
	c := &legContext{Context: ctx}
	c.leg.request, c.leg.started = request, time.Now()
	return c, &c.leg
}

// SetWaiting implements [waiting.Listener].
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

// endLeg returns how long the leg worked, and how long it waited for people. The
// wait of a goroutine that the handler left behind does not count. It may be
// called by several middlewares.
func (l *leg) endLeg() (work, waited time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endWaitLocked()
	l.ended = true
	return time.Since(l.started) - l.waited, l.waited
}

// countWaiting makes the leg count in a gauge while it waits.
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
		if l.id = l.request.RequestID; l.id == "" {
			l.id = requestid.New()
		}
	}
	return l.id
}

// noteWhere keeps the flow and the round of the leg, which events tell. l may be
// nil.
func (l *leg) noteWhere(where event.Where) {
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

// fillEntry completes the entry of the leg with the request, its flow and round,
// and its questions unless an entry of their own has them.
func (l *leg) fillEntry(e *requestEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.request, e.flow, e.round, e.asked = l.requestIDLocked(), l.flow, l.round, l.asked
}

// noteAsked keeps the questions of the leg for its entry.
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

// whereOfEvent returns the request that an event is about. It reports false for
// events about none, and for types that are not known here.
func whereOfEvent(e event.Event) (event.Where, bool) {
	switch e := e.(type) {
	case event.StateRejected:
		return e.Where, true
	case event.AnonymousState:
		return e.Where, true
	case event.AnswersDropped:
		return e.Where, true
	case event.Answered:
		return e.Where, true
	case event.AnswerInvalid:
		return e.Where, true
	case event.DeclineIgnored:
		return e.Where, true
	case event.HandlerFailed:
		return e.Where, true
	case event.Resumed:
		return e.Where, true
	case event.InputRequested:
		return e.Where, true
	case event.FlowEnded:
		return e.Where, true
	case event.CapabilityRefused:
		return e.Where, true
	case event.LegRunning:
		return e.Where, true
	case event.PushFailed:
		return e.Where, true
	case event.HandlerPanicked:
		return e.Where, true
	case event.ServerBug:
		return e.Where, true
	case event.QuotaExceeded:
		return e.Where, true
	case event.WaitBegan:
		return e.Where, true
	case event.WaitEnded:
		return e.Where, true
	}
	return event.Where{}, false
}

// whereOfRareEvent is whereOfEvent with a frame of its own, for the stack of calls that wait.
//
//go:noinline
func whereOfRareEvent(e event.Event) (event.Where, bool) {
	switch e := e.(type) {
	case event.CutOff:
		return e.Where, true
	case event.StoreFailed:
		return e.Where, true
	case event.QuestionReworded:
		return e.Where, true
	}
	return event.Where{}, false
}

// whereOfRequest describes a request in events.
func whereOfRequest(request *server.Request) event.Where {
	return event.Where{Version: request.Version, Method: request.Message.Method,
		Target:  request.Target,
		Request: request.RequestID}
}
