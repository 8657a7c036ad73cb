package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// listedTools is the number of tools of every library. "any" has an argument of any type.
const listedTools = 603

type anyInput struct {
	V any `json:"v"`
}

var threeServers = []struct {
	name string
	open func(t *testing.T) (h http.Handler, lines func(ctx context.Context, end line))
}{
	{"rondo", func(t *testing.T) (http.Handler, func(context.Context, line)) {
		srv, err := server.New(&server.Options{Info: servertest.Info()})
		noError(t, err)
		t.Cleanup(func() { _ = srv.Close() })
		server.AddTool(srv, server.Tool{Name: "any"}, func(context.Context, *server.ToolCall,
			anyInput) (protocol.CallToolOutcome, error) {
			return server.Text("any"), nil
		})
		for i := range listedTools - 1 {
			server.AddRawTool(srv, server.Tool{Name: listedTool(i)}, func(_ context.Context,
				call *server.ToolCall) (protocol.CallToolOutcome, error) {
				return server.Text("echo " + string(call.Arguments)), nil
			})
		}
		return servertest.NewHandler(t, srv, nil), func(ctx context.Context, end line) {
			_ = srv.ServeStream(ctx, end.r, end.w, nil)
		}
	}},
	{"official Go SDK", func(t *testing.T) (http.Handler, func(context.Context, line)) {
		s := mcp.NewServer(&mcp.Implementation{Name: "odd", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "any"}, func(context.Context, *mcp.CallToolRequest,
			anyInput) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
		for i := range listedTools - 1 {
			s.AddTool(&mcp.Tool{Name: listedTool(i), InputSchema: json.RawMessage(
				`{"type":"object"}`)}, func(_ context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{
					&mcp.TextContent{Text: "echo " + string(req.Params.Arguments)}}}, nil
			})
		}
		closeSessionsAfter(t, s)
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil),
			func(ctx context.Context, end line) {
				_ = s.Run(ctx, &mcp.IOTransport{Reader: end.r, Writer: end.w})
			}
	}},
	{"mcp-go", func(t *testing.T) (http.Handler, func(context.Context, line)) {
		s := mcpgoserver.NewMCPServer("odd", "1", mcpgoserver.WithToolCapabilities(false))
		s.AddTool(mcpgomcp.NewTool("any", mcpgomcp.WithInputSchema[anyInput]()),
			func(context.Context, mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
				return mcpgomcp.NewToolResultText("any"), nil
			})
		for i := range listedTools - 1 {
			s.AddTool(mcpgomcp.NewTool(listedTool(i)), func(_ context.Context,
				req mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
				args, err := json.Marshal(req.GetArguments())
				return mcpgomcp.NewToolResultText("echo " + string(args)), err
			})
		}
		return mcpgoserver.NewStreamableHTTPServer(s, mcpgoserver.WithStreamableHTTPLogger(
				slog.New(slog.DiscardHandler))), func(ctx context.Context, end line) {
				lines := mcpgoserver.NewStdioServer(s)
				lines.SetErrorLogger(log.New(io.Discard, "", 0))
				_ = lines.Listen(ctx, end.r, end.w)
			}
	}},
}

func listedTool(i int) string {
	if i == 0 {
		return "echo"
	}
	return fmt.Sprint("echo-", i)
}

// oddRequests are sent by deployed clients in a session. A server passes if answer 7 has want.
var oddRequests = []struct {
	row     string
	message string
	want    string
	header  http.Header // for HTTP only
}{
	{"a tool with an argument of any type is listed without `true`", listRequest,
		`"v":{`, nil},
	{"603 tools are one page", listRequest, `"echo-601"`, nil},
	{"half a surrogate in an argument", callEcho(`{"x":"\ud83d"}`), "echo", nil},
	{"bytes in an argument that are not UTF-8", callEcho("{\"x\":\"\xb0\"}"), "echo", nil},
	{"`NaN` in an argument: the refusal names its request", callEcho(`{"x":NaN}`), "error", nil},
	{"an argument of 5 MiB", callEcho(`{"x":"` + strings.Repeat("x", 5<<20) + `"}`), "echo", nil},
	{"arguments that are null", callEcho("null"), "echo", nil},
	{"no arguments", strings.Replace(callEcho("{}"), `,"arguments":{}`, "", 1), "echo", nil},
	{"`_meta` that is null", strings.Replace(callEcho("{}"), `"arguments"`,
		`"_meta":null,"arguments"`, 1), "echo", nil},
	{"a notification whose params are a list",
		`{"jsonrpc":"2.0","method":"notifications/message","params":[1]}` + "\n" + callEcho("{}"),
		"echo", nil},
	{"`initialize` with the id of a lost session", strings.Replace(initializeRequest, `"id":1`,
		`"id":7`, 1), "protocolVersion", http.Header{"Mcp-Session-Id": {"5f7c0b6e-stale"}}},
}

const (
	listRequest       = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	initializeRequest = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
		`"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"odd","version":"1"}}}`
	initializedNotice = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func callEcho(arguments string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":` +
		arguments + `}}`
}

// TestOddClients compares testdata/odd_clients.md with servers. Ours accepts every row.
func TestOddClients(t *testing.T) {
	table := newTable(t, "rondo")
	for _, row := range oddRequests {
		takes := make([]bool, len(threeServers))
		for i, l := range threeServers {
			t.Run(row.row+"/"+l.name, func(t *testing.T) {
				h, lines := l.open(t)
				takes[i] = true
				said := map[string]string{"HTTP": postOdd(t, h, row.message, row.header)}
				limit := patience
				if row.want == "error" {
					limit = 2 * time.Second // some servers never answer
				}
				if row.header == nil {
					said["lines"] = sendOdd(t, lines, row.message, limit)
				}
				for way, answer := range said {
					t.Logf("%s: %.300s", way, answer)
					takes[i] = takes[i] && strings.Contains(answer, `"id":7`) &&
						strings.Contains(answer, row.want)
				}
			})
		}
		table.add(row.row, takes)
		if !takes[0] {
			t.Errorf("our server does not take %s", row.row)
		}
	}
	table.check(t, "testdata/odd_clients.md")
}

// postOdd sends messages in a new session, or in header's, and returns the last answer.
func postOdd(t *testing.T, h http.Handler, messages string, header http.Header) (answer string) {
	t.Helper()
	endpoint, _ := listen(t, h)
	web, session := newHTTPClient(t), ""
	post := func(message string, more http.Header) {
		r, err := http.NewRequestWithContext(within(t, patience), http.MethodPost, endpoint,
			strings.NewReader(message))
		noError(t, err)
		r.Header = http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header["Mcp-Session-Id"] = []string{session}
			r.Header["Mcp-Protocol-Version"] = []string{v20251125}
		}
		for name, values := range more {
			r.Header[name] = values
		}
		resp, err := web.Do(r)
		if err != nil {
			answer = err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer = string(body)
		if session == "" {
			session = resp.Header.Get("Mcp-Session-Id")
		}
	}
	if header == nil {
		post(initializeRequest, nil)
		post(initializedNotice, nil)
	}
	for message := range strings.SplitSeq(messages, "\n") {
		post(message, header)
	}
	return answer
}

// sendOdd sends messages on lines. It returns the answer to id 7, or "" after the limit.
func sendOdd(t *testing.T, serveLines func(context.Context, line), messages string,
	limit time.Duration) string {
	t.Helper()
	ours, theirs, _ := stream(t)
	serve(t, theirs, func(ctx context.Context) { serveLines(ctx, theirs) })
	defer ours.w.Close()
	defer ours.r.Close()
	defer time.AfterFunc(limit, func() { _ = ours.r.Close() }).Stop()
	go fmt.Fprintf(ours.w, "%s\n%s\n%s\n", initializeRequest, initializedNotice, messages)
	for answers := bufio.NewReader(ours.r); ; {
		answer, err := answers.ReadBytes('\n')
		if err != nil || bytes.Contains(answer, []byte(`"id":7`)) {
			return string(answer)
		}
	}
}
