//go:build node && proxy

package interop_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A session is a client of 2025-11-25 that has an open session.
type session interface {
	peer
	// doUntil sends r, and cancels it when stop is closed.
	doUntil(ctx context.Context, r request, stop <-chan struct{}) (string, error)
	// end ends the session and closes the client.
	end() error
}

type sessionClient struct {
	name string
	open func(t *testing.T, endpoint string, who *person) (session, error)
	// neverCancels means that the client sends no cancellation over HTTP: calls run to their end.
	neverCancels bool
}

func sessionClients() []sessionClient {
	return []sessionClient{
		{name: "rondo", open: openRondo},
		{name: "official Go SDK", open: openGoSDK},
		{name: "mcp-go", open: openMCPGo, neverCancels: true},
		{name: "TypeScript 1", open: openTSFrom("sdk", nil)},
		{name: "TypeScript 2", open: openTSFrom("client", "legacy")},
	}
}

// doUntilStopped implements doUntil for clients that cancel a request with its context.
func doUntilStopped(ctx context.Context, c peer, r request, stop <-chan struct{}) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-done:
		}
	}()
	return c.do(ctx, r)
}

type rondoSession struct {
	rondo
	stopListening context.CancelFunc
	stopped       chan struct{}
}

func openRondo(t *testing.T, endpoint string, who *person) (session, error) {
	c := connectRondoLegacy(t, over(t, endpoint), who, false).(rondo)
	ctx, cancel := context.WithCancel(t.Context())
	s := rondoSession{c, cancel, make(chan struct{})}
	opened := make(chan error, 1)
	go func() {
		defer close(s.stopped)
		err := c.Listen(ctx, protocol.SubscriptionFilter{ToolsListChanged: true},
			func(_ context.Context, event client.ListenEvent) {
				switch event.(type) {
				case client.Acknowledged:
					opened <- nil
				case client.ToolsChanged:
					who.changed <- struct{}{}
				}
			})
		select {
		case opened <- errors.Join(errors.New("the subscription ended"), err):
		default:
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-s.stopped
	})
	return s, <-opened
}

func (s rondoSession) doUntil(ctx context.Context, r request,
	stop <-chan struct{}) (string, error) {
	return doUntilStopped(ctx, s, r, stop)
}

func (s rondoSession) end() error {
	s.stopListening()
	<-s.stopped
	return s.Close()
}

type goSDKSession struct{ goSDK }

func openGoSDK(t *testing.T, endpoint string, who *person) (session, error) {
	c := connectGoSDK(t, who, false, v20251125, &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: newHTTPClient(t)})
	return goSDKSession{c.(goSDK)}, nil
}

func (s goSDKSession) doUntil(ctx context.Context, r request,
	stop <-chan struct{}) (string, error) {
	return doUntilStopped(ctx, s, r, stop)
}

func (s goSDKSession) end() error { return s.Close() }

type mcpGoSession struct{ mcpGo }

func openMCPGo(t *testing.T, endpoint string, who *person) (session, error) {
	quiet := transport.WithHTTPLogger(slog.New(slog.DiscardHandler))
	streamable, err := transport.NewStreamableHTTP(endpoint, quiet,
		transport.WithHTTPBasicClient(newHTTPClient(t)), transport.WithContinuousListening())
	if err != nil {
		return nil, err
	}
	return mcpGoSession{connectMCPGo(t, who, false, v20251125, streamable).(mcpGo)}, nil
}

func (s mcpGoSession) doUntil(ctx context.Context, r request,
	stop <-chan struct{}) (string, error) {
	return doUntilStopped(ctx, s, r, stop)
}

func (s mcpGoSession) end() error { return s.Close() }

type tsSession struct{ tsClient }

// openTSFrom opens sessions with the client of a package, in a process of its own.
func openTSFrom(module string, negotiate any) func(*testing.T, string, *person) (session, error) {
	return func(t *testing.T, endpoint string, who *person) (session, error) {
		ts := startTS(t, module)
		where := map[string]any{"endpoint": endpoint, "mute": false, "negotiate": negotiate}
		return tsSession{ts.connect(t, who, where)}, nil
	}
}

func (s tsSession) doUntil(ctx context.Context, r request, stop <-chan struct{}) (string, error) {
	id := s.lastID + 1 // id of the next request
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
			_ = s.write(map[string]any{"cancel": id})
		case <-done:
		}
	}()
	return s.do(ctx, r)
}

func (s tsSession) end() error {
	s.connected = false
	_, err := s.tell(within(s.who.t, patience), "disconnect", "session")
	return err
}
