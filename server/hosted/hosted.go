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

// A Peer is a server of another SDK. Its methods may be called concurrently.
type Peer interface {
	// OpenSession sends an initialize request of an older revision and returns the response and, on
	// success, the session; see [protocol.LegacyPeer]. The context has the values of the request
	// that needs the session, and [CallerFrom] returns its caller.
	OpenSession(
		ctx context.Context, initialize *protocol.Request, back protocol.BackCaller,
	) (protocol.LegacySession, *protocol.Response, error)
	Close() error // closes all sessions
}

// A Source returns the peer for a session of the hosted server. [One] makes a source of one peer
// for all. Other sources are called when a session is opened, with the context of the request that
// needs it; the peer is closed with the session. An error refuses the request, a [*protocol.Error]
// unchanged. Calls may overlap.
type Source func(ctx context.Context, caller *Caller) (Peer, error)

type sharedPeer struct{ Peer }

// One returns the source of a server for all callers. [Server.Close] closes the peer.
func One(peer Peer) Source {
	return func(context.Context, *Caller) (Peer, error) {
		return sharedPeer{peer}, nil
	}
}

// Options configure a [Server]. The zero value works.
type Options struct {
	// Server configures the front: keys, middleware, limits, observer. Zero Info, Instructions and
	// Capabilities are taken from the hosted server; nothing else can be registered.
	Server server.Options
	// Park names tools whose handlers must run once. In revision 2026-07-28 their calls wait in
	// this process while questions are with the client, so answers must reach this replica. They
	// ask with the SDK's methods, not roundtrip.Ask. Other handlers rerun in each round.
	Park []string
	// Optional names tools, prompts and URIs of resources whose handlers can do without an answer.
	// If the client cannot be asked they get an error and decide; other calls are always refused.
	Optional []string
	// AcceptUnsolicited names tools, prompts and URIs of resources whose handlers get answers
	// without proof of a question; see [roundtrip.Call].
	AcceptUnsolicited []string
	// PerRequest opens a hosted session for each request, for sources that depend on the request.
	PerRequest bool
	// MaxSessions limits the sessions kept for callers of revision 2026-07-28, for 5 minutes after
	// their last request. 0 means 1,000; negative means none. Above it each request has its own.
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
	shared   atomic.Pointer[sharedPeer] // peer of [One], once a session is open
	life     context.Context            // context of handlers that run once
	end      context.CancelFunc
}

// New returns a server in front of the peers of source. It opens and closes an anonymous session to
// learn what the hosted server offers. If that fails, because a source needs a caller,
// Options.Server.Info must name the server; New then declares tools, prompts, resources and
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
			return nil, fmt.Errorf("hosted: the server's capabilities are unknown: %w; if it "+
				"needs a caller, set Options.Server.Info", err)
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
	// A hosted server's lists may depend on the caller.
	with.PrivateLists = true
	if h.front, err = server.New(&with); err != nil {
		return nil, fmt.Errorf("hosted: %w", err)
	}
	h.sessions = &sessionTable{host: h, max: cmp.Or(h.opts.MaxSessions, defaultMaxSessions),
		kept: map[any]*keptSession{}}
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

// offerAll returns all features, for a server that could not be asked.
func offerAll(info protocol.Implementation) *protocol.InitializeResult {
	return &protocol.InitializeResult{ServerInfo: info, Capabilities: protocol.ServerCapabilities{
		Tools: &protocol.ListCapability{}, Prompts: &protocol.ListCapability{},
		Resources: &protocol.ResourcesCapability{}, Completions: &struct{}{},
	}}
}

// Server returns the front, for [server.Server.ServeStdio] and other transports.
func (h *Server) Server() *server.Server { return h.front }

// Shutdown waits for calls of Options.Park until ctx ends, then acts as [server.Server.Shutdown],
// and closes the hosted server's sessions.
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

// Close acts as [server.Server.Close], and closes the hosted server's sessions.
func (h *Server) Close() error {
	h.park.Drain()
	h.end() // requests may wait for handlers that this ends
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

// reportPanic reports panics of handlers without a waiting request.
func (h *Server) reportPanic(ctx context.Context, method string, v any) {
	if o := h.opts.Server.Observer; o != nil {
		o.Observe(ctx, event.HandlerPanicked{Where: event.Where{Method: method}, Value: v,
			Text: fmt.Sprint(v), Stack: debug.Stack()})
	}
}

const openTimeout = 30 * time.Second // in this process
