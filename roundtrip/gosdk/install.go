package gosdk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/replicahttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Options configure an [Adapter]. The zero value is safe: states are sealed with a key of
// this process, and unmodified handlers run as without the adapter.
type Options struct {
	// Options are those of the funnel: keys, limits, the guard, the observer. A Sealer
	// with a shared key requires an Audience, such as the name of the service: the
	// adapter cannot read the server's name from the SDK.
	roundtrip.Options
	// Principal returns the principal of a request, to which states are bound: a state
	// of another principal is refused. Calls may overlap. Nil: [PrincipalOf].
	Principal func(mcp.Request) protocol.Principal
	// ExactWire sends results exactly as the specification has them: questions in the
	// author's order and without the empty content that the SDK's own types always
	// have, and without cache hints in older revisions. Receiving middleware that is
	// added after Install and asserts the SDK's result types does not find them then.
	ExactWire bool
	// UnmodifiedHandlers lets handlers that push their questions with the SDK's own
	// session methods ask clients of revision 2026-07-28 as well; see "Unmodified
	// handlers" in the package comment for the price. Off by default. [Elicit] and the
	// other functions of this package do not need it.
	UnmodifiedHandlers bool
	// MustAsk refuses a call whose unmodified handler pushes a question that the client
	// has not declared it can answer, whatever the handler does with the error. Without
	// MustAsk the handler gets the SDK's error, as it would without this package, and one
	// that ignores the error goes on without the answer. With it handlers see a shadow
	// session in older revisions, too, and one that declares elicitation whether the
	// client does or not, because the SDK would refuse to send the question otherwise.
	// Handlers that check the capabilities before they ask can use [roundtrip.CanAsk].
	MustAsk bool
	// Replicas lets any replica take the requests of sessions of older revisions, over
	// HTTP. Nil: those of other replicas are unknown.
	Replicas *Replicas
}

// An Adapter puts the handlers of a server of the SDK behind a [roundtrip.Funnel]. Its
// methods may be called concurrently.
type Adapter struct {
	opts   Options
	server *mcp.Server
	funnel *roundtrip.Funnel
	// forwarder passes on requests for sessions of other replicas; nil: nobody does.
	forwarder *replicahttp.Forwarder
	// shadows has the runs of handlers that see a shadow session.
	shadows sync.Map // *mcp.ServerSession → *handlerRun
	// extendByToken has a function for each pushed question that extends its time.
	extendByToken sync.Map // progress token → func()
	// reports has the progress notifications of calls.
	reports sync.Map // reportsKey → *reports
}

// Install adds an adapter to server: every tools/call, prompts/get and resources/read then
// passes a [roundtrip.Funnel]. Nil opts are the defaults. Call Install once, before the
// server is connected. Receiving middleware that is added later runs outside of the
// adapter, once per request.
//
// Install fails when the options contradict each other, and when this version of the SDK
// does not behave as the adapter relies on: Install tests that on a server of its own, and
// the error names what has changed.
func Install(server *mcp.Server, opts *Options) (*Adapter, error) {
	if server == nil {
		return nil, errors.New("gosdk: the server is nil")
	}
	a := &Adapter{server: server}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Principal == nil {
		a.opts.Principal = PrincipalOf
	}
	funnel, err := roundtrip.NewFunnel(&a.opts.Options)
	if err != nil {
		return nil, fmt.Errorf("gosdk: %w", err)
	}
	a.funnel = funnel
	a.forwarder, err = replicahttp.NewFromConfig((*replicahttp.Config)(a.opts.Replicas))
	if err != nil {
		return nil, fmt.Errorf("gosdk: Replicas: %w", err)
	}
	if err := runSelfTest(); err != nil {
		return nil, fmt.Errorf("gosdk: this version of the official Go SDK is not supported: %w",
			err)
	}
	server.AddReceivingMiddleware(a.receiveRequest)
	server.AddSendingMiddleware(a.sendToClient)
	return a, nil
}

// receiveRequest is the receiving middleware. Calls may overlap.
func (a *Adapter) receiveRequest(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == protocol.NotifyProgress {
			a.extendQuestion(req)
		}
		if !protocol.MultiRoundTrip(method) {
			return a.serveSingleLeg(ctx, method, req, next)
		}
		if runFrom(ctx) != nil {
			a.reportEvent(ctx, event.ServerBug{Err: errors.New("gosdk.Install was called " +
				"twice on one server")})
			return nil, encodeError(nil)
		}
		c, err := a.newCall(method, req, next)
		if err != nil {
			return nil, encodeError(err)
		}
		defer c.followProgress(progressToken(req))()
		result, err := a.funnel.Do(ctx, c.Call, c.runHandler)
		if err != nil {
			return nil, encodeError(err)
		}
		return c.encodeResult(result)
	}
}

// serveSingleLeg serves a request that cannot have rounds.
func (a *Adapter) serveSingleLeg(ctx context.Context, method string, req mcp.Request,
	next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, req)
	if err != nil || !a.opts.ExactWire || result == nil {
		return result, err
	}
	if hinted, ok := result.(mcp.CacheableResult); ok && isLegacySession(req) {
		return withoutCacheHints(hinted)
	}
	return result, nil
}

func (a *Adapter) reportEvent(ctx context.Context, e event.Event) {
	if a.opts.Observer != nil {
		a.opts.Observer.Observe(ctx, e)
	}
}
