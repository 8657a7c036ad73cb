package hosted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A Peer is a server on another SDK. Its methods may be called concurrently.
type Peer interface {
	// OpenSession sends an initialize request of an older revision and returns the response and,
	// unless that is an error, the session; see [protocol.LegacyPeer]. The context has the values
	// of the request that needs the session, and [CallerFrom] returns its caller.
	OpenSession(
		ctx context.Context, initialize *protocol.Request, back protocol.BackCaller,
	) (protocol.LegacySession, *protocol.Response, error)
	// Close closes all sessions.
	Close() error
}

// A Source returns the peer that serves a session of the hosted server. [One] makes such a
// function of a server that serves everybody. Any other is called when a session is opened, under
// the context of the request that needs it, and the peer is closed with the session. An error
// refuses the request; a [*protocol.Error] goes to the client as it is. Calls may overlap.
type Source func(ctx context.Context, caller *Caller) (Peer, error)

type sharedPeer struct{ Peer }

// One returns the source of a server that serves everybody. [Server.Close] closes the peer.
func One(peer Peer) Source {
	return func(context.Context, *Caller) (Peer, error) {
		return sharedPeer{peer}, nil
	}
}

// Options configure a [Server]. The zero value works.
type Options struct {
	// Server configures the server in front: keys, middleware, limits, observer. Info,
	// Instructions and Capabilities are those of the hosted server where they are zero, and
	// nothing else can be registered with it.
	Server server.Options
	// Park are the names of the tools whose handlers must run once. In revision 2026-07-28 the
	// call of such a tool waits in this process while its questions are with the client, so that
	// the answers have to come to this replica. Such a handler asks with the SDK's own methods:
	// roundtrip.Ask fails in it. All other handlers run again from their start in each round.
	Park []string
	// Optional are the names of tools and prompts, and URIs of resources, whose handlers can do
	// without an answer. Where the client cannot be asked they get an error and decide; the call
	// of any other ends with a refusal that says what lacks, whatever its handler does.
	Optional []string
	// AcceptUnsolicited are the names of tools and prompts, and URIs of resources, whose handlers
	// get answers that nothing proves they asked for; see [roundtrip.Call].
	AcceptUnsolicited []string
	// PerRequest opens a session of the hosted server for each request, for sources that make a
	// server by what the request carries.
	PerRequest bool
	// MaxSessions is how many sessions of the hosted server are kept for callers of revision
	// 2026-07-28, for 5 minutes after their last request. 0: 1,000; negative: none. Beyond it a
	// request has a session of its own.
	MaxSessions int
}

// A Server is rondo's server in front of a hosted one. All methods may be called concurrently.
type Server struct {
	opts     Options
	source   Source
	front    *server.Server
	sessions *sessionTable
	tools    annotatedTools
	park     *relay.Park
	shared   atomic.Pointer[sharedPeer] // of [One], once a session has been opened
	life     context.Context            // of handlers that run once
	end      context.CancelFunc
}

// New returns a server in front of those of source. It opens a session of nobody to learn what the
// hosted server offers, and closes it again. Where that fails, because a source needs to know who
// calls, Options.Server.Info must name the server; it then declares tools, prompts, resources and
// completions unless Options.Server.Capabilities says otherwise.
func New(source Source, opts *Options) (*Server, error) {
	if source == nil {
		return nil, errors.New("hosted: the source is nil")
	}
	h := &Server{source: source}
	if opts != nil {
		h.opts = *opts
	}
	with := h.opts.Server
	offers, err := h.describe()
	if err != nil {
		if with.Info.Name == "" {
			return nil, fmt.Errorf("hosted: the server cannot be asked what it offers: %w; if it "+
				"needs to know who calls, set Options.Server.Info", err)
		}
		offers = offerAll(with.Info)
	}
	if with.Info.Name == "" {
		with.Info = offers.ServerInfo
	}
	with.Instructions = cmp.Or(with.Instructions, offers.Instructions)
	if c := with.Capabilities; c.Tools == nil && c.Prompts == nil && c.Resources == nil {
		with.Capabilities = offers.Capabilities
	}
	with.Middleware = append(slices.Clone(with.Middleware), h.answerHosted)
	// What a hosted server lists may depend on who asks.
	with.PrivateLists = true
	if h.front, err = server.New(&with); err != nil {
		return nil, fmt.Errorf("hosted: %w", err)
	}
	h.sessions = newSessionTable(h)
	h.life, h.end = context.WithCancel(context.Background())
	h.park = relay.NewPark(relay.Limits{Place: "server"})
	return h, nil
}

func (h *Server) describe() (*protocol.InitializeResult, error) {
	s, err := h.openSession(context.Background(), newCaller(), nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.offers, nil
}

// offerAll is what a server may offer that has not been asked.
func offerAll(info protocol.Implementation) *protocol.InitializeResult {
	return &protocol.InitializeResult{ServerInfo: info, Capabilities: protocol.ServerCapabilities{
		Tools: &protocol.ListCapability{}, Prompts: &protocol.ListCapability{},
		Resources: &protocol.ResourcesCapability{}, Completions: &struct{}{},
	}}
}

// Server returns the server in front, for [server.Server.ServeStdio] and other transports.
func (h *Server) Server() *server.Server { return h.front }

// Shutdown is [server.Server.Shutdown]. It waits for the calls of Options.Park until ctx ends, and
// closes the hosted server's sessions afterwards.
func (h *Server) Shutdown(ctx context.Context) error {
	var cut error
	select {
	case <-h.park.Drain():
	case <-ctx.Done():
		cut = context.Cause(ctx)
	}
	err := h.front.Shutdown(ctx)
	return errors.Join(cut, err, h.closeHosted())
}

// Close is [server.Server.Close], and closes the hosted server's sessions.
func (h *Server) Close() error {
	h.park.Drain()
	h.end() // requests may wait for what it ends
	err := h.front.Close()
	return errors.Join(err, h.closeHosted())
}

func (h *Server) closeHosted() error {
	h.end()
	h.sessions.closeAll()
	if shared := h.shared.Load(); shared != nil {
		return shared.Close()
	}
	return nil
}

// reportPanic is for handlers that no request waits for.
func (h *Server) reportPanic(ctx context.Context, method string, v any) {
	if o := h.opts.Server.Observer; o != nil {
		o.Observe(ctx, event.HandlerPanicked{Where: event.Where{Method: method}, Value: v,
			Text: fmt.Sprint(v), Stack: debug.Stack()})
	}
}

// openTimeout is how long a server in this process may take to open a session.
const openTimeout = 30 * time.Second
