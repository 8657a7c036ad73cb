package elicitation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// An UpstreamKey names one connection to an upstream server, not the server.
type UpstreamKey string

// An Origin is the client request that an upstream call serves.
type Origin struct {
	Session   *Session           // required
	Principal protocol.Principal // sender of the request; zero means the session's principal
	Request   protocol.ID        // id of the client's request, for logs; may be zero
	// CallID identifies the call on its connection, for [Router.ElicitFrom]. Empty means random.
	CallID string
	// Capabilities were declared with this request. Nil means the session's.
	Capabilities *protocol.ClientCapabilities
}

// A Call is a client request at an upstream, from Begin to End. Methods may be called concurrently.
type Call struct {
	router   *Router
	ctx      context.Context // of the request, from Begin to End
	origin   Origin
	via      Via
	upstream UpstreamKey
	subject  string // of an authenticated principal, for the log
	began    time.Time
	unwatch  func() bool // stops watching ctx

	// Guarded by router.mu.
	questions    []*pendingQuestion
	over         bool            // takes no more questions: the call or its context has ended
	ended        bool            // End was called
	overBefore   bool            // over and not ended at the last sweep
	upstreamDone bool            // ConfirmUpstreamEnd was called
	abandoned    *abandonedCount // the count that includes this call; nil if not abandoned
}

// Begin registers a client's request that an upstream is about to serve: until [Call.End], the
// upstream's questions on that connection may be for this client. When ctx ends, pending questions
// are withdrawn and further ones refused. With an empty upstream key the connection belongs to this
// call alone, and [Router.ElicitFrom] does not find the call.
//
// ctx must be the context of the upstream call. If it ends before End, the call is abandoned, and
// the upstream may notice late: until [Call.ConfirmUpstreamEnd], or for as long as a question may
// last, [Router.ElicitFrom] refuses questions on that connection that name no call. If the upstream
// cannot report that it is done, as over stdio, use a new connection for further calls.
//
// Every Begin needs an End. A refusal is an [*Error] for the client's request, logged and counted
// as elicitation.rejected: [ReasonNoSession] if the session is detached, [ReasonShutdown] with
// RetryAfter after [Router.Shutdown].
func (r *Router) Begin(
	ctx context.Context, origin Origin, via Via, upstream UpstreamKey,
) (*Call, error) {
	if origin.Session == nil || origin.Session.router != r {
		return nil, errors.New("elicitation call: Origin.Session is not one of this router")
	}
	origin.Principal = cmp.Or(origin.Principal, origin.Session.info.Principal)
	if origin.CallID == "" {
		origin.CallID = newID()
	}
	c := &Call{
		router: r, ctx: ctx, origin: origin, via: via, upstream: upstream, began: time.Now(),
	}
	if r.opts.Log != nil {
		c.subject = r.subjectOf(origin.Principal)
	}
	if refused := r.insertCall(c); refused != nil {
		return nil, c.rejectQuestion(nil, refused)
	}
	return c, nil
}

// insertCall stores a call unless its session is gone. The first call starts endLeakedCalls.
func (r *Router) insertCall(c *Call) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := c.checkUsableLocked(); refused != nil {
		return refused
	}
	c.origin.Session.calls[c] = struct{}{}
	if c.upstream != "" {
		r.upstreams[c.upstream] = append(r.upstreams[c.upstream], c)
	}
	r.calls[c] = struct{}{}
	switch {
	case len(r.calls) > 1:
	case r.sweep == nil:
		r.sweep = time.AfterFunc(r.opts.SweepInterval, r.endLeakedCalls)
	default:
		r.sweep.Reset(r.opts.SweepInterval)
	}
	c.unwatch = context.AfterFunc(c.ctx, func() { c.cancelQuestions(byClient) })
	return nil
}

// End ends the call and withdraws its pending questions. It may be called again.
func (c *Call) End() {
	c.unwatch()
	c.cancelQuestions(byCallEnd)
	r := c.router
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if c.upstream != "" && c.ctx.Err() != nil && !c.upstreamDone {
		count, known := r.abandoned.Get(c.upstream)
		if !known {
			count = &abandonedCount{}
		}
		count.calls++
		r.abandoned.Put(c.upstream, count) // restarts the count's expiry
		c.abandoned = count
	}
	r.removeCallLocked(c)
}

func (c *Call) cancelQuestions(by string) {
	c.router.mu.Lock()
	c.over = true
	pending := slices.Clone(c.questions) // finish changes the list
	c.router.mu.Unlock()
	for _, p := range pending {
		p.finishCancelled(by, context.Cause(c.ctx))
	}
}

// Origin returns the origin passed to Begin, with Principal and CallID filled in.
func (c *Call) Origin() Origin { return c.origin }

// endLeakedCalls ends calls that were over at the last sweep too: they make questions ambiguous.
func (r *Router) endLeakedCalls() {
	var leaked []*Call
	r.mu.Lock()
	for c := range r.calls {
		if c.overBefore {
			leaked = append(leaked, c)
		}
		c.overBefore = c.over || c.origin.Session.detached
	}
	if len(r.calls) > 0 && !r.draining {
		r.sweep.Reset(r.opts.SweepInterval)
	}
	r.mu.Unlock()
	for _, c := range leaked {
		c.emit(&questionEvent{Kind: eventLeaked, Duration: time.Since(c.began)})
		c.End()
	}
}
