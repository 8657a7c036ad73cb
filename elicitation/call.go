package elicitation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// An UpstreamKey names one connection to an upstream server. Two connections,
// also to the same server, have different keys.
type UpstreamKey string

// An Origin is the request of a client that a call upstream serves. An Origin of package
// client is where a question that a client got comes from.
type Origin struct {
	// Session is the client. It is required.
	Session *Session
	// Principal is who sent the request, zero: the session's.
	Principal protocol.Principal
	// Request is the id of the client's request; it may be zero. Logs have it.
	Request protocol.ID
	// CallID is the name by which [Router.ElicitFrom] tells the calls on one connection
	// apart, "": a random one, see [Call.Origin].
	CallID string
	// Capabilities are what the client declared with this request, nil: what
	// it declared for the session.
	Capabilities *protocol.ClientCapabilities
	// ProgressToken is the token of the client's request. The client gets heartbeats
	// on it while a person is asked; see [Call.RelayProgress].
	// [ViaFrames] use it, and Askers that are a [ProgressDeliverer]. Zero: the client
	// wants no progress.
	ProgressToken protocol.ID
}

// A Call is a request of a client while an upstream serves it, from [Router.Begin] to
// [Call.End]. It is the gateway's side of a request: those of packages server and roundtrip
// are the side of a server that runs a handler. All methods may be called concurrently.
type Call struct {
	router   *Router
	ctx      context.Context // of the request, from Begin to End
	origin   Origin
	via      Via
	upstream UpstreamKey
	subject  string // of an authenticated principal, for the log
	began    time.Time
	unwatch  func() bool // stops watching ctx
	progress progressWriter

	// Guarded by router.mu.
	questions    []*pendingQuestion
	over         bool            // takes no more questions: ended, or its context is
	ended        bool            // by End
	overBefore   bool            // over at the last sweep, and not ended
	upstreamDone bool            // by ConfirmUpstreamEnd
	abandoned    *abandonedCount // that has this call; nil: it is not abandoned
}

// Begin registers a request of a client that an upstream is about to serve: until
// [Call.End], questions of the upstream on that connection may be for this client.
// When ctx ends, pending questions are withdrawn and further ones refused. An
// empty upstream key stands for a connection of this call's own, on which
// [Router.ElicitFrom] finds nothing.
//
// ctx must be the context of the call upstream. When that ends before End, the call is
// abandoned, and the upstream may take its time to notice: until
// [Call.ConfirmUpstreamEnd], or as long as a question may last, [Router.ElicitFrom] refuses
// questions on that connection that do not say which call they belong to. A host whose
// upstream cannot say when it is done, as over stdio, gives further calls a new connection.
//
// Every Begin needs an End. A refusal is an [*Error] for the client's request, logged and
// counted as elicitation.rejected: [ReasonNoSession] when the session is detached, and
// [ReasonShutdown], with the time after which to try again, after [Router.Shutdown].
func (r *Router) Begin(
	ctx context.Context, origin Origin, via Via, upstream UpstreamKey,
) (*Call, error) {
	if origin.Session == nil || origin.Session.router != r {
		return nil, errors.New("elicitation call: Origin.Session is not one of this router")
	}
	if origin.Principal == (protocol.Principal{}) {
		origin.Principal = origin.Session.info.Principal
	}
	if origin.CallID == "" {
		origin.CallID = newID()
	}
	c := &Call{
		router: r, ctx: ctx, origin: origin, via: via, upstream: upstream, began: time.Now(),
	}
	if r.opts.Log != nil {
		c.subject = r.subjectOf(origin.Principal)
	}
	c.progress.setVia(via, origin.ProgressToken)
	if refused := r.insertCall(c); refused != nil {
		return nil, c.rejectQuestion(nil, refused)
	}
	return c, nil
}

// insertCall stores a call, unless its session is gone by now.
func (r *Router) insertCall(c *Call) *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refused := c.checkUsableLocked(); refused != nil {
		return refused
	}
	r.insertCallLocked(c)
	c.unwatch = context.AfterFunc(c.ctx, func() { c.cancelQuestions(byClient) })
	return nil
}

// End ends the call. Pending questions are withdrawn. It may be called again. When it
// returns no more progress is delivered, so hosts call it before the client gets its
// result; it waits two seconds at most for a delivery in flight.
func (c *Call) End() {
	c.unwatch()
	c.cancelQuestions(byCallEnd)
	c.progress.close()
	r := c.router
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if c.upstream != "" && c.ctx.Err() != nil && !c.upstreamDone {
		c.abandonLocked()
	}
	r.removeCallLocked(c)
}

// cancelQuestions withdraws the pending questions of the call, and no further ones
// begin.
func (c *Call) cancelQuestions(by string) {
	c.router.mu.Lock()
	c.over = true
	pending := slices.Clone(c.questions) // finish changes the list
	c.router.mu.Unlock()
	for _, p := range pending {
		p.finishCancelled(by, context.Cause(c.ctx))
	}
}

// Origin returns the origin that was given to Begin, with the principal and the id of
// the call filled in.
func (c *Call) Origin() Origin { return c.origin }

// UpstreamCapabilities are what a gateway may declare to the upstream for this
// call: the modes of elicitation that its client can be asked in.
func (c *Call) UpstreamCapabilities() protocol.ClientCapabilities {
	return upstreamCapabilities(c.capabilities(), c.origin.Session.info.Version)
}

func (c *Call) capabilities() protocol.ClientCapabilities {
	if c.origin.Capabilities != nil {
		return *c.origin.Capabilities
	}
	return c.origin.Session.info.Capabilities
}

// startSweepLocked starts the timer of endLeakedCalls with the first call. It runs
// only while there are calls.
func (r *Router) startSweepLocked() {
	switch {
	case len(r.calls) > 1:
	case r.sweep == nil:
		r.sweep = time.AfterFunc(r.opts.SweepInterval, r.endLeakedCalls)
	default:
		r.sweep.Reset(r.opts.SweepInterval)
	}
}

// endLeakedCalls reports and ends calls that were over already at the last sweep and that
// their host has not ended: what comes on their connection would be ambiguous for ever.
// The host may still end them itself.
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
