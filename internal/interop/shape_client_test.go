package interop_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// A dialerOf connects a client of a make to an endpoint.
type dialerOf func(t *testing.T, endpoint, revision string, v *visit, who *person, mute bool) peer

// shapeClients returns the clients that visit a site, by make.
func shapeClients() map[string]dialerOf {
	return map[string]dialerOf{
		"official": func(t *testing.T, endpoint, revision string, v *visit, who *person,
			mute bool) peer {
			return connectGoSDK(t, who, mute, revision, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: v.client(), MaxRetries: -1})
		},
		"mcp-go": func(t *testing.T, endpoint, revision string, v *visit, who *person,
			mute bool) peer {
			over, err := transport.NewStreamableHTTP(endpoint,
				transport.WithHTTPBasicClient(v.client()),
				transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
			noError(t, err)
			return connectMCPGo(t, who, mute, revision, over)
		},
		"rondo": func(t *testing.T, endpoint, revision string, v *visit, who *person,
			mute bool) peer {
			over, err := clienthttp.New(endpoint, &clienthttp.Options{HTTPClient: v.client()})
			noError(t, err)
			if revision == modern {
				return connectRondo(t, over, who, mute)
			}
			return connectRondoLegacy(t, over, who, mute)
		},
	}
}

// A visit is one client's network: its headers and its connections.
type visit struct {
	header    http.Header
	transport *http.Transport
	cancelled chan struct{} // closed when the server has got a cancellation
	noteOnce  sync.Once

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func newVisit(t *testing.T, token string) *visit {
	v := &visit{header: http.Header{"Authorization": {"Bearer " + token}},
		cancelled: make(chan struct{})}
	v.transport = &http.Transport{DialContext: v.dial}
	t.Cleanup(v.transport.CloseIdleConnections)
	return v
}

func (v *visit) client() *http.Client { return &http.Client{Transport: v} }

func (v *visit) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range v.header {
		r.Header[name] = values
	}
	if v.isCancellation(r) {
		defer v.noteOnce.Do(func() { close(v.cancelled) })
	}
	return v.transport.RoundTrip(r)
}

// isCancellation reports whether r is a cancellation. It reads the body and restores it.
func (v *visit) isCancellation(r *http.Request) bool {
	if r.Body == nil {
		return false
	}
	message, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(message))
	return err == nil && bytes.Contains(message, []byte(`"`+protocol.NotifyCancelled+`"`))
}

func (v *visit) dial(ctx context.Context, network, address string) (net.Conn, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone {
		return nil, net.ErrClosed
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		v.conns = append(v.conns, conn)
	}
	return conn, err
}

// disconnect closes all connections permanently, like the end of the client's process.
func (v *visit) disconnect() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = true
	for _, conn := range v.conns {
		_ = conn.Close()
	}
}
