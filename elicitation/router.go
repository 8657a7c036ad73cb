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
	forms   forms
	slots   slots

	mu        sync.Mutex // guards what follows, and what is said to be
	sessions  map[string]*Session
	upstreams map[UpstreamKey]*upstream
	entries   map[protocol.ID]*entry
	visits    map[visitKey]*visit
	tombs     tombstones
	abandoned abandoned
	calls     map[*Call]struct{} // begun and not ended
	draining  bool
	idle      chan struct{} // closed when draining and nothing is pending
	sweep     *time.Timer

	sending sync.WaitGroup // withdrawals on their way
}

// An upstream is what the router knows of one connection.
type upstream struct {
	calls []*Call
	queue queue // for Exclusive
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
		opts: o, sessions: make(map[string]*Session), upstreams: make(map[UpstreamKey]*upstream),
		slots: newSlots(&o), entries: make(map[protocol.ID]*entry), visits: make(map[visitKey]*visit),
		calls: make(map[*Call]struct{}), idle: make(chan struct{}),
	}
	if r.metrics, err = registerMetrics(o.Registerer); err != nil {
		return nil, fmt.Errorf("elicitation options: Registerer: %w", err)
	}
	if o.Bus != nil {
		if err := o.Bus.Listen(r.answer); err != nil {
			return nil, fmt.Errorf("elicitation options: Bus: %w", err)
		}
	}
	return r, nil
}

// upstreamAt returns what is known of a connection. r.mu is held.
func (r *Router) upstreamAt(key UpstreamKey) *upstream {
	u := r.upstreams[key]
	if u == nil {
		u = &upstream{}
		r.upstreams[key] = u
	}
	return u
}

// dropUpstream forgets a connection that nothing uses. r.mu is held.
func (r *Router) dropUpstream(key UpstreamKey) {
	if u := r.upstreams[key]; u != nil && len(u.calls) == 0 && r.slots.upstreams.UsedBy(key) == 0 && !u.queue.held {
		delete(r.upstreams, key)
	}
}

// publish makes an entry known, unless its call is over by now. Its slot has
// been taken before.
func (r *Router) publish(e *entry) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := e.call.usable(); err != nil {
		return err
	}
	if e.visit != nil {
		if err := r.keepVisit(e.visit); err != nil {
			return err
		}
	}
	r.entries[e.id] = e
	e.call.entries = append(e.call.entries, e)
	return nil
}

// unpublish removes an entry that has ended, leaves a tombstone and frees the
// slot. e.mu is held.
func (r *Router) unpublish(e *entry, end ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, e.id)
	e.call.entries = slices.DeleteFunc(e.call.entries, func(other *entry) bool { return other == e })
	r.tombs.add(e.id, tomb{e.call.origin.Session.info.ID, e.call.origin.Principal, end.replied})
	if e.visit != nil && !end.visiting() {
		r.forgetVisit(e.visit)
	}
	r.freeSlotLocked(e.call)
}

// usable tells whether a call may ask. r.mu is held.
func (c *Call) usable() *Error {
	switch {
	case c.router.draining:
		return c.router.shuttingDown()
	case c.over, c.origin.Session.detached:
		return noSession(ReasonNoSession, nil)
	}
	return nil
}
