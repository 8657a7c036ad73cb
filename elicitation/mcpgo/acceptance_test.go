package mcpgo_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// TestWhatEachSideReads: the texts, codes, log entries and metrics of the router arrive in
// each way to use connections.
func TestWhatEachSideReads(t *testing.T) {
	gatewaytest.Accept(t, serveRaw)
}

// TestOneMediaType: clients that accept one type alone are served and asked.
func TestOneMediaType(t *testing.T) {
	gatewaytest.AcceptOneType(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, mode gatewaytest.Mode) (url string) {
		clients, s := newLoggedGateway(t, router, up, mode)
		down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
		t.Cleanup(down.Close)
		return down.URL + "/mcp"
	})
}

// TestDeleteFreesQuestions: a client that ends its session while it is asked waits for
// nothing.
func TestDeleteFreesQuestions(t *testing.T) {
	gatewaytest.AcceptDelete(t, serveRaw)
}

// TestFaultsOfOneCall: what becomes of the call of one user does not concern another. mcp-go reads
// events of any size, and takes minutes for one of many lines.
func TestFaultsOfOneCall(t *testing.T) {
	gatewaytest.AcceptFaults(t, serveRaw, gatewaytest.ManyLines)
}

// serveRaw serves a gateway before an upstream that writes its messages itself.
func serveRaw(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (url string) {
	t.Helper()
	_, s := newLoggedGateway(t, router, up, mode)
	down := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
	t.Cleanup(down.Close)
	return down.URL + "/mcp"
}

// TestClientOnLines: the gateway's client is a process that has started it.
func TestClientOnLines(t *testing.T) {
	gatewaytest.AcceptLines(t, func(t *testing.T, router *elicitation.Router,
		up *gatewaytest.Upstream, mode gatewaytest.Mode,
	) func(context.Context, io.Reader, io.Writer) {
		clients, s := newLoggedGateway(t, router, up, mode)
		stdio := server.NewStdioServer(s)
		stdio.SetErrorLogger(log.New(io.Discard, "", 0))
		return func(ctx context.Context, in io.Reader, out io.Writer) {
			_ = clients.Listen(ctx, stdio, in, out)
		}
	})
}

// newLoggedGateway returns a gateway before an upstream that writes its messages itself.
func newLoggedGateway(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream,
	mode gatewaytest.Mode) (*mcpgo.Downstream, *server.MCPServer) {
	t.Helper()
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		LogName: func(server.ClientSession) string { return gatewaytest.LogName },
	})
	if err != nil {
		t.Fatal(err)
	}
	pass := passRaw(t, router, clients, up, mode)
	for _, name := range []string{gatewaytest.ToolAsk, gatewaytest.ToolPlain,
		gatewaytest.ToolFault} {
		s.AddTool(mcp.NewTool(name), pass)
	}
	return clients, s
}

// passRaw passes calls on to an upstream that writes its messages itself.
func passRaw(t *testing.T, router *elicitation.Router, clients *mcpgo.Downstream,
	up *gatewaytest.Upstream, mode gatewaytest.Mode) server.ToolHandlerFunc {
	t.Helper()
	open := overRawLines(t, up)
	if mode == gatewaytest.SharedHTTP || mode == gatewaytest.PerCallHTTP {
		//lint:ignore SA1019 the revisions that have the stream are those that ask on it
		open = overHTTP(t, up.URL, transport.WithContinuousListening())
	}
	start := func(ctx context.Context, c *client.Client) error {
		if err := c.Start(ctx); err != nil {
			return err
		}
		_, err := c.Initialize(ctx, mcp.InitializeRequest{})
		return err
	}
	var shared *client.Client
	if mode == gatewaytest.SharedHTTP || mode == gatewaytest.TurnsLines {
		shared = mcpgo.NewSharedClient(router, "up", open(), client.WithProtocolVersion(legacy))
		if err := start(t.Context(), shared); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared.Close() })
	}
	var calls atomic.Int32
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, upstream := elicitation.UpstreamKey("up"), shared
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
		call, err := clients.Begin(ctx, key)
		if err != nil {
			return nil, err
		}
		defer call.End()
		on := mcpgo.UpstreamContext(ctx)
		if shared == nil {
			upstream = mcpgo.NewClient(router, call, key, open(),
				client.WithProtocolVersion(legacy))
			if err := start(on, upstream); err != nil {
				return nil, err
			}
			defer upstream.Close()
		}
		var request mcp.CallToolRequest
		request.Params.Name, request.Params.Arguments = r.Params.Name, r.GetArguments()
		return upstream.CallTool(mcpgo.WithCall(on, call), request)
	}
}

func overRawLines(t *testing.T, up *gatewaytest.Upstream) func() transport.Interface {
	return func() transport.Interface {
		r, w := pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
			up.Serve(ctx, in, out)
		})
		return transport.NewIO(r, w, io.NopCloser(strings.NewReader("")))
	}
}
