package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// newServer returns a server, closed when the test ends.
func newServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	s, err := server.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type nothing struct{}

func addTool(s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name, Description: name}, func(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
		return server.Text(name), nil
	})
}

func TestIteratorsWalkAllPages(t *testing.T) {
	s := newServer(t, &server.Options{PageSize: 3})
	for i := range 7 {
		name := fmt.Sprintf("n%d", i)
		addTool(s, name)
		server.AddPrompt(s, server.Prompt{Name: name, Description: name}, neverPrompt)
		server.AddResource(s, server.Resource{URI: "x:" + name, Name: name}, neverResource)
		server.AddResourceTemplate(s, server.ResourceTemplate{URITemplate: "x:" + name + "/{id}", Name: name}, neverResource)
	}
	c := newClient(t, s, nil)
	var got []string
	note := func(name string, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	for tool, err := range c.Tools(t.Context()) {
		note(tool.Name, err)
	}
	for prompt, err := range c.Prompts(t.Context()) {
		note(prompt.Name, err)
	}
	for resource, err := range c.Resources(t.Context()) {
		note(resource.Name, err)
	}
	for template, err := range c.ResourceTemplates(t.Context()) {
		note(template.Name, err)
	}
	want := strings.TrimSpace(strings.Repeat("n0 n1 n2 n3 n4 n5 n6 ", 4))
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func neverPrompt(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return nil, errors.New("not called")
}

func neverResource(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	return nil, errors.New("not called")
}

// endless answers tools/list with one tool and a cursor made of the request's.
func endless(t *testing.T, next func(cursor string) string) *fakePeer {
	return answering(func(req *protocol.Request) (*protocol.Response, error) {
		var cursor string
		if raw := member(t, req, "cursor"); raw != "" {
			if err := json.Unmarshal([]byte(raw), &cursor); err != nil {
				t.Error(err)
			}
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(
			fmt.Sprintf(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":%q}`, next(cursor)))}, nil
	})
}

func TestEndlessLists(t *testing.T) {
	cases := []struct {
		name   string
		next   func(string) string
		tools  int
		cursor string
	}{
		{"same cursor", func(string) string { return "a" }, 2, "a"},
		{"two in turn", func(c string) string { return map[string]string{"": "a", "a": "b", "b": "a"}[c] }, 3, "a"},
		{"always another", func(c string) string { return c + "x" }, client.MaxPages, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peer := endless(t, c.next)
			tools, failed := 0, error(nil)
			for _, err := range newClient(t, peer, nil).Tools(t.Context()) {
				if failed != nil {
					t.Fatal("something came after the error")
				}
				if failed = err; err == nil {
					tools++
				}
			}
			e, ok := errors.AsType[*client.PagesError](failed)
			if !ok || e.Cursor != c.cursor || e.Method != protocol.MethodListTools || tools != c.tools || len(peer.requests()) != c.tools {
				t.Errorf("got %v after %d tools and %d requests, want %d", failed, tools, len(peer.requests()), c.tools)
			}
		})
	}
}

func TestIteratorStopsWhenTheLoopDoes(t *testing.T) {
	peer := endless(t, func(c string) string { return c + "x" })
	c := newClient(t, peer, nil)
	for range c.Tools(t.Context()) {
		break
	}
	if n := len(peer.requests()); n != 1 {
		t.Errorf("got %d requests, want 1", n)
	}
}

func TestIteratorReportsErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var failed error
	for _, err := range newClient(t, endless(t, func(c string) string { return c + "x" }), nil).Tools(ctx) {
		n++
		if failed = err; n == 2 {
			cancel()
		}
	}
	if !errors.Is(failed, context.Canceled) || n != 3 {
		t.Errorf("got %v at %d", failed, n)
	}
}

func TestIteratorLeavesOutInvalidTools(t *testing.T) {
	peer := script(`{"tools":[
		{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}},
		{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}`)
	var kept, rejected []string
	c := newClient(t, peer, &client.Options{ToolRejected: func(_ context.Context, tool *protocol.Tool, _ error) {
		rejected = append(rejected, tool.Name)
	}})
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, tool.Name)
	}
	if fmt.Sprint(kept, rejected) != "[good] [bad]" {
		t.Errorf("got %v, rejected %v", kept, rejected)
	}
}

func ExampleClient_Tools() {
	s, err := server.New(&server.Options{PageSize: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"build", "deploy", "rollback"} {
		addTool(s, name)
	}
	c := client.New(s, nil)
	defer c.Close()
	for tool, err := range c.Tools(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tool.Name)
	}
	// Output:
	// build
	// deploy
	// rollback
}
