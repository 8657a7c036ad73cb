package elicitation

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Router takes questions of upstream servers to the clients whose calls caused
// them and brings the answers back. All methods may be called concurrently.
type Router struct {
	opts    Options
	metrics *metrics
	forms   formCache
	slots   slots

	mu        sync.Mutex // guards what follows, and what is said to be
	sessions  map[string]*Session
	upstreams map[UpstreamKey]*upstreamConn
	questions map[protocol.ID]*pendingQuestion
	urls      map[urlKey]*urlElicitation
	tombs     tombstones
	abandoned abandoned
	calls     map[*Call]struct{} // begun and not ended
	draining  bool
	idle      chan struct{} // closed when draining and nothing is pending
	sweep     *time.Timer

	withdrawals sync.WaitGroup // withdrawals on their way
}

// An upstreamConn is what the router knows of one connection.
type upstreamConn struct {
	calls []*Call
	queue turnQueue // for Exclusive
}

// New returns a router. It is an error when an option is out of range, a metric's
// name is taken by something else, or the bus has another router. opts may be
// nil. A router without sessions holds no goroutine and no timer.
func New(opts *Options) (*Router, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Router{
		opts: o, sessions: make(map[string]*Session), upstreams: make(map[UpstreamKey]*upstreamConn),
		slots: newSlots(&o), questions: make(map[protocol.ID]*pendingQuestion), urls: make(map[urlKey]*urlElicitation),
		calls: make(map[*Call]struct{}), idle: make(chan struct{}),
	}
	if r.metrics, err = registerMetrics(o.Registerer); err != nil {
		return nil, fmt.Errorf("elicitation options: Registerer: %w", err)
	}
	if o.Bus != nil {
		if err := o.Bus.Listen(r.answerBusMessage); err != nil {
			return nil, fmt.Errorf("elicitation options: Bus: %w", err)
		}
	}
	return r, nil
}

// findOrAddUpstreamLocked returns what is known of a connection. r.mu is held.
func (r *Router) findOrAddUpstreamLocked(key UpstreamKey) *upstreamConn {
	u := r.upstreams[key]
	if u == nil {
		u = &upstreamConn{}
		r.upstreams[key] = u
	}
	return u
}

// dropIdleUpstreamLocked forgets a connection that nothing uses. r.mu is held.
func (r *Router) dropIdleUpstreamLocked(key UpstreamKey) {
	if u := r.upstreams[key]; u != nil && len(u.calls) == 0 && r.slots.upstreams.UsedBy(key) == 0 && !u.queue.held {
		delete(r.upstreams, key)
	}
}

// insertQuestion makes an entry known, unless its call is over by now. Its slot has
// been taken before.
func (r *Router) insertQuestion(e *pendingQuestion) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := e.call.checkUsableLocked(); err != nil {
		return err
	}
	if e.url != nil {
		if err := r.rememberURLLocked(e.url); err != nil {
			return err
		}
	}
	r.questions[e.id] = e
	e.call.questions = append(e.call.questions, e)
	return nil
}

// removeQuestion removes an entry that has ended, leaves a tombstone and frees the
// slot. e.mu is held.
func (r *Router) removeQuestion(e *pendingQuestion, end outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.questions, e.id)
	e.call.questions = slices.DeleteFunc(e.call.questions, func(other *pendingQuestion) bool { return other == e })
	r.tombs.add(e.id, endedQuestion{e.call.origin.Session.info.ID, e.call.origin.Principal, end.replied})
	if e.url != nil && !end.mayVisit() {
		r.forgetURLLocked(e.url)
	}
	r.freeSlotLocked(e.call)
}

// checkUsableLocked tells whether a call may ask. r.mu is held.
func (c *Call) checkUsableLocked() *Error {
	switch {
	case c.router.draining:
		return c.router.shutdownError()
	case c.over, c.origin.Session.detached:
		return noSessionError(ReasonNoSession, nil)
	}
	return nil
}
