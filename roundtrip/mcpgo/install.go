package mcpgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/replicahttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// DefaultMaxMessageBytes is the default limit on messages that [Adapter.Handler] and
// [Adapter.Listen] read, the same as that of rondo's own server. mcp-go has no limit.
const DefaultMaxMessageBytes = 4 << 20

// Options configure an [Adapter]. The zero value is safe: states are sealed with a key of
// this process, and unmodified handlers run as without the adapter.
type Options struct {
	// Options are those of the funnel: keys, limits, the guard, the observer. Plain is
	// not supported. A Sealer with a shared key requires an Audience, such as the name of
	// the service: the adapter cannot read the server's name from mcp-go.
	roundtrip.Options
	// Principal returns the principal of a request; header is that of the HTTP request,
	// nil on other transports. It is called once per request, with the request's context,
	// and calls may overlap. Nil: callers on standard input and within the process are
	// [protocol.LocalPrincipal], all others are anonymous. Their states are bound to the
	// Authorization header; without one they are bearer tokens. A renewed token is another
	// caller and is refused: set Principal where tokens are renewed while a person thinks.
	Principal func(ctx context.Context, header http.Header) protocol.Principal
	// UnmodifiedHandlers lets handlers that call mcp-go's RequestElicitation,
	// RequestSampling or RequestRoots ask clients of revision 2026-07-28 as well; see
	// "Unmodified handlers" in the package comment for the price. Off by default.
	UnmodifiedHandlers bool
	// MustAsk refuses a call whose unmodified handler pushes a question that the client
	// has not declared it can answer, whatever the handler does with the error. Without
	// MustAsk the handler gets mcp-go's error, as it would without this package, and one
	// that ignores the error goes on without the answer. With it mcp-go's calls pass the
	// checks of the funnel in older revisions, too.
	MustAsk bool
	// MaxMessageBytes bounds the messages that Handler and Listen read, 0:
	// DefaultMaxMessageBytes.
	MaxMessageBytes int
	// Replicas lets any replica take the requests of sessions of older revisions, over
	// HTTP. Nil: those of other replicas are unknown.
	Replicas *Replicas
}

// An Adapter puts the handlers of a server of mcp-go behind a
// [roundtrip.Funnel]. It may be used concurrently, and by several servers.
type Adapter struct {
	opts   Options
	funnel *roundtrip.Funnel
	// forwarder passes on requests for sessions of other replicas; nil: nobody does.
	forwarder *replicahttp.Forwarder
	reports   reportsTable
}

// New returns an adapter; nil opts are the defaults. It fails when the options contradict
// each other, and when this version of mcp-go does not behave as the adapter relies on:
// New tests that on a server of its own, and the error names what has changed.
func New(opts *Options) (*Adapter, error) {
	a := &Adapter{}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.MaxMessageBytes <= 0 {
		a.opts.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if a.opts.Plain {
		return nil, errors.New("mcpgo: Plain is not supported: a server that keeps its own state " +
			"in the clear needs no adapter")
	}
	funnel, err := roundtrip.NewFunnel(&a.opts.Options)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: %w", err)
	}
	a.funnel = funnel
	a.forwarder, err = replicahttp.NewFromConfig((*replicahttp.Config)(a.opts.Replicas))
	if err != nil {
		return nil, fmt.Errorf("mcpgo: Replicas: %w", err)
	}
	if err := runSelfTest(); err != nil {
		return nil, fmt.Errorf("mcpgo: this version of mcp-go is not supported: %w", err)
	}
	return a, nil
}

// Install is [New] and [Adapter.Option] for a server that exists. Call it once, after the
// server's own middleware is added and before it serves. Middleware that was added before
// runs outside of the adapter's, and sees complete results and those that ask.
func Install(s *server.MCPServer, opts *Options) (*Adapter, error) {
	if s == nil {
		return nil, fmt.Errorf("mcpgo: the server is nil")
	}
	a, err := New(opts)
	if err != nil {
		return nil, err
	}
	a.Option()(s)
	return a, nil
}

// Option returns an option for server.NewMCPServer, to be given after those that add
// middleware. It adds the adapter's middleware to the handlers of tools, prompts,
// resources and resource templates.
func (a *Adapter) Option() server.ServerOption {
	return func(s *server.MCPServer) {
		server.WithToolHandlerMiddleware(a.wrapTool)(s)
		server.WithPromptHandlerMiddleware(a.wrapPrompt)(s)
		server.WithResourceHandlerMiddleware(a.wrapResource)(s)
	}
}

// wrapTool is the middleware of tools/call.
func (a *Adapter) wrapTool(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in := readToolRequest(request)
		return serveRequest(a, ctx, in, toolFamily{},
			func(ctx context.Context, again mcp.MultiRoundTripParams) (*mcp.CallToolResult, error) {
				leg := request
				leg.Params.MultiRoundTripParams = again
				return next(ctx, leg)
			})
	}
}

// wrapPrompt is the middleware of prompts/get.
func (a *Adapter) wrapPrompt(next server.PromptHandlerFunc) server.PromptHandlerFunc {
	return func(ctx context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		in := readPromptRequest(request)
		return serveRequest(a, ctx, in, promptFamily{},
			func(ctx context.Context, again mcp.MultiRoundTripParams) (*mcp.GetPromptResult,
				error) {
				leg := request
				leg.Params.MultiRoundTripParams = again
				return next(ctx, leg)
			})
	}
}

// wrapResource is the middleware of resources/read.
func (a *Adapter) wrapResource(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
	return func(ctx context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents,
		error) {
		in := readResourceRequest(request)
		return serveRequest(a, ctx, in, resourceFamily{},
			func(ctx context.Context, again mcp.MultiRoundTripParams) ([]mcp.ResourceContents,
				error) {
				leg := request
				leg.Params.MultiRoundTripParams = again
				return next(ctx, leg)
			})
	}
}
