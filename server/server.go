package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A Server answers the requests that transports pass on. All methods may be called concurrently.
type Server struct {
	opts    Options
	funnel  *roundtrip.Funnel
	handler Handler       // dispatch within the middleware
	name    protocol.Meta // in results of modern revisions (basic/index, "_meta")
	started time.Time

	own Catalog // the catalog that every request sees

	extending  sync.Mutex
	extensions atomic.Pointer[extensions] // nil: none

	localAccess *Access // of callers in process and on line streams

	completes      atomic.Bool // a completer was registered once
	resourceScopes atomic.Bool // a resource or template with scopes was registered once
	hub            *hub
	requests       inflight.Set[*inflight.Request] // requests being served, of all connections
}

// New returns a server without tools, prompts and resources. opts may be nil. It fails on
// contradictory options, see [roundtrip.NewFunnel].
func New(opts *Options) (*Server, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, started: time.Now(), hub: newHub(o.MaxSubscriptions),
		localAccess: UnlimitedAccess()}
	if s.funnel, err = roundtrip.NewFunnel(&o.Roundtrip); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if s.name, err = protocol.Meta(nil).With(protocol.MetaServerInfo, o.Info); err != nil {
		return nil, fmt.Errorf("server: Info: %w", err)
	}
	if _, err := protocol.EncodeResult(protocol.Latest, protocol.MethodDiscover,
		s.answerDiscover(&Request{})); err != nil {
		return nil, fmt.Errorf("server: Capabilities: %w", err)
	}
	s.handler = s.dispatchRequest
	for i := len(o.Middleware) - 1; i >= 0; i-- {
		s.handler = o.Middleware[i](s.handler)
	}
	s.own.initCatalog(s)
	return s, nil
}

var _ protocol.Peer = (*Server)(nil)

// Notify ignores notifications. To abandon a request, cancel the context of [Server.Handle].
func (s *Server) Notify(context.Context, *protocol.Notification) error { return nil }

// ShutdownWaitsForPeople returns the option of that name, for transports.
func (s *Server) ShutdownWaitsForPeople() bool { return s.opts.ShutdownWaitsForPeople }

// Done returns a channel that is closed by [Server.Close] and [Server.Shutdown]. Nothing is
// announced after that, so transports end their announcement streams.
func (s *Server) Done() <-chan struct{} { return s.hub.closed }

// PeekState is [roundtrip.Funnel.PeekState] of the server's funnel.
func (s *Server) PeekState(
	ctx context.Context, p protocol.Principal, requestState string,
) (kept json.RawMessage, ok bool) {
	return s.funnel.PeekState(ctx, p, requestState)
}

// Close refuses requests and cancels running ones with [ErrClosed], without waiting for them.
func (s *Server) Close() error {
	s.hub.closeAll()
	s.requests.Abort(ErrClosed)
	return nil
}

// Shutdown refuses further requests, ends subscriptions gracefully and waits for running requests
// and for stop functions of [Options].Watch. Unless Options.ShutdownWaitsForPeople is set, it
// withdraws open and new questions and tells the callers to call again. When ctx ends first it
// cancels running requests as [Server.Close] does and returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	drained := s.requests.Drain(s.opts.ShutdownWaitsForPeople)
	s.hub.closeAll()
	stopped := make(chan struct{})
	go func() {
		<-drained
		s.hub.watches.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		s.requests.Abort(ErrClosed)
		return ctx.Err()
	}
}
