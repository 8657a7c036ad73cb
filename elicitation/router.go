package elicitation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Router routes questions of upstream servers to the clients whose calls caused them, and the
// answers back. All methods may be called concurrently.
type Router struct {
	opts    Options
	metrics *metrics
	forms   *formCache
	slots   slots
	relayed *relayedQuestions

	mu        sync.Mutex // guards the next fields and others that say so; locked after p.mu
	sessions  map[string]*Session
	upstreams map[UpstreamKey][]*Call // begun and not ended, by connection
	questions map[protocol.ID]*pendingQuestion
	urls      map[urlKey]*urlElicitation
	calls     map[*Call]struct{}                        // begun and not ended
	ended     *recent.Map[protocol.ID, endedQuestion]   // tells late replies from forged ones
	abandoned *recent.Map[UpstreamKey, *abandonedCount] // by connection
	draining  bool
	idle      chan struct{} // closed when draining and nothing is pending
	sweep     *time.Timer

	withdrawals sync.WaitGroup // withdrawals in flight
}

// maxEndedQuestions is twenty times the default MaxPending.
const maxEndedQuestions = 2048

type endedQuestion struct {
	session   string
	principal protocol.Principal
	answered  bool
}

// New returns a router. It fails if an option is out of range or a metric's name is taken. opts may
// be nil. A router without sessions has no goroutine and no timer.
func New(opts *Options) (*Router, error) {
	o, err := cmp.Or(opts, &Options{}).withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Router{
		opts: o, slots: newSlots(&o),
		forms:     &formCache{parsed: recent.New[string, parsedForm](maxForms, 0)},
		sessions:  make(map[string]*Session),
		upstreams: make(map[UpstreamKey][]*Call),
		questions: make(map[protocol.ID]*pendingQuestion),
		urls:      make(map[urlKey]*urlElicitation),
		calls:     make(map[*Call]struct{}),
		ended:     recent.New[protocol.ID, endedQuestion](maxEndedQuestions, 0),
		abandoned: recent.New[UpstreamKey, *abandonedCount](maxAbandonedUpstreams, o.maxTimeout()),
		idle:      make(chan struct{}),
	}
	if r.metrics, err = newMetrics(o.Metrics); err != nil {
		return nil, fmt.Errorf("elicitation options: Metrics: %w", err)
	}
	r.relayed = newRelayedQuestions(r.metrics, o.Timeout)
	return r, nil
}

func (r *Router) removeCallLocked(c *Call) {
	delete(c.origin.Session.calls, c)
	delete(r.calls, c)
	for _, u := range c.origin.Session.urls.All() { // may outlive the session
		if u.call == c {
			u.call = nil
		}
	}
	if len(r.calls) == 0 {
		r.sweep.Stop()
	}
	left := slices.DeleteFunc(r.upstreams[c.upstream],
		func(other *Call) bool { return other == c })
	if r.upstreams[c.upstream] = left; len(left) == 0 {
		delete(r.upstreams, c.upstream)
	}
}

// insertQuestionLocked stores a question that has a slot, unless its call is over.
func (r *Router) insertQuestionLocked(p *pendingQuestion) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := p.call.checkUsableLocked(); err != nil {
		return err
	}
	if p.url != nil {
		r.rememberURLLocked(p.url)
	}
	r.questions[p.id] = p
	p.call.questions = append(p.call.questions, p)
	return nil
}

func (p *pendingQuestion) removeLocked(out outcome) {
	r, c := p.router, p.call
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.questions, p.id)
	c.questions = slices.DeleteFunc(c.questions, func(other *pendingQuestion) bool {
		return other == p
	})
	r.ended.Put(p.id, endedQuestion{
		session: c.origin.Session.info.ID, principal: c.origin.Principal,
		answered: out.replied,
	})
	if p.url != nil && (out.result == nil || out.result.Action != protocol.ActionAccept) {
		r.forgetURLLocked(p.url)
	}
	r.freeSlotLocked(c)
}

// Shutdown refuses new sessions, calls and questions, and waits for pending questions. If ctx ends
// first, they are cancelled and withdrawn, and the error is the cause of ctx. Shutdown returns a
// few seconds after ctx ended, even if a transport, log or callback blocks. It may be called again.
func (r *Router) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		if r.sweep != nil {
			r.sweep.Stop()
		}
		if r.Pending() == 0 {
			r.signalIdleLocked()
		}
	}
	r.mu.Unlock()
	var err error
	var ending sync.WaitGroup
	select {
	case <-r.idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
		r.mu.Lock()
		pending := slices.Collect(maps.Values(r.questions))
		r.mu.Unlock()
		for _, p := range pending { // concurrently, because a log may block
			ending.Go(func() {
				r.callHost("callback", func() { p.finishCancelled(byShutdown, nil) })
			})
		}
	}
	r.mu.Lock()
	for _, u := range r.urls {
		r.forgetURLLocked(u)
	}
	r.mu.Unlock()
	r.relayed.expiry.Stop()
	r.waitForWithdrawals(&ending)
	return err
}

func (r *Router) signalIdleLocked() {
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// waitForWithdrawals waits, for a bounded time, until no question is pending or ending and
// withdrawals are sent: a transport may ignore its context and host code may block.
func (r *Router) waitForWithdrawals(ending *sync.WaitGroup) {
	limit := time.NewTimer(2*time.Second + withdrawTimeout)
	defer limit.Stop()
	select {
	case <-r.idle:
	case <-limit.C:
		return
	}
	sent := make(chan struct{})
	go func() {
		ending.Wait()
		r.withdrawals.Wait()
		close(sent)
	}()
	select {
	case <-sent:
	case <-limit.C:
	}
}
