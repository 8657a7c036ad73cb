package mcpgo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/sdk"
	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// defaultMaxMessageBytes is the default limit on messages that [Adapter.Handler] and
// [Adapter.Listen] read, the same as that of rondo's own server. mcp-go has no limit.
const defaultMaxMessageBytes = 4 << 20

// Options configure an [Adapter]. The zero value is safe: states are sealed with a key of
// this process, and unmodified handlers run as without the adapter.
type Options struct {
	// Options are those of the funnel: keys, limits, the guard, the observer. A Sealer with a
	// shared key requires an Audience, such as the name of the service: the adapter cannot
	// read the server's name from mcp-go. Without an Observer warnings go to the default
	// logger of log/slog, such as why a state was refused; [event.Discard] turns that off.
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
	// 4 MiB.
	MaxMessageBytes int
	// Replicas lets any replica take the requests of sessions of older revisions, over
	// HTTP: their ids name the owner of the session, with the id that mcp-go made inside.
	// Authentication goes around [Adapter.Handler], so that both replicas ask for it, and
	// [Adapter.AnswerChallenges] around that. Nil: sessions of other replicas are unknown.
	Replicas *replicas.Options
}

// An Adapter puts the handlers of servers of mcp-go behind a [roundtrip.Funnel]. One Adapter
// is enough for a process: it serves any number of servers, which then share its key and
// its limits. Its methods may be called concurrently.
type Adapter struct {
	opts   Options
	funnel *roundtrip.Funnel
	// forwarder passes on requests for sessions of other replicas; nil: nobody does.
	forwarder *hophttp.Forwarder
	// installed has the servers that have the middleware. It does not keep them alive.
	installed sync.Map            // weak.Pointer[server.MCPServer] → *sync.Once
	used      atomic.Bool         // a server was installed
	endpoint  accepthttp.Endpoint // over HTTP
	reports   reportsTable
	flushes   flushTable
	// sessionIDKey is the key of the ids that handlers see in place of mcp-go's empty one.
	sessionIDKey  []byte
	sessionIDRead sync.Once // a handler has read such an id of a caller without principal
}

// New returns an adapter, to be used for all servers of a process. Nil opts are the
// defaults.
//
// New fails when the options contradict each other, and when this version of mcp-go does
// not behave as the adapter relies on. The first New of a process tests that on a server
// of its own, and the error names what has changed.
func New(opts *Options) (*Adapter, error) {
	a := &Adapter{sessionIDKey: []byte(rand.Text())}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Observer == nil {
		a.opts.Observer = sdk.Observer{}
	}
	if a.opts.MaxMessageBytes <= 0 {
		a.opts.MaxMessageBytes = defaultMaxMessageBytes
	}
	var err error
	a.forwarder, err = hophttp.New(a.opts.Replicas)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: Replicas: %w", err)
	}
	if err := testMCPGo(); err != nil {
		return nil, fmt.Errorf("mcpgo: this version of mcp-go is not supported: %w", err)
	}
	if a.funnel, err = roundtrip.NewFunnel(&a.opts.Options); err != nil {
		return nil, fmt.Errorf("mcpgo: %w", err)
	}
	return a, nil
}

// testMCPGo runs the self-test once. Its outcome depends on mcp-go alone.
var testMCPGo = sync.OnceValue(runSelfTest)

// Install adds the adapter's middleware to a server: every tools/call, prompts/get and
// resources/read then passes the funnel. [Adapter.Handler] and [Adapter.Listen] install by
// themselves on a server that they know. Install is for servers that they do not know, and
// for the order of middleware: what the server has before runs outside of the adapter, once
// per request, and sees complete results and those that ask; what is added later runs
// inside, once for each run of the handler. Install is cheap enough for a server that lives
// for one request, and does nothing where the server has the middleware. It must not be
// called while the server serves.
//
// Requests of an installed server must come through [Adapter.Handler] or [Adapter.Listen],
// except within the process, over the old SSE transport, and over sessions of other
// packages. Those that come in another way are refused, with an error that says so.
func (a *Adapter) Install(s *server.MCPServer) error {
	if s == nil {
		return errors.New("mcpgo: Install: the server is nil")
	}
	a.ensureInstalled(s)
	return nil
}

// Option is [Adapter.Install] as an option for server.NewMCPServer, to be given after those
// that add middleware.
func (a *Adapter) Option() server.ServerOption { return a.ensureInstalled }

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
