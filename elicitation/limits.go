package elicitation

import "github.com/rondo-mcp/rondo/internal/quota"

// slots count the questions that are pending. A router that is full refuses; it
// never drops what is pending.
type slots struct {
	questions *quota.Pool[Principal]   // in all and by principal
	sessions  *quota.Pool[*Session]    // by session alone
	upstreams *quota.Pool[UpstreamKey] // by connection alone; a call's own one is not bound
}

func newSlots(o *Options) slots {
	limit := func(n int) int64 { return int64(max(n, -1)) }
	return slots{
		questions: quota.New(quota.Options[Principal]{Total: limit(o.MaxPending), Share: limit(o.MaxPerPrincipal)}),
		sessions:  quota.New(quota.Options[*Session]{Total: -1, Share: limit(o.MaxPerSession)}),
		upstreams: quota.New(quota.Options[UpstreamKey]{Total: -1, Share: limit(o.MaxPerUpstream)}),
	}
}

// takeForCall takes a slot for one question of a call, or names the limit that is
// reached.
func (s *slots) takeForCall(c *Call) (limit string) {
	p := c.origin.Principal
	switch s.questions.Take(p, 1) {
	case quota.Total:
		return "global"
	case quota.Share:
		return "principal"
	}
	if s.sessions.Take(c.origin.Session, 1) != quota.None {
		s.questions.Give(p, 1)
		return "session"
	}
	if s.upstreams.Take(c.upstream, 1) != quota.None {
		s.questions.Give(p, 1)
		s.sessions.Give(c.origin.Session, 1)
		return "upstream"
	}
	return ""
}

func (s *slots) giveBackForCall(c *Call) {
	s.questions.Give(c.origin.Principal, 1)
	s.sessions.Give(c.origin.Session, 1)
	s.upstreams.Give(c.upstream, 1)
}

// countPending is how many questions there are.
func (s *slots) countPending() int { return int(s.questions.Used()) }

// takeSlot takes a slot for one question of a call, or says why there is none.
func (r *Router) takeSlot(c *Call) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := c.checkUsableLocked(); err != nil {
		return err
	}
	if limit := r.slots.takeForCall(c); limit != "" {
		return retryLaterError(ReasonCapacity, "Too many elicitations are pending", limit, r.opts.RetryAfter)
	}
	r.findOrAddUpstreamLocked(c.upstream) // stays until the slot is given back
	return nil
}

func (r *Router) freeSlotLocked(c *Call) {
	r.slots.giveBackForCall(c)
	r.dropIdleUpstreamLocked(c.upstream)
	if r.draining && r.slots.countPending() == 0 {
		r.signalIdleLocked()
	}
}
