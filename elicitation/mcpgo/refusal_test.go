package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// newRefusing is a gateway whose router refuses all calls. Its tools are "refused"; "reports",
// which reports before it is refused; and "fails", which fails for a reason of the host's.
func newRefusing(t *testing.T) (*mcpgo.Downstream, *server.MCPServer) {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithLogging())
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{ServeModern: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := router.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse := func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.Name == "reports" {
			err := s.SendNotificationToClient(ctx, "notifications/custom", map[string]any{"n": 1})
			if err != nil {
				t.Error(err)
			}
		}
		_, err := clients.Begin(ctx, "up")
		return nil, fmt.Errorf("the gateway: %w", err)
	}
	s.AddTool(mcp.NewTool("refused"), refuse)
	s.AddTool(mcp.NewTool("reports"), refuse)
	s.AddTool(mcp.NewTool("fails"), func(context.Context, mcp.CallToolRequest) (
		*mcp.CallToolResult, error) {
		return nil, errors.New("no disk")
	})
	return clients, s
}

const (
	shuttingDown = `{"code":23223,"message":"The gateway is shutting down",` +
		`"data":{"retryAfterMs":5000}}`
	noDisk = `{"code":-32603,"message":"no disk"}`
)

// readError returns the id and the error of the response among the messages of a body, an event
// stream, or lines.
func readError(t *testing.T, from *bufio.Reader) (id string, wire string) {
	t.Helper()
	for {
		line, err := from.ReadString('\n')
		var m struct{ ID, Error json.RawMessage }
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &m) == nil && m.Error != nil {
			return string(m.ID), string(m.Error)
		}
		if err != nil {
			t.Fatalf("no response: %v", err)
		}
	}
}

func sameJSON(a, b string) bool {
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil &&
		reflect.DeepEqual(one, other)
}

// TestRefusedCalls: a call that the router refuses reaches the client with its code and the time
// after which to try again, in a body and in a stream, and other errors as mcp-go sends them.
func TestRefusedCalls(t *testing.T) {
	clients, s := newRefusing(t)
	served := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet,
		server.WithStateLess(true))))
	t.Cleanup(served.Close)
	for _, test := range []struct{ name, tool, revision, id, want, kind string }{
		{"in a body", "refused", legacy, "7", shuttingDown, "application/json"},
		{"with an id that JSON escapes", "refused", legacy, `"<7>"`, shuttingDown,
			"application/json"},
		{"in a stream", "reports", legacy, `"x"`, shuttingDown, "text/event-stream"},
		{"for a modern client", "refused", modern, "7", shuttingDown, "application/json"},
		{"an error of the host", "fails", legacy, "7", noDisk, "application/json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
				`"io.modelcontextprotocol/clientCapabilities":{},`+
				`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}`,
				test.id, test.tool, test.revision)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, served.URL+"/mcp",
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Protocol-Version", test.revision)
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", test.tool)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			id, got := readError(t, bufio.NewReader(response.Body))
			var sent, back any
			_, _ = json.Unmarshal([]byte(test.id), &sent), json.Unmarshal([]byte(id), &back)
			if sent != back || !sameJSON(got, test.want) {
				t.Errorf("got %s for %s, want %s for %s", got, id, test.want, test.id)
			}
			if kind := response.Header.Get("Content-Type"); kind != test.kind {
				t.Errorf("the response is of type %s, want %s", kind, test.kind)
			}
		})
	}
}

// TestRefusedCallsOverLines: each of several calls in flight gets its own error.
func TestRefusedCallsOverLines(t *testing.T) {
	clients, s := newRefusing(t)
	r, w := pipehttp.ServeLines(t, listen(clients, s))
	const calls = 20
	go func() {
		for n := range calls {
			tool := "fails"
			if n%2 == 0 {
				tool = "refused"
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"method":"tools/call",`+
				`"params":{"name":%q}}`+"\n", n, tool)
		}
	}()
	lines := bufio.NewReader(r)
	seen := map[string]bool{}
	for range calls {
		id, got := readError(t, lines)
		want := noDisk
		if strings.HasSuffix(id, "0") || strings.ContainsAny(id[len(id)-1:], "2468") {
			want = shuttingDown
		}
		if !sameJSON(got, want) || seen[id] {
			t.Errorf("call %s got %s, want %s once", id, got, want)
		}
		seen[id] = true
	}
}

// TestRefusedCallsWithinTheProcess: the request of a client within the process, that a handler
// makes, has the same id as the request that the handler serves.
func TestRefusedCallsWithinTheProcess(t *testing.T) {
	clients, s := newRefusing(t)
	s.AddTool(mcp.NewTool("outer"), func(ctx context.Context, _ mcp.CallToolRequest) (
		*mcp.CallToolResult, error) {
		inner := s.WithContext(ctx, server.NewInProcessSession("here", nil))
		s.HandleMessage(inner, json.RawMessage(
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"refused"}}`))
		return nil, errors.New("no disk")
	})
	served := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet,
		server.WithStateLess(true))))
	t.Cleanup(served.Close)
	response, err := http.Post(served.URL+"/mcp", "application/json", strings.NewReader(
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"outer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, got := readError(t, bufio.NewReader(response.Body)); !sameJSON(got, noDisk) {
		t.Errorf("got %s, want %s", got, noDisk)
	}
}
