package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// TestWhatEachSideReads: the texts, codes, log entries and metrics of the router arrive in
// each way to use connections.
func TestWhatEachSideReads(t *testing.T) {
	gatewaytest.Accept(t, serveRaw)
}

// TestOneMediaType: clients that accept one type alone are served and asked.
func TestOneMediaType(t *testing.T) { gatewaytest.AcceptOneType(t, serveRaw) }

// TestDeleteFreesQuestions: a client that ends its session while it is asked waits for
// nothing.
func TestDeleteFreesQuestions(t *testing.T) {
	gatewaytest.AcceptDelete(t, serveRaw)
}

// TestFaultsOfOneCall: what becomes of the call of one user does not concern another.
func TestFaultsOfOneCall(t *testing.T) { gatewaytest.AcceptFaults(t, serveRaw) }

// serveRaw serves a gateway before an upstream that writes its messages itself.
func serveRaw(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (url string) {
	t.Helper()
	clients, server := newLoggedGateway(t, router, up, mode)
	return serveDownstream(t, clients, server)
}

// newLoggedGateway returns a gateway before an upstream that writes its messages itself.
func newLoggedGateway(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (*gosdk.Downstream, *mcp.Server) {
	t.Helper()
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, &gosdk.Options{
		LogName: func(*mcp.ServerSession) string { return gatewaytest.LogName },
	})
	if err != nil {
		t.Fatal(err)
	}
	pass := passRaw(t, router, clients, up, mode)
	for _, name := range []string{gatewaytest.ToolAsk, gatewaytest.ToolPlain,
		gatewaytest.ToolFault} {
		server.AddTool(tool(name), pass)
	}
	return clients, server
}

// TestClientOnLines: the gateway's client is a process that has started it.
func TestClientOnLines(t *testing.T) {
	gatewaytest.AcceptLines(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, mode gatewaytest.Mode,
	) func(context.Context, io.Reader, io.Writer) {
		_, server := newLoggedGateway(t, router, up, mode)
		return func(ctx context.Context, in io.Reader, out io.Writer) {
			_ = server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: openEnd{out}})
		}
	})
}

// An openEnd is a writer that somebody else closes.
type openEnd struct{ io.Writer }

func (openEnd) Close() error { return nil }

func serveDownstream(t *testing.T, clients *gosdk.Downstream, server *mcp.Server) (url string) {
	served := httptest.NewServer(clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil)))
	t.Cleanup(served.Close)
	return served.URL
}

// passRaw passes calls on to an upstream that writes its messages itself.
func passRaw(t *testing.T, router *elicitation.Router, clients *gosdk.Downstream,
	up *gatewaytest.Upstream, mode gatewaytest.Mode) mcp.ToolHandler {
	t.Helper()
	overHTTP := mode == gatewaytest.SharedHTTP || mode == gatewaytest.PerCallHTTP
	connect := func(ctx context.Context, c *mcp.Client) (*mcp.ClientSession, error) {
		var transport mcp.Transport = &mcp.StreamableClientTransport{
			Endpoint: up.URL, HTTPClient: gosdk.HTTPClient(nil)}
		if !overHTTP {
			r, w := pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
				up.Serve(ctx, in, out)
			})
			transport = &mcp.IOTransport{Reader: r, Writer: w}
		}
		return c.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	}
	var shared *mcp.ClientSession
	if mode == gatewaytest.SharedHTTP || mode == gatewaytest.TurnsLines {
		var err error
		shared, err = connect(t.Context(), gosdk.NewSharedClient(router, "up", impl, nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared.Close() })
	}
	var calls atomic.Int32
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, session := elicitation.UpstreamKey("up"), shared
		if mode == gatewaytest.TurnsLines {
			release, err := router.AcquireUpstream(ctx, key)
			if err != nil {
				return nil, err
			}
			defer release()
		}
		if shared == nil {
			key = elicitation.UpstreamKey(fmt.Sprint("up-", calls.Add(1)))
		}
		call, err := clients.Begin(ctx, req, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		on := gosdk.UpstreamContext(ctx)
		if shared == nil {
			if session, err = connect(on,
				gosdk.NewClient(router, call, key, impl, nil)); err != nil {
				return nil, err
			}
			defer session.Close()
		}
		return session.CallTool(gosdk.WithCall(on, call), &mcp.CallToolParams{
			Name: req.Params.Name, Arguments: json.RawMessage(req.Params.Arguments)})
	}
}
