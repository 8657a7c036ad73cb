package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
)

// A library is an upstream with prompts and resources that ask before they are served.
type library struct {
	*server.MCPServer
	runs atomic.Int64
}

func newLibrary() *library {
	l := &library{MCPServer: server.NewMCPServer("library", "1", server.WithElicitation(),
		server.WithPromptCapabilities(true), server.WithResourceCapabilities(false, true),
		server.WithHooks(&server.Hooks{}))}
	l.AddPrompt(mcp.NewPrompt("review"), l.getPrompt)
	l.AddResource(mcp.NewResource("file:///plan", "plan"), l.read)
	l.AddResourceTemplate(mcp.NewResourceTemplate("page:///{n}", "pages"), l.read)
	return l
}

func (l *library) getPrompt(ctx context.Context,
	r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	l.runs.Add(1)
	reason := askReason(ctx, l.MCPServer, "why "+r.Params.Arguments["of"])
	return mcp.NewGetPromptResult("", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(reason))}), nil
}

func (l *library) read(ctx context.Context,
	r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	l.runs.Add(1)
	reason := askReason(ctx, l.MCPServer, "why "+r.Params.URI)
	return []mcp.ResourceContents{
		mcp.TextResourceContents{URI: r.Params.URI, Text: reason}}, nil
}

// serveLibrary returns a gateway before l over HTTP.
func serveLibrary(t *testing.T, l *library) *publishingGateway {
	t.Helper()
	g := &publishingGateway{rename: func(prompt string) string { return "library-" + prompt }}
	g.serve(t, mcpgo.UpstreamOptions{Transport: serveUpstream(t, l.MCPServer)})
	return g
}

func getPrompt(t *testing.T, c *client.Client) string {
	t.Helper()
	var r mcp.GetPromptRequest
	r.Params.Name, r.Params.Arguments = "library-review", map[string]string{"of": "main.go"}
	got, err := c.GetPrompt(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return got.Messages[0].Content.(mcp.TextContent).Text
}

func readResource(t *testing.T, c *client.Client, uri string) string {
	t.Helper()
	var r mcp.ReadResourceRequest
	r.Params.URI = uri
	got, err := c.ReadResource(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return got.Contents[0].(mcp.TextResourceContents).Text
}

func TestPromptsAndResourcesAskClients(t *testing.T) {
	l := newLibrary()
	g := serveLibrary(t, l)
	for way, c := range map[string]*client.Client{
		"HTTP": g.user(t, "ann"), "lines": connectUser(t, overLines(t, g.server)(), "ann"),
	} {
		t.Run(way, func(t *testing.T) {
			before := l.runs.Load()
			for want, got := range map[string]string{
				"accept ann to why main.go":      getPrompt(t, c),
				"accept ann to why file:///plan": readResource(t, c, "file:///plan"),
				"accept ann to why page:///7":    readResource(t, c, "page:///7"),
			} {
				if got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if n := l.runs.Load() - before; n != 3 {
				t.Errorf("the upstream ran %d times for 3 requests", n)
			}
		})
	}
}

// Prompts and resources that an upstream gets and loses later are the gateway's, too.
func TestChangesOfPromptsAndResourcesArePassedOn(t *testing.T) {
	l := newLibrary()
	g := &publishingGateway{}
	served := httptest.NewServer(server.NewStreamableHTTPServer(l.MCPServer, quiet))
	t.Cleanup(served.Close)
	//lint:ignore SA1019 the revisions that have the stream are those that ask on it
	open := overHTTP(t, served.URL+"/mcp", transport.WithContinuousListening())
	g.serve(t, mcpgo.UpstreamOptions{
		Transport: func() (transport.Interface, error) { return open(), nil }})
	c := g.user(t, "ann")
	waitUntilListed(t, g, c, "file:///plan", "page:///{n}", "review")
	// mcp-go does not report when the standing stream is open, before which changes are lost.
	limit := time.Now().Add(10 * time.Second)
	for ; g.server.ListPrompts()["write"] == nil; runtime.Gosched() {
		l.AddPrompt(mcp.NewPrompt("write"), l.getPrompt)
		if time.Now().After(limit) {
			t.Fatal("a change does not arrive")
		}
	}
	l.DeletePrompts("review")
	waitUntilListed(t, g, c, "file:///plan", "page:///{n}", "write")
	l.DeleteResources("file:///plan")
	l.AddResourceTemplate(mcp.NewResourceTemplate("log:///{n}", "logs"), l.read)
	waitUntilListed(t, g, c, "log:///{n}", "page:///{n}", "write")
}

// waitUntilListed waits until the gateway offers these prompts, resources and templates.
func waitUntilListed(t *testing.T, g *publishingGateway, c *client.Client, want ...string) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		got := slices.Collect(maps.Keys(g.server.ListPrompts()))
		got = slices.AppendSeq(got, maps.Keys(g.server.ListResources()))
		templates, err := c.ListResourceTemplates(within(t), mcp.ListResourceTemplatesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, template := range templates.ResourceTemplates {
			got = append(got, template.URITemplate.Raw())
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("the gateway has %q, want %q", got, want)
		}
	}
}

// An upstream cannot get the calls that are meant for another one.
func TestUpstreamsDoNotTakeEachOthersNames(t *testing.T) {
	good, evil := newLibrary(), newLibrary()
	g := serveLibrary(t, good)
	other := g.connect(t, evil)
	err := errors.Join(other.PublishPrompts(t.Context(), g.rename),
		other.PublishResources(t.Context()))
	for _, want := range []string{`prompt "library-review": another upstream`,
		`resource "file:///plan": another`, `resource template "page:///{n}": another`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	c := g.user(t, "ann")
	getPrompt(t, c)
	readResource(t, c, "file:///plan")
	readResource(t, c, "page:///7")
	if good.runs.Load() != 3 || evil.runs.Load() != 0 {
		t.Errorf("the first upstream ran %d times, the other %d", good.runs.Load(),
			evil.runs.Load())
	}
}

// connect returns another upstream of the gateway.
func (g *publishingGateway) connect(t *testing.T, l *library) *mcpgo.Upstream {
	t.Helper()
	up, err := g.users.NewUpstream(mcpgo.UpstreamOptions{
		Transport: serveUpstream(t, l.MCPServer)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	return up
}

func TestListsThatAreTooLongAreRefused(t *testing.T) {
	l := newLibrary()
	prompts := make([]server.ServerPrompt, 10_001)
	for i := range prompts {
		prompts[i] = server.ServerPrompt{Prompt: mcp.NewPrompt(fmt.Sprint("p", i)),
			Handler: l.getPrompt}
	}
	l.AddPrompts(prompts...)
	err := serveLibrary(t, newLibrary()).connect(t, l).PublishPrompts(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "more than 10000 prompts") {
		t.Errorf("got %v", err)
	}
}

// A template without a URI is left out: mcp-go's server would keep a lock for ever.
func TestTemplatesWithoutAURIAreLeftOut(t *testing.T) {
	l := newLibrary()
	l.GetHooks().AddAfterListResourceTemplates(func(_ context.Context, _ any,
		_ *mcp.ListResourceTemplatesRequest, result *mcp.ListResourceTemplatesResult) {
		result.ResourceTemplates = append([]mcp.ResourceTemplate{{Name: "none"}},
			result.ResourceTemplates...)
	})
	g := serveLibrary(t, l)
	waitUntilListed(t, g, g.user(t, "ann"), "file:///plan", "library-review",
		"page:///{n}")
}
