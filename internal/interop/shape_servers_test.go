package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	mcpgomcp "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// What the servers of all shapes have in common: requests that ask nothing, the tool "remove" in
// its usual form, and the recipe of the adapters' pages.

// removeArgs are the arguments of the tool "remove".
var removeArgs = json.RawMessage(
	`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)

func officialText(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// newOfficial returns a server of the official Go SDK with what asks nothing.
func (s *site) newOfficial() *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "shape", Version: "1.0.0"}, nil)
	anything := json.RawMessage(`{"type":"object"}`)
	srv.AddTool(&mcp.Tool{Name: "version", InputSchema: anything},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result := officialText("version 1 " + string(req.Params.Arguments))
			result.StructuredContent = map[string]any{"major": 1}
			return result, nil
		})
	srv.AddTool(&mcp.Tool{Name: "broken", InputSchema: anything},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("the disk is full")
		})
	srv.AddTool(&mcp.Tool{Name: "coded", InputSchema: anything},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: -32050, Message: "out of quota",
				Data: json.RawMessage(`{"left":0}`)}
		})
	srv.AddPrompt(&mcp.Prompt{Name: "hello"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return officialPrompt("hello"), nil
		})
	srv.AddPrompt(&mcp.Prompt{Name: "broken"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, errors.New("the disk is full")
		})
	for uri, err := range map[string]error{"doc://readme": nil,
		"doc://broken": errors.New("the disk is full")} {
		srv.AddResource(&mcp.Resource{Name: uri, URI: uri},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				if err != nil {
					return nil, err
				}
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
					{URI: uri, Text: "read me"}}}, nil
			})
	}
	s.onHangUp(func() {
		for session := range srv.Sessions() {
			_ = session.Close()
		}
	})
	return srv
}

func officialPrompt(text string) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
		Content: &mcp.TextContent{Text: text}}}}
}

// askOfficial asks over a session of the official Go SDK.
func askOfficial(session *mcp.ServerSession) questioner {
	return func(ctx context.Context, message string, schema map[string]any) (string,
		map[string]any, error) {
		answer, err := session.Elicit(ctx,
			&mcp.ElicitParams{Message: message, RequestedSchema: schema})
		if err != nil {
			return "", nil, err
		}
		return answer.Action, answer.Content, nil
	}
}

// addOfficialRemove adds the tool "remove" in its usual form.
func (s *site) addOfficialRemove(srv *mcp.Server) {
	srv.AddTool(&mcp.Tool{Name: "remove", InputSchema: removeArgs},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return s.removeOfficial(ctx, req, askOfficial(req.Session))
		})
}

func (s *site) removeOfficial(ctx context.Context, req *mcp.CallToolRequest,
	ask questioner) (*mcp.CallToolResult, error) {
	name, err := officialName(req)
	if err != nil {
		return nil, err
	}
	text, err := s.removePart(ctx, name, ask,
		func(ctx context.Context) error { return s.act(ctx, name) })
	if err != nil {
		return nil, err
	}
	return officialText(text), nil
}

// officialName reads the argument of the tool "remove".
func officialName(req *mcp.CallToolRequest) (string, error) {
	var in struct{ Name string }
	err := json.Unmarshal(req.Params.Arguments, &in)
	return in.Name, err
}

// serveOfficial serves servers of the official Go SDK, bare or behind the adapter. Without
// Stateless the SDK alone has no modern revision; there the two are compared with it.
func (s *site) serveOfficial(t *testing.T, getServer func(*http.Request) *mcp.Server,
	how mcp.StreamableHTTPOptions, opts gosdk.Options) http.Handler {
	t.Helper()
	if s.bare {
		how.Stateless = how.Stateless || s.revision == modern
		return mcp.NewStreamableHTTPHandler(getServer, &how)
	}
	opts.UnmodifiedHandlers = true
	a, err := gosdk.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	h, err := a.Handler(getServer, &how)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serveOneOfficial is serveOfficial for one server in the SDK's usual way.
func (s *site) serveOneOfficial(t *testing.T, srv *mcp.Server) http.Handler {
	t.Helper()
	return s.serveOfficial(t, func(*http.Request) *mcp.Server { return srv },
		mcp.StreamableHTTPOptions{}, gosdk.Options{})
}

// newMCPGo returns a server of mcp-go with what asks nothing.
func (s *site) newMCPGo(opts ...mcpgoserver.ServerOption) *mcpgoserver.MCPServer {
	opts = append([]mcpgoserver.ServerOption{mcpgoserver.WithToolCapabilities(false),
		mcpgoserver.WithPromptCapabilities(false),
		mcpgoserver.WithResourceCapabilities(false, false), mcpgoserver.WithElicitation()}, opts...)
	srv := mcpgoserver.NewMCPServer("shape", "1.0.0", opts...)
	srv.AddTool(mcpgomcp.NewTool("version"),
		func(_ context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			text, err := json.Marshal(r.GetArguments())
			if err != nil {
				return nil, err
			}
			return mcpgomcp.NewToolResultStructured(map[string]any{"major": 1},
				"version 1 "+string(text)), nil
		})
	srv.AddTool(mcpgomcp.NewTool("broken"),
		func(context.Context, mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			return nil, errors.New("the disk is full")
		})
	srv.AddTool(mcpgomcp.NewTool("coded"),
		func(context.Context, mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			return mcpgomcp.NewToolResultError("out of quota"), nil
		})
	srv.AddPrompt(mcpgomcp.NewPrompt("hello"),
		func(context.Context, mcpgomcp.GetPromptRequest) (*mcpgomcp.GetPromptResult, error) {
			return mcpGoPrompt("hello"), nil
		})
	srv.AddPrompt(mcpgomcp.NewPrompt("broken"),
		func(context.Context, mcpgomcp.GetPromptRequest) (*mcpgomcp.GetPromptResult, error) {
			return nil, errors.New("the disk is full")
		})
	for uri, err := range map[string]error{"doc://readme": nil,
		"doc://broken": errors.New("the disk is full")} {
		srv.AddResource(mcpgomcp.NewResource(uri, uri),
			func(context.Context, mcpgomcp.ReadResourceRequest) ([]mcpgomcp.ResourceContents,
				error) {
				if err != nil {
					return nil, err
				}
				return []mcpgomcp.ResourceContents{mcpgomcp.TextResourceContents{URI: uri,
					Text: "read me"}}, nil
			})
	}
	return srv
}

func mcpGoPrompt(text string) *mcpgomcp.GetPromptResult {
	return mcpgomcp.NewGetPromptResult("", []mcpgomcp.PromptMessage{
		mcpgomcp.NewPromptMessage(mcpgomcp.RoleUser, mcpgomcp.NewTextContent(text))})
}

// askMCPGo asks over the session of mcp-go that the context has.
func askMCPGo(srv *mcpgoserver.MCPServer) questioner {
	return func(ctx context.Context, message string, schema map[string]any) (string,
		map[string]any, error) {
		answer, err := srv.RequestElicitation(ctx, mcpgomcp.ElicitationRequest{
			Params: mcpgomcp.ElicitationParams{Message: message, RequestedSchema: schema}})
		if err != nil {
			return "", nil, err
		}
		content, _ := answer.Content.(map[string]any)
		return string(answer.Action), content, nil
	}
}

// addMCPGoRemove adds the tool "remove" in its usual form.
func (s *site) addMCPGoRemove(srv *mcpgoserver.MCPServer) {
	srv.AddTool(mcpgomcp.NewToolWithRawSchema("remove", "", removeArgs),
		func(ctx context.Context, r mcpgomcp.CallToolRequest) (*mcpgomcp.CallToolResult, error) {
			return s.removeMCPGo(ctx, r, askMCPGo(srv))
		})
}

func (s *site) removeMCPGo(ctx context.Context, r mcpgomcp.CallToolRequest,
	ask questioner) (*mcpgomcp.CallToolResult, error) {
	name := r.GetString("name", "")
	text, err := s.removePart(ctx, name, ask,
		func(ctx context.Context) error { return s.act(ctx, name) })
	if err != nil {
		return nil, err
	}
	return mcpgomcp.NewToolResultText(text), nil
}

// serveMCPGo serves one server of mcp-go, bare or behind the adapter.
func (s *site) serveMCPGo(t *testing.T, srv *mcpgoserver.MCPServer, opts mcpgo.Options,
	how ...mcpgoserver.StreamableHTTPOption) http.Handler {
	t.Helper()
	how = append(how, mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	if s.bare {
		return mcpgoserver.NewStreamableHTTPServer(srv, how...)
	}
	opts.UnmodifiedHandlers = true
	a, err := mcpgo.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Install(srv); err != nil {
		t.Fatal(err)
	}
	return a.Handler(mcpgoserver.NewStreamableHTTPServer(srv, how...))
}

// serveOneMCPGo is serveMCPGo in mcp-go's usual way.
func (s *site) serveOneMCPGo(t *testing.T, srv *mcpgoserver.MCPServer) http.Handler {
	t.Helper()
	return s.serveMCPGo(t, srv, mcpgo.Options{})
}
