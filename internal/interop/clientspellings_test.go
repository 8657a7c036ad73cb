package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// strictClient are the spellings that both others take and rondo refuses, with the reason.
var strictClient = map[string]string{}

// TestClientsTakeSpellings has clients of three libraries read the same bytes of one server.
func TestClientsTakeSpellings(t *testing.T) {
	table := newVerdictTable("testdata/client-spellings.md",
		"# Who reads which response\n\nThe published examples, and named rows, in other spellings; "+
			"written by TestClientsTakeSpellings with -update.")
	s := &scriptedServer{results: map[string]string{}}
	endpoint, _ := listen(t, s)
	used := map[string]bool{}
	for _, c := range clientCases(t, s) {
		var took [3]bool
		for i, reads := range [3]func(*testing.T, string, string, string) error{
			readsRondo, readsGoSDK, readsMCPGo} {
			s.setCase(c)
			took[i] = reads(t, endpoint, c.era, c.method) == nil
		}
		table.add(t, c.method+", "+c.era, c.name, took, strictClient, used)
	}
	table.finish(t, 50, strictClient, used)
}

// A clientCase is one response, or one result where it has no id.
type clientCase struct{ era, method, name, text string }

// listed are the methods that have a published response which clients of all libraries can ask for.
var listed = map[string]string{
	"CallToolResult": protocol.MethodCallTool, "GetPromptResult": protocol.MethodGetPrompt,
	"ListPromptsResult":           protocol.MethodListPrompts,
	"ListResourcesResult":         protocol.MethodListResources,
	"ListResourceTemplatesResult": protocol.MethodListResourceTemplates,
	"ListToolsResult":             protocol.MethodListTools,
	"ReadResourceResult":          protocol.MethodReadResource,
	"DiscoverResult":              protocol.MethodDiscover,
}

func clientCases(t *testing.T, s *scriptedServer) (cases []clientCase) {
	newer, older := newSpeller(t, modern), newSpeller(t, v20251125)
	for _, e := range examplesOf(t, func(typ string) bool { return listed[typ] != "" }) {
		method, result := listed[e.Type], decodeExact(t, e.JSON).(map[string]any)
		if strings.Contains(e.Name, "error") {
			continue
		}
		delete(result, "nextCursor") // there is one page
		s.results[method] = string(encodeExact(t, result))
		for _, spelled := range newer.respell(t, e.Type, result) {
			cases = append(cases, clientCase{modern, method, e.Name + ": " + spelled.name,
				string(spelled.text)})
		}
		if e.Type == "DiscoverResult" {
			continue
		}
		for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
			delete(result, member)
		}
		for _, spelled := range older.respell(t, e.Type, result) {
			cases = append(cases, clientCase{v20251125, method, e.Name + ": " + spelled.name,
				string(spelled.text)})
		}
	}
	// What a server does not declare our client does not ask for.
	s.results[protocol.MethodDiscover] = strings.Replace(s.results[protocol.MethodDiscover],
		`"capabilities":{`, `"capabilities":{"prompts":{},`, 1)
	hello := decodeExact(t, []byte(welcomeText))
	for _, spelled := range older.respell(t, "InitializeResult", hello) {
		cases = append(cases, clientCase{v20251125, protocol.MethodInitialize, spelled.name,
			string(spelled.text)})
	}
	return append(cases, namedClientCases()...)
}

const welcomeText = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},` +
	`"resources":{},"experimental":{}},"serverInfo":{"name":"ExampleServer","version":"1.0.0"}}`

// namedClientCases are what real servers were seen to send.
func namedClientCases() (cases []clientCase) {
	for _, era := range []string{v20251125, modern} {
		add := func(method, name, text string) {
			if era == modern {
				hints := `"resultType":"complete",`
				if method == protocol.MethodListTools {
					hints += `"ttlMs":0,"cacheScope":"private",`
				}
				text = strings.NewReplacer(`{"tools"`, `{`+hints+`"tools"`, `{"content"`,
					`{`+hints+`"content"`).Replace(text)
			}
			cases = append(cases, clientCase{era, method, name, text})
		}
		const good = `{"name":"get_weather","inputSchema":{"type":"object"}`
		for _, row := range [][2]string{
			{"nextCursor null", `{"tools":[` + good + `}],"nextCursor":null}`},
			{"outputSchema null", `{"tools":[` + good + `,"outputSchema":null}]}`},
			{"tool _meta null", `{"tools":[` + good + `,"_meta":null}]}`},
			{"one tool without inputSchema", `{"tools":[` + good + `},{"name":"bad"}]}`},
		} {
			add(protocol.MethodListTools, row[0], row[1])
		}
		for _, row := range [][2]string{
			{"isError null", `{"content":[{"type":"text","text":"x"}],"isError":null}`},
			{"annotations and _meta null",
				`{"content":[{"type":"text","text":"x","annotations":null,"_meta":null}]}`},
			{"text block without text", `{"content":[{"type":"text"}]}`},
			{"error null beside a result", `{"jsonrpc":"2.0","id":%,"error":null,"result":` +
				`{"content":[{"type":"text","text":"x"}]}}`},
			{"id with a fraction of zero", `{"jsonrpc":"2.0","id":%.0,"result":` +
				`{"content":[{"type":"text","text":"x"}]}}`},
		} {
			add(protocol.MethodCallTool, row[0], row[1])
		}
	}
	return cases
}

// A scriptedServer answers each method with what is set, in both eras.
type scriptedServer struct {
	mu      sync.Mutex
	results map[string]string // as published
	now     clientCase
}

func (s *scriptedServer) setCase(c clientCase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = c
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.mu.Lock()
	text, known := s.results[m.Method]
	if m.Method == protocol.MethodInitialize {
		text, known = welcomeText, true
		w.Header().Set("Mcp-Session-Id", "s")
	}
	if s.now.method == m.Method {
		text, known = s.now.text, true
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !known:
		w.WriteHeader(http.StatusNotFound)
		text = `{"jsonrpc":"2.0","id":%,"error":{"code":-32601,"message":"method not found"}}`
	case !strings.Contains(text, `"jsonrpc"`):
		text = `{"jsonrpc":"2.0","id":%,"result":` + text + `}`
	}
	_, _ = w.Write([]byte(strings.Replace(text, "%", string(m.ID), 1)))
}

var errLost = errors.New("an entry is lost")

// wants fails where a response was read, and has nothing in it.
func wants(n int, err error) error {
	if err == nil && n == 0 {
		return errLost
	}
	return err
}

var (
	cityArguments   = map[string]any{"location": "New York"}
	reviewArguments = map[string]string{"code": "x"}
)

func readsRondo(t *testing.T, endpoint, era, method string) error {
	transport, err := clienthttp.New(endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := &client.Options{Timeout: patience}
	if era != modern {
		opts.Era = protocol.Legacy
	}
	c, err := client.New(transport, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := within(t, patience)
	switch method {
	case protocol.MethodListTools:
		r, err := c.ListTools(ctx, "")
		return wants(lengthOf(r, func() int { return len(r.Tools) }), err)
	case protocol.MethodListPrompts:
		r, err := c.ListPrompts(ctx, "")
		return wants(lengthOf(r, func() int { return len(r.Prompts) }), err)
	case protocol.MethodListResources:
		r, err := c.ListResources(ctx, "")
		return wants(lengthOf(r, func() int { return len(r.Resources) }), err)
	case protocol.MethodListResourceTemplates:
		r, err := c.ListResourceTemplates(ctx, "")
		return wants(lengthOf(r, func() int { return len(r.ResourceTemplates) }), err)
	case protocol.MethodCallTool:
		r, err := c.CallTool(ctx, "get_weather", cityArguments)
		return wants(lengthOf(r, func() int { return len(r.Content) }), err)
	case protocol.MethodGetPrompt:
		r, err := c.GetPrompt(ctx, "code_review", reviewArguments)
		return wants(lengthOf(r, func() int { return len(r.Messages) }), err)
	case protocol.MethodReadResource:
		r, err := c.ReadResource(ctx, mainFile)
		return wants(lengthOf(r, func() int { return len(r.Contents) }), err)
	}
	_, err = c.Negotiate(ctx)
	return err
}

// lengthOf is 0 for nil.
func lengthOf[T any](r *T, length func() int) int {
	if r == nil {
		return 0
	}
	return length()
}

func readsGoSDK(t *testing.T, endpoint, era, method string) error {
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil)
	ctx := within(t, patience)
	s, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint,
		HTTPClient: newHTTPClient(t)}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		return err
	}
	defer s.Close()
	switch method {
	case protocol.MethodListTools:
		r, err := s.ListTools(ctx, nil)
		return wants(lengthOf(r, func() int { return len(r.Tools) }), err)
	case protocol.MethodListPrompts:
		r, err := s.ListPrompts(ctx, nil)
		return wants(lengthOf(r, func() int { return len(r.Prompts) }), err)
	case protocol.MethodListResources:
		r, err := s.ListResources(ctx, nil)
		return wants(lengthOf(r, func() int { return len(r.Resources) }), err)
	case protocol.MethodListResourceTemplates:
		r, err := s.ListResourceTemplates(ctx, nil)
		return wants(lengthOf(r, func() int { return len(r.ResourceTemplates) }), err)
	case protocol.MethodCallTool:
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "get_weather",
			Arguments: cityArguments})
		return wants(lengthOf(r, func() int { return len(r.Content) }), err)
	case protocol.MethodGetPrompt:
		r, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "code_review",
			Arguments: reviewArguments})
		return wants(lengthOf(r, func() int { return len(r.Messages) }), err)
	case protocol.MethodReadResource:
		r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: mainFile})
		return wants(lengthOf(r, func() int { return len(r.Contents) }), err)
	}
	return nil
}

func readsMCPGo(t *testing.T, endpoint, era, method string) error {
	over, err := transport.NewStreamableHTTP(endpoint,
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPBasicClient(newHTTPClient(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := mcpgoclient.NewClient(over, mcpgoclient.WithProtocolVersion(era))
	if err := c.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := within(t, patience)
	if _, err := c.Initialize(ctx, mcpgo.InitializeRequest{}); err != nil {
		return err
	}
	switch method {
	case protocol.MethodListTools:
		r, err := c.ListToolsByPage(ctx, mcpgo.ListToolsRequest{})
		return wants(lengthOf(r, func() int { return len(r.Tools) }), err)
	case protocol.MethodListPrompts:
		r, err := c.ListPromptsByPage(ctx, mcpgo.ListPromptsRequest{})
		return wants(lengthOf(r, func() int { return len(r.Prompts) }), err)
	case protocol.MethodListResources:
		r, err := c.ListResourcesByPage(ctx, mcpgo.ListResourcesRequest{})
		return wants(lengthOf(r, func() int { return len(r.Resources) }), err)
	case protocol.MethodListResourceTemplates:
		r, err := c.ListResourceTemplatesByPage(ctx, mcpgo.ListResourceTemplatesRequest{})
		return wants(lengthOf(r, func() int { return len(r.ResourceTemplates) }), err)
	case protocol.MethodCallTool:
		r, err := c.CallTool(ctx, mcpgo.CallToolRequest{
			Params: mcpgo.CallToolParams{Name: "get_weather", Arguments: cityArguments}})
		return wants(lengthOf(r, func() int { return len(r.Content) }), err)
	case protocol.MethodGetPrompt:
		r, err := c.GetPrompt(ctx, mcpgo.GetPromptRequest{
			Params: mcpgo.GetPromptParams{Name: "code_review", Arguments: reviewArguments}})
		return wants(lengthOf(r, func() int { return len(r.Messages) }), err)
	case protocol.MethodReadResource:
		r, err := c.ReadResource(ctx, mcpgo.ReadResourceRequest{
			Params: mcpgo.ReadResourceParams{URI: mainFile}})
		return wants(lengthOf(r, func() int { return len(r.Contents) }), err)
	}
	return nil
}
