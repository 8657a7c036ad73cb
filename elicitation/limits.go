package elicitation

// take takes a slot for one question of a call, or says why there is none. A
// router that is full refuses; it never drops what is pending.
func (r *Router) take(c *Call) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := c.usable(); err != nil {
		return err
	}
	o, p, s := &r.opts, c.origin.Principal, c.origin.Session
	u := r.upstreamAt(c.upstream)
	limit := ""
	switch {
	case full(r.pending, o.MaxPending):
		limit = "global"
	case !p.Anonymous() && full(r.principals[p], o.MaxPerPrincipal):
		limit = "principal"
	case full(s.pending, o.MaxPerSession):
		limit = "session"
	case c.upstream != "" && full(u.pending, o.MaxPerUpstream):
		limit = "upstream"
	}
	if limit != "" {
		r.dropUpstream(c.upstream)
		return later(ReasonCapacity, "Too many elicitations are pending", limit, o.RetryAfter)
	}
	r.pending++
	r.principals[p]++
	s.pending++
	u.pending++
	return nil
}

func full(n, limit int) bool { return limit > 0 && n >= limit }

// free gives a slot back. r.mu is held.
func (r *Router) free(c *Call) {
	p := c.origin.Principal
	r.pending--
	if r.principals[p]--; r.principals[p] == 0 {
		delete(r.principals, p)
	}
	c.origin.Session.pending--
	r.upstreams[c.upstream].pending--
	r.dropUpstream(c.upstream)
	if r.draining && r.pending == 0 {
		r.drained()
	}
}
