package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"

	reasonSchema = `{"type":"object","properties":{"reason":{"type":"string"}},` +
		`"required":["reason"]}`
	question = `{"mode":"form","message":"Sure?","requestedSchema":` + reasonSchema + `}`
	forms    = `{"elicitation":{"form":{}}}`
)

// patience bounds what should take milliseconds.
const patience = 10 * time.Second

var impl = &mcp.Implementation{Name: "test", Version: "1"}

func newRouter(t *testing.T, opts *elicitation.Options) *elicitation.Router {
	t.Helper()
	router, err := elicitation.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

func tool(name string) *mcp.Tool {
	return &mcp.Tool{Name: name, Description: "Asks.",
		InputSchema: json.RawMessage(`{"type":"object"}`)}
}

func tell(answer *mcp.ElicitResult, err error) *mcp.CallToolResult {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return text(fmt.Sprintf("%d %s", e.Code, e.Message))
	}
	if err != nil {
		return text("local: " + err.Error())
	}
	content, _ := json.Marshal(answer.Content)
	return text(answer.Action + " " + string(content))
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func call(t *testing.T, session *mcp.ClientSession, tool, env string) string {
	t.Helper()
	result, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: tool, Arguments: map[string]any{"env": env}})
	if err != nil {
		return "error: " + err.Error()
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// overHTTPAt serves s until the test ends.
func overHTTPAt(t *testing.T, s *mcp.Server, opts *mcp.StreamableHTTPOptions) (url string) {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts)
	served := httptest.NewServer(handler)
	t.Cleanup(served.Close)
	return served.URL
}

// newModernUpstream is a server of revision 2026-07-28 whose results have its questions.
func newModernUpstream(t *testing.T) *gatewaytest.Upstream {
	s := mcp.NewServer(impl, nil)
	ask := func(answers mcp.InputResponseMap, message string) (string, mcp.InputRequestMap) {
		if answer, ok := answers["why"].(*mcp.ElicitResult); ok {
			return fmt.Sprint(answer.Action, " ", answer.Content["reason"]), nil
		}
		return "", mcp.InputRequestMap{"why": &mcp.ElicitParams{Message: message,
			RequestedSchema: json.RawMessage(reasonSchema)}}
	}
	s.AddTool(tool(gatewaytest.ToolAsk), func(_ context.Context,
		req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Question string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		reason, questions := ask(req.Params.InputResponses, args.Question)
		if questions != nil {
			return &mcp.CallToolResult{InputRequests: questions}, nil
		}
		return text(reason), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "review"}, func(_ context.Context,
		req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		reason, questions := ask(req.Params.InputResponses, "a prompt")
		if questions != nil {
			return &mcp.GetPromptResult{InputRequests: questions}, nil
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: reason}}}}, nil
	})
	s.AddResource(&mcp.Resource{Name: "plan", URI: "file:///plan"}, func(_ context.Context,
		req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		reason, questions := ask(req.Params.InputResponses, "a resource")
		if questions != nil {
			return &mcp.ReadResourceResult{InputRequests: questions}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: req.Params.URI, Text: reason}}}, nil
	})
	return &gatewaytest.Upstream{
		URL: overHTTPAt(t, s, &mcp.StreamableHTTPOptions{Stateless: true})}
}

// TestUpstreamsOfTheModernRevision ask the clients of the gateway, each for its own call.
func TestUpstreamsOfTheModernRevision(t *testing.T) {
	up := newModernUpstream(t)
	byHand := func(mode gatewaytest.Mode) http.Handler {
		server, router := mcp.NewServer(impl, nil), newRouter(t, nil)
		clients, err := gosdk.NewDownstream(router, server, nil)
		if err != nil {
			t.Fatal(err)
		}
		server.AddTool(tool(gatewaytest.ToolAsk),
			passTo(t, router, clients, &gatewaytest.Backend{Upstream: up, ProtocolVersion: modern},
				mode))
		return streamable(server)
	}
	published := &gatewaytest.Backend{Upstream: up, ProtocolVersion: modern, Publish: true}
	whole, _ := build(t, newRouter(t, nil), published)
	if published.Err != nil {
		t.Fatal(published.Err)
	}
	for name, gateway := range map[string]http.Handler{"an Upstream": whole,
		"a shared client":        byHand(gatewaytest.SharedHTTP),
		"a client for each call": byHand(gatewaytest.PerCallHTTP)} {
		t.Run(name, func(t *testing.T) {
			served := httptest.NewServer(gateway)
			t.Cleanup(served.Close)
			ask := gatewaytest.ToolAsk
			if name == "an Upstream" {
				ask = "up_" + ask
			}
			var users sync.WaitGroup
			for _, user := range []string{"ann", "bob"} {
				c := gatewaytest.Connect(t, served.URL, forms,
					`"result":{"action":"accept","content":{"reason":"`+user+` to MESSAGE"}}`, nil)
				users.Go(func() {
					for n := range 5 {
						want := fmt.Sprintf("accept %s to %d", user, n)
						if got := c.Call(t, ask, fmt.Sprintf(`"%d"`, n)); got != want {
							t.Errorf("got %s, want %s", got, want)
						}
					}
				})
				if name != "an Upstream" {
					continue
				}
				for want, r := range map[string][2]string{
					"a prompt":   {"prompts/get", `{"name":"up_review"}`},
					"a resource": {"resources/read", `{"uri":"up+file:///plan"}`}} {
					got := c.Request(t, r[0], r[1])
					if want = fmt.Sprintf("accept %s to %s", user, want); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			}
			users.Wait()
		})
	}
}

// TestSilentUser: the client's question is withdrawn.
func TestSilentUser(t *testing.T) {
	router := newRouter(t, &elicitation.Options{Timeout: 100 * time.Millisecond})
	up := gatewaytest.NewUpstream(t)
	url := serveRaw(t, router, up, gatewaytest.SharedHTTP)
	gatewaytest.CheckWithdrawn(t, up, gatewaytest.Connect(t, url, forms, "", nil))
}

// TestForgedMarks: an upstream cannot give a question to another call by what it sends.
func TestForgedMarks(t *testing.T) {
	url := serveRaw(t, newRouter(t, nil), gatewaytest.NewUpstream(t), gatewaytest.SharedHTTP)
	client := gatewaytest.Connect(t, url, forms, "", nil)
	stream := client.StartCall(t, gatewaytest.ToolAsk,
		`{"_meta":{"rondo/call":"made up","kept":"yes"},`+question[1:])
	defer stream.Close()
	var asked struct {
		Meta map[string]any `json:"_meta"`
	}
	params := stream.WaitForQuestion(t).Params
	if err := json.Unmarshal(params, &asked); err != nil || asked.Meta["kept"] != "yes" ||
		strings.Contains(string(params), "rondo/call") {
		t.Errorf("the client is asked %s, %v, want only what the upstream said", params, err)
	}
}

// TestRefusedCall: a call that the router refuses reaches the client with its code and the
// time after which to try again.
func TestRefusedCall(t *testing.T) {
	router := newRouter(t, nil)
	url := serveRaw(t, router, gatewaytest.NewUpstream(t), gatewaytest.SharedHTTP)
	client := gatewaytest.Connect(t, url, forms, "", nil)
	if err := router.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := client.Call(t, gatewaytest.ToolPlain, question); !strings.Contains(got,
		`"code":23223`) || !strings.Contains(got, `"retryAfterMs":5000`) {
		t.Errorf("got %v", got)
	}
}

// TestModernClientBeforeAnOlderUpstream: the revision in the context of a handler does not
// reach the upstream.
func TestModernClientBeforeAnOlderUpstream(t *testing.T) {
	router, server := newRouter(t, nil), mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(tool(gatewaytest.ToolPlain), passTo(t, router, clients,
		&gatewaytest.Backend{Upstream: gatewaytest.NewUpstream(t)}, gatewaytest.PerCallHTTP))
	url := overHTTPAt(t, server, &mcp.StreamableHTTPOptions{Stateless: true})
	session, err := mcp.NewClient(impl, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: modern})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if got := call(t, session, gatewaytest.ToolPlain, ""); got != "done" {
		t.Errorf("got %s", got)
	}
}

// TestNewDownstreamRefuses: a router and a server are required.
func TestNewDownstreamRefuses(t *testing.T) {
	if _, err := gosdk.NewDownstream(nil, mcp.NewServer(impl, nil), nil); err == nil {
		t.Error("without a router: no error")
	}
	if _, err := gosdk.NewDownstream(new(elicitation.Router), nil, nil); err == nil {
		t.Error("without a server: no error")
	}
}
