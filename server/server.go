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

// A Server answers the requests of clients. Transports pass it requests and send the responses. All
// methods may be called concurrently, registration included.
type Server struct {
	opts    Options
	funnel  *roundtrip.Funnel
	handler Handler       // dispatch within the middleware
	name    protocol.Meta // of the results of modern revisions (basic/index, "_meta")
	started time.Time

	own Catalog // what every request sees

	extending  sync.Mutex
	extensions atomic.Pointer[extensions] // nil: none

	localAccess *Access // of callers in process and on line streams

	completes      atomic.Bool // a completer was registered once
	resourceScopes atomic.Bool // a resource or template with scopes was registered once
	hub            *hub
	requests       inflight.Set[*inflight.Request] // that are served, of all connections
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

// Notify ignores a notification. Modern clients in process have none to send: to abandon a request,
// cancel the context of [Server.Handle].
func (s *Server) Notify(context.Context, *protocol.Notification) error { return nil }

// ShutdownWaitsForPeople returns the option, for transports that shut down.
func (s *Server) ShutdownWaitsForPeople() bool { return s.opts.ShutdownWaitsForPeople }

// Done returns a channel that is closed once [Server.Close] or [Server.Shutdown] has been called.
// Nothing is announced from then on, so transports end the streams that they keep open for that.
func (s *Server) Done() <-chan struct{} { return s.hub.closed }

// PeekState is [roundtrip.Funnel.PeekState] of the server's funnel.
func (s *Server) PeekState(
	ctx context.Context, p protocol.Principal, requestState string,
) (kept json.RawMessage, ok bool) {
	return s.funnel.PeekState(ctx, p, requestState)
}

// Close refuses further requests and cancels the contexts of running ones with the cause
// [ErrClosed]. It does not wait for them; see [Server.Shutdown].
func (s *Server) Close() error {
	s.hub.closeAll()
	s.requests.Abort(ErrClosed)
	return nil
}

// Shutdown refuses further requests, ends subscriptions in good order and waits for running
// requests, and for the ends of what [Options].Watch began. Unless
// Options.ShutdownWaitsForPeople is set it withdraws the questions that are with clients, and those
// asked meanwhile, and tells their callers that the server is closing and to call again. When ctx
// ends first it cancels what runs as [Server.Close] does and returns the context's error.
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
