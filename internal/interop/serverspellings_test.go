package interop_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// strictServer are the spellings that both others take and rondo refuses, with the reason.
var strictServer = map[string]string{
	"params.inputResponses null": "strict: answers",
	"params.requestState null":   "strict: state",
}

// TestServersTakeSpellings sends the same bytes to servers of three libraries.
func TestServersTakeSpellings(t *testing.T) {
	table := newVerdictTable("testdata/server-spellings.md",
		"# Who takes which request\n\nThe published examples, and named rows, in other spellings; "+
			"written by TestServersTakeSpellings with -update.")
	servers := spellingServers(t)
	used := map[string]bool{}
	for _, c := range serverCases(t) {
		var took [3]bool
		for i, s := range servers {
			took[i] = s.takes(t, c)
		}
		table.add(t, c.message, c.name, took, strictServer, used)
		if c.name == "as published" && took != [3]bool{true, true, true} {
			t.Logf("%s as published: %v", c.message, took)
		}
	}
	table.finish(t, 60, strictServer, used)
}

// A serverCase is one POST.
type serverCase struct {
	message, name string
	text          string
	accept        string
	modern        bool
	opens         bool // initialize, outside of a session
}

func serverCases(t *testing.T) (cases []serverCase) {
	newer, older := newSpeller(t, modern), newSpeller(t, v20251125)
	const both = "application/json, text/event-stream"
	for _, e := range examplesOf(t, func(typ string) bool {
		switch typ {
		case "CallToolRequest", "CompleteRequest", "GetPromptRequest", "ListPromptsRequest",
			"ListResourceTemplatesRequest", "ListResourcesRequest", "ListToolsRequest",
			"ReadResourceRequest", "DiscoverRequest":
			return true
		}
		return false
	}) {
		message := decodeExact(t, e.JSON).(map[string]any)
		method := message["method"].(string)
		for _, s := range newer.respell(t, e.Type, message) {
			cases = append(cases, serverCase{message: method + ", " + modern, name: s.name,
				text: string(s.text), accept: both, modern: true})
		}
		if e.Type == "DiscoverRequest" {
			continue
		}
		delete(message["params"].(map[string]any), "_meta")
		for _, s := range older.respell(t, e.Type, message) {
			cases = append(cases, serverCase{message: method + ", session", name: s.name,
				text: string(s.text), accept: both})
		}
	}
	hello := decodeExact(t, []byte(helloText))
	for _, s := range older.respell(t, "InitializeRequest", hello) {
		cases = append(cases, serverCase{message: "initialize", name: s.name, text: string(s.text),
			accept: both, opens: true})
	}
	return append(cases, namedServerCases(both)...)
}

const helloText = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
	`"protocolVersion":"2025-11-25","capabilities":{"roots":{},"experimental":{},"elicitation":{}},` +
	`"clientInfo":{"name":"ExampleClient","version":"1.0.0"}}}`

// namedServerCases are what real clients were seen to send.
func namedServerCases(both string) (cases []serverCase) {
	add := func(message, name, text, accept string) {
		newer := strings.Contains(text, "io.modelcontextprotocol")
		cases = append(cases, serverCase{message: message, name: name, text: text, accept: accept,
			modern: newer, opens: strings.Contains(text, `"initialize"`)})
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, era := range []string{"session", modern} {
		end, only := `}}`, `}`
		if era == modern {
			end, only = `,`+meta+`}}`, meta+`}`
		}
		call := `{"jsonrpc":"2.0","id":%ID,"method":"tools/call","params":{"name":"%NAME","arguments":%ARGS` + end
		tool := func(name, id, tool, arguments string) {
			add("tools/call, "+era, name, strings.NewReplacer("%ID", id, "%NAME", tool, "%ARGS",
				arguments).Replace(call), both)
		}
		const place = `"location":"New York"`
		tool("id 7.0", "7.0", "get_weather", `{`+place+`}`)
		tool("no inputs, arguments null", "7", "now", `null`)
		tool("optional argument null", "7", "get_weather", `{`+place+`,"units":null}`)
		tool("integer argument 5.0", "7", "get_weather", `{`+place+`,"days":5.0}`)
		tool("integer argument 5e0", "7", "get_weather", `{`+place+`,"days":5e0}`)
		tool("integer argument -0", "7", "get_weather", `{`+place+`,"days":-0}`)
		tool("integer argument 5.5", "7", "get_weather", `{`+place+`,"days":5.5}`)
		tool("integer argument 1e400", "7", "get_weather", `{`+place+`,"days":1e400}`)
		tool("required argument null", "7", "get_weather", `{"location":null}`)
		list := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + only + `}`
		for _, accept := range []string{"application/json", "text/event-stream", "*/*",
			"text/html"} {
			add("tools/list, "+era, "Accept: "+accept, list, accept)
		}
	}
	session := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"now","_meta":{"progressToken":%}}}`
	for _, token := range []string{"null", "1.0", "1"} {
		add("tools/call, session", "progressToken "+token, strings.Replace(session, "%", token, 1),
			both)
	}
	add("initialize", "capabilities.experimental.x true", strings.Replace(helloText,
		`"experimental":{}`, `"experimental":{"x":true}`, 1), both)
	add("initialize", "capabilities null", strings.Replace(helloText,
		`"capabilities":{"roots":{},"experimental":{},"elicitation":{}}`, `"capabilities":null`, 1), both)
	add("initialize", "clientInfo null", strings.Replace(helloText,
		`{"name":"ExampleClient","version":"1.0.0"}`, `null`, 1), both)
	return cases
}

// A spellingServer is a server of one library.
type spellingServer struct {
	client   *http.Client
	endpoint string
}

// takes reports whether a message is answered with a result that is no error.
func (s spellingServer) takes(t *testing.T, c serverCase) bool {
	t.Helper()
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {c.accept}}
	switch {
	case c.modern:
		var m struct {
			Method string
			Params struct{ Name, URI string }
		}
		if err := json.Unmarshal([]byte(c.text), &m); err != nil {
			t.Fatal(err)
		}
		header.Set("MCP-Protocol-Version", modern)
		header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI; name != "" {
			header.Set("Mcp-Name", name)
		}
	case !c.opens:
		header.Set("MCP-Protocol-Version", v20251125)
		header.Set("Mcp-Session-Id", s.open(t))
	}
	status, _, body := s.post(t, header, c.text)
	for line := range strings.Lines(body) { // the last event of a stream
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			body = data
		}
	}
	var r struct {
		Error  any
		Result *struct{ IsError bool }
	}
	err := json.Unmarshal([]byte(body), &r)
	return err == nil && status == http.StatusOK && r.Error == nil && r.Result != nil &&
		!r.Result.IsError
}

// open opens a session.
func (s spellingServer) open(t *testing.T) string {
	t.Helper()
	header := http.Header{"Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}}
	_, got, body := s.post(t, header, helloText)
	header.Set("Mcp-Session-Id", got.Get("Mcp-Session-Id"))
	header.Set("MCP-Protocol-Version", v20251125)
	if status, _, _ := s.post(t, header,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		t.Fatalf("initialized: got status %d after %s", status, body)
	}
	return got.Get("Mcp-Session-Id")
}

func (s spellingServer) post(t *testing.T, header http.Header,
	text string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t, patience), "POST", s.endpoint,
		strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = maps.Clone(header)
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

type forecastInput struct {
	Location string `json:"location"`
	Units    string `json:"units,omitempty"`
	Days     int    `json:"days,omitempty"`
}

const (
	mainFile = "file:///project/src/main.rs"
	weather  = "sunny"
)

// spellingServers returns a server of each library, with what the examples ask for.
func spellingServers(t *testing.T) [3]spellingServer {
	var all [3]spellingServer
	official := newSpellingGoSDK()
	closeSessionsAfter(t, official)
	for i, h := range []http.Handler{
		servertest.NewHandler(t, newSpellingRondo(t), nil),
		newGoSDKHandler(official),
		mcpgoserver.NewStreamableHTTPServer(newSpellingMCPGo(),
			mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))),
	} {
		endpoint, _ := listen(t, h)
		all[i] = spellingServer{newHTTPClient(t), endpoint}
	}
	return all
}

// newGoSDKHandler serves both eras: the SDK's handler serves the newer one without sessions alone.
func newGoSDKHandler(s *mcp.Server) http.Handler {
	get := func(*http.Request) *mcp.Server { return s }
	sessions := mcp.NewStreamableHTTPHandler(get, nil)
	stateless := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") == modern {
			stateless.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

func newSpellingRondo(t *testing.T) *server.Server {
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "get_weather"},
		func(context.Context, *server.ToolCall, forecastInput) (protocol.CallToolOutcome, error) {
			return server.Text(weather), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "now"},
		func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text(weather), nil
		})
	server.AddPrompt(srv, server.Prompt{Name: "code_review",
		Arguments: []protocol.PromptArgument{{Name: "code"}, {Name: "language"}},
		Complete: func(context.Context, *server.CompleteCall) ([]string, error) {
			return []string{"python"}, nil
		}},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return &protocol.GetPromptResult{}, nil
		})
	server.AddResource(srv, server.Resource{URI: mainFile, Name: "main.rs"},
		func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return &protocol.ReadResourceResult{
				Contents: []protocol.ResourceContents{{URI: mainFile, Text: "x"}}}, nil
		})
	return srv
}

func sunny() *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: weather}}}
}

func newSpellingGoSDK() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context,
			*mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
				Values: []string{"python"}}}, nil
		}})
	mcp.AddTool(s, &mcp.Tool{Name: "get_weather"}, func(context.Context, *mcp.CallToolRequest,
		forecastInput) (*mcp.CallToolResult, any, error) {
		return sunny(), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "now"}, func(context.Context, *mcp.CallToolRequest,
		struct{}) (*mcp.CallToolResult, any, error) {
		return sunny(), nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "code_review", Arguments: []*mcp.PromptArgument{{Name: "code"}}},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
		})
	s.AddResource(&mcp.Resource{URI: mainFile, Name: "main.rs"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{
				Contents: []*mcp.ResourceContents{{URI: mainFile, Text: "x"}}}, nil
		})
	return s
}

func newSpellingMCPGo() *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("s", "1", mcpgoserver.WithToolCapabilities(false),
		mcpgoserver.WithPromptCapabilities(false), mcpgoserver.WithCompletions(),
		mcpgoserver.WithResourceCapabilities(false, false))
	s.AddTool(mcpgo.NewTool("get_weather", mcpgo.WithString("location", mcpgo.Required()),
		mcpgo.WithString("units"), mcpgo.WithInteger("days")),
		mcpgo.NewTypedToolHandler(func(context.Context, mcpgo.CallToolRequest,
			forecastInput) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(weather), nil
		}))
	s.AddTool(mcpgo.NewTool("now"), func(context.Context,
		mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText(weather), nil
	})
	s.AddPrompt(mcpgo.NewPrompt("code_review", mcpgo.WithArgument("code")),
		func(context.Context, mcpgo.GetPromptRequest) (*mcpgo.GetPromptResult, error) {
			return mcpgo.NewGetPromptResult("", nil), nil
		})
	s.AddResource(mcpgo.NewResource(mainFile, "main.rs"),
		func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
			return []mcpgo.ResourceContents{
				mcpgo.TextResourceContents{URI: mainFile, Text: "x"}}, nil
		})
	return s
}
