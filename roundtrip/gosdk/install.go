package gosdk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// An Option changes what [Install] does.
type Option func(*options)

type options struct {
	funnel     roundtrip.Options
	principal  func(mcp.Request) roundtrip.Principal
	exact      bool
	unmodified bool
	mustAsk    bool
}

// WithFunnel configures the funnel: the keys that seal states, the guard that makes them
// single-use, the observer, limits. The default seals with a key of this process. A Sealer
// with a shared key requires an Audience, such as the name of the service: the adapter
// cannot read the server's name from the SDK.
func WithFunnel(opts roundtrip.Options) Option {
	return func(o *options) { o.funnel = opts }
}

// WithPrincipal says who calls. States are bound to the caller: one that was
// given to somebody else is refused. The default is [PrincipalOf].
func WithPrincipal(f func(mcp.Request) roundtrip.Principal) Option {
	return func(o *options) { o.principal = f }
}

// WithExactWire sends results exactly as the specification spells them:
// questions in the author's order and without the empty content that the SDK's
// own types always carry, and nothing of caching in older revisions. Receiving
// middleware that is added after Install and asserts the SDK's result types does
// not find them then.
func WithExactWire() Option {
	return func(o *options) { o.exact = true }
}

// WithUnmodifiedHandlers lets handlers that push their questions with the
// SDK's own session methods work on the modern wire without a change. It is
// off by default because handlers then see a session that is not the client's:
// it claims revision 2025-11-25, and is among the server's Sessions while the
// handler runs. See the package comment for what else to know. [Elicit] and its
// siblings need none of this.
func WithUnmodifiedHandlers() Option {
	return func(o *options) { o.unmodified = true }
}

// WithMustAsk is for use with [WithUnmodifiedHandlers]: a call whose handler
// pushes a question that the client did not declare to be able to answer is
// refused, whatever the handler makes of that. Without it the handler gets the
// SDK's error, as it would without this package, and a handler that drops the
// error goes on unasked. It has a price: handlers see a session that stands in
// for the client's in older revisions, too, and one that declares elicitation
// whether the client does or not, because the SDK would not put the question
// otherwise. Handlers that look at the capabilities before they ask can use
// [roundtrip.CanAsk].
func WithMustAsk() Option {
	return func(o *options) { o.mustAsk = true }
}

// Install has every tools/call, prompts/get and resources/read of server take
// the way of a [roundtrip.Funnel]. Call it once, before the server is connected;
// receiving middleware that is added later runs around it, once a request.
//
// It fails when the options contradict each other, and when the SDK is not the
// one that this package was written for: what is relied on beyond the SDK's
// documentation is tried out first, on a server of its own.
func Install(server *mcp.Server, opts ...Option) error {
	if server == nil {
		return errors.New("install: the server is nil")
	}
	if err := tryHost(); err != nil {
		return fmt.Errorf("install: this release of the official Go SDK works differently: %w", err)
	}
	_, err := install(server, opts...)
	return err
}

// install is Install without the trial.
func install(server *mcp.Server, opts ...Option) (*adapter, error) {
	a := &adapter{server: server, options: options{principal: PrincipalOf}}
	for _, opt := range opts {
		opt(&a.options)
	}
	if a.principal == nil {
		a.principal = PrincipalOf
	}
	funnel, err := roundtrip.NewFunnel(a.funnel)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	a.through = funnel
	server.AddReceivingMiddleware(a.receiveRequest)
	server.AddSendingMiddleware(a.sendToClient)
	return a, nil
}

// adapter is what is installed on one server.
type adapter struct {
	options
	server  *mcp.Server
	through *roundtrip.Funnel
	// shadows holds the legs behind the sessions that stand in for a client's.
	shadows sync.Map // *mcp.ServerSession → *leg
	// extendByToken holds what to do when the client reports progress on a question.
	extendByToken sync.Map // progress token → func()
	// reports holds what goes out on the progress tokens of calls.
	reports sync.Map // reportsKey → *reports
}

// receiveRequest is the receiving middleware. Calls may overlap.
func (a *adapter) receiveRequest(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == protocol.NotifyProgress {
			a.extendQuestion(req)
		}
		if !protocol.MultiRoundTrip(method) {
			return a.serveSingleLeg(ctx, method, req, next)
		}
		if runFrom(ctx) != nil {
			a.reportEvent(ctx, roundtrip.ServerBug{Err: errors.New("gosdk.Install was called twice on one server")})
			return nil, encodeError(nil)
		}
		c, err := a.newCall(method, req, next)
		if err != nil {
			return nil, encodeError(err)
		}
		defer c.followProgress(progressToken(req))()
		result, err := a.through.Do(ctx, c.Call, c.runHandler)
		if err != nil {
			return nil, encodeError(err)
		}
		return c.encodeResult(result)
	}
}

// serveSingleLeg serves a request that cannot have rounds.
func (a *adapter) serveSingleLeg(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, req)
	if err != nil || !a.exact || result == nil {
		return result, err
	}
	if hinted, ok := result.(mcp.CacheableResult); ok && isLegacySession(req) {
		return withoutCacheHints(hinted)
	}
	return result, nil
}

func (a *adapter) reportEvent(ctx context.Context, event roundtrip.Event) {
	if a.funnel.Observer != nil {
		a.funnel.Observer.Observe(ctx, event)
	}
}
