package mcpgo_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
)

// waitForTools waits until a server has exactly these tools.
func waitForTools(t *testing.T, s *server.MCPServer, want ...string) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		got := slices.Sorted(maps.Keys(s.ListTools()))
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the tools are %q, want %q", got, want)
		}
	}
}

// TestPublishedTools follow those of the upstream, also after it has lost its sessions, and ask
// the client who calls them.
func TestPublishedTools(t *testing.T) {
	upstream := newUpstream(setting{})
	var handler atomic.Pointer[server.StreamableHTTPServer]
	restart := func() { handler.Store(server.NewStreamableHTTPServer(upstream, quiet)) }
	restart()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(served.Close)
	//lint:ignore SA1019 the revisions that have the stream are those that ask on it
	open := overHTTP(t, served.URL+"/mcp", transport.WithContinuousListening())
	s, call := publish(t, func() (transport.Interface, error) { return open(), nil })
	waitForTools(t, s, "up-form", "up-visit")
	call("up-form", `accept {"reason":"r"}`)
	later := func(n int) {
		upstream.AddTool(mcp.NewTool(fmt.Sprint("later-", n)), func(context.Context,
			mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("late"), nil
		})
	}
	// mcp-go does not report when the standing stream is open, before which changes are lost.
	limit := time.Now().Add(10 * time.Second)
	for ; s.ListTools()["up-later-0"] == nil; runtime.Gosched() {
		if later(0); time.Now().After(limit) {
			t.Fatal("a change does not arrive")
		}
	}
	upstream.DeleteTools("visit")
	waitForTools(t, s, "up-form", "up-later-0")
	call("up-later-0", "late")
	restart() // the upstream has no session any more
	later(1)  // and nobody to tell
	call("up-later-0", "late")
	waitForTools(t, s, "up-form", "up-later-0", "up-later-1")
}

// TestPublishedToolsOfChildren are listed on a connection that serves calls afterwards.
func TestPublishedToolsOfChildren(t *testing.T) {
	var started atomic.Int32
	s, call := publish(t, children(t, &started))
	waitForTools(t, s, "up-die", "up-form", "up-visit")
	call("up-form", `accept {"reason":"r"}`)
}

// publish serves a gateway with the tools of an upstream, and returns what calls one of them.
func publish(t *testing.T, open func() (transport.Interface, error)) (s *server.MCPServer,
	call func(tool, want string)) {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s = server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	up, err := clients.NewUpstream(mcpgo.UpstreamOptions{Name: "up", Transport: open})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	rename := func(tool string) string { return "up-" + tool }
	if err := up.PublishTools(t.Context(), rename); err != nil {
		t.Fatal(err)
	}
	if err := up.PublishTools(t.Context(), rename); err == nil {
		t.Error("the second time: no error")
	}
	down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
	t.Cleanup(down.Close)
	user := newClient(t, overHTTP(t, down.URL+"/mcp")(), legacy, nil, accept("r"), nil)
	return s, func(tool, want string) {
		t.Helper()
		if got, err := user(within(t), tool, "prod"); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", tool, got, err, want)
		}
	}
}
