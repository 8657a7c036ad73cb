package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
)

func wide() *mcp.Server {
	s := newServer(&mcp.ServerOptions{PageSize: 2, Instructions: "be <kind>",
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (
			*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
				Values: []string{"a<b"}}}, nil
		}})
	type output struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	for i := range 5 {
		mcp.AddTool(s, &mcp.Tool{Name: fmt.Sprint("tool", i), Title: "<é>",
			Meta: mcp.Meta{"k": 1.5}, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(_ context.Context, _ *toolRequest, in struct {
				N int `json:"n" jsonschema:"how many"`
			}) (*mcp.CallToolResult, output, error) {
				switch in.N {
				case 0:
					return nil, output{}, errors.New("<none>")
				case 1:
					return nil, output{}, &jsonrpc.Error{Code: 7, Message: "seven",
						Data: json.RawMessage(`{"x":"<"}`)}
				}
				return nil, output{Name: "a & b"}, nil
			})
	}
	addRaw(s, "contents", func(context.Context, *toolRequest) (*toolResult, error) {
		return &mcp.CallToolResult{Meta: mcp.Meta{"z": 1, "a": []any{nil}},
			StructuredContent: map[string]any{"b": "<", "a": 1e21},
			Content: []mcp.Content{&mcp.TextContent{Text: "<\u2028>"},
				&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
				&mcp.ResourceLink{URI: "x://y", Name: "y"},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "x://y",
					Blob: []byte{1}}}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "prompt", Arguments: []*mcp.PromptArgument{{Name: "a"}}},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: "hi"}}}}, nil
		})
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: "<r>"}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "x://y", Name: "y", MIMEType: "text/plain"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "x://{id}/z", Name: "z"}, read)
	return s
}

// The type plain is a client connected to a server over the SDK's in-memory transport.
type plain struct {
	t    testing.TB
	conn mcp.Connection
	last float64
}

func connectPlain(t testing.TB, s *mcp.Server) *plain {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	session, err := s.Connect(t.Context(), far, nil)
	noError(t, err)
	conn, err := near.Connect(t.Context())
	noError(t, err)
	t.Cleanup(func() { _ = conn.Close(); _ = session.Wait() })
	return &plain{t: t, conn: conn}
}

func (p *plain) send(method, params string) *jsonrpc.Response {
	p.last++
	id, _ := jsonrpc.MakeID(p.last)
	err := p.conn.Write(p.t.Context(), &jsonrpc.Request{ID: id, Method: method,
		Params: json.RawMessage(params)})
	noError(p.t, err)
	m, err := p.conn.Read(p.t.Context())
	noError(p.t, err)
	return m.(*jsonrpc.Response)
}

func TestResultsAreThoseOfTheSDKByteForByte(t *testing.T) {
	c, p := open(t, wide()), connectPlain(t, wide())
	want(t, "initialize", c.Offers, string(p.send("initialize",
		string(hostedtest.Initialize(noCapabilities).Params)).Result))
	_ = p.conn.Write(t.Context(), &jsonrpc.Request{Method: "notifications/initialized"})
	alone := func(method, params string) string {
		r := p.send(method, params)
		if wire, failed := errors.AsType[*jsonrpc.Error](r.Error); failed {
			return hostedtest.RawOf(&protocol.Response{Error: &protocol.Error{Code: wire.Code,
				Message: wire.Message, Data: wire.Data}}, nil)
		}
		return string(r.Result)
	}
	for _, list := range []string{"tools/list", "prompts/list", "resources/list",
		"resources/templates/list"} {
		pages := 0
		var page struct{ NextCursor string }
		for params := "{}"; pages == 0 || page.NextCursor != ""; pages++ {
			c.WantSame(alone, [2]string{list, params})
			page.NextCursor = ""
			_ = json.Unmarshal([]byte(c.Do(nil, list, params)), &page)
			params = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
		}
		if list == "tools/list" && pages != 3 {
			t.Errorf("%d pages of tools, want 3", pages)
		}
	}
	c.WantSame(alone, [][2]string{
		{"tools/list", `{"cursor":"bad"}`},
		{"tools/call", `{"name":"tool1","arguments":{"n":2}}`},
		{"tools/call", `{"name":"tool1","arguments":{"n":0}}`},
		{"tools/call", `{"name":"tool1","arguments":{"n":1}}`},
		{"tools/call", `{"name":"tool1","arguments":{"n":"x"}}`},
		{"tools/call", `{"name":"tool1"}`},
		{"tools/call", `{"name":"contents"}`},
		{"tools/call", `{"name":"absent"}`},
		{"tools/call", `{"name":7}`},
		{"prompts/get", `{"name":"prompt"}`},
		{"prompts/get", `{"name":"absent"}`},
		{"resources/read", `{"uri":"x://y"}`},
		{"resources/read", `{"uri":"x://7/z"}`},
		{"resources/read", `{"uri":"x://absent"}`},
		{"completion/complete",
			`{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":""}}`},
		{"completion/complete", `{}`},
		{"absent/method", `{}`},
		{"ping", `{}`},
	}...)
}
