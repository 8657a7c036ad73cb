package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

func sayTool(s server.Registrar, name, description, text string) {
	server.AddTool(s, server.Tool{Name: name, Description: description}, func(
		context.Context, *server.ToolCall, struct{},
	) (toolOutcome, error) {
		return server.Text(text), nil
	})
}

// newCatalogHarness returns a server with a catalog that only admin sees.
func newCatalogHarness(t *testing.T, opts server.Options) (*harness, *server.Catalog) {
	t.Helper()
	var catalog *server.Catalog
	opts.Middleware = []server.Middleware{func(next server.Handler) server.Handler {
		return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
			if req.Principal == admin {
				req.Catalogs = []*server.Catalog{catalog}
			}
			return next(ctx, req)
		}
	}}
	h := newHarness(t, &opts)
	catalog = h.NewCatalog(nil)
	return h, catalog
}

func TestRequestsSeeTheCatalogsThatMiddlewareNames(t *testing.T) {
	h, catalog := newCatalogHarness(t, server.Options{PageSize: 1})
	read := func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		return &protocol.ReadResourceResult{}, nil
	}
	prompt := func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return &protocol.GetPromptResult{}, nil
	}
	for name, s := range map[string]server.Registrar{"all": h.Server, "own": catalog} {
		sayTool(s, name, "", name)
		server.AddResource(s, server.Resource{URI: "r:" + name, Name: name}, read)
		server.AddResourceTemplate(s, server.ResourceTemplate{
			URITemplate: "t:" + name + "{x}", Name: name}, read)
		server.AddPrompt(s, server.Prompt{Name: name}, prompt)
	}
	for _, list := range []string{"tools/list", "prompts/list", "resources/list",
		"resources/templates/list"} {
		first := h.sendAs(admin, list, "")
		cursor, _ := first.result["nextCursor"].(string)
		second := h.sendAs(admin, list, fmt.Sprintf(`"cursor":%q`, cursor))
		if cursor == "" || second.err != nil {
			t.Errorf("%s: %s, then %s", list, first.raw, second.raw)
		}
		if r := h.sendAs(guest, list, ""); r.err != nil || r.result["nextCursor"] != nil {
			t.Errorf("%s: a guest sees %s", list, r.raw)
		}
	}
	for _, request := range [][2]string{
		{"tools/call", `"name":"own"`}, {"prompts/get", `"name":"own"`},
		{"resources/read", `"uri":"r:own"`}, {"resources/read", `"uri":"t:ownx"`},
	} {
		if r := h.sendAs(admin, request[0], request[1]); r.err != nil {
			t.Errorf("%s %s: %v", request[0], request[1], r.err)
		}
		if r := h.sendAs(guest, request[0], request[1]); r.err == nil {
			t.Errorf("%s %s: a guest got %s", request[0], request[1], r.raw)
		}
	}
}

// Replacing a tool never fails a call, and the tool keeps its place in the list.
func TestACatalogReplacesInOneStep(t *testing.T) {
	h, catalog := newCatalogHarness(t, server.Options{
		Capabilities: protocol.ServerCapabilities{Tools: &protocol.ListCapability{}}})
	sayTool(catalog, "a", "0", "a")
	sayTool(catalog, "b", "0", "b")
	done := make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if r := h.sendAs(admin, "tools/call", `"name":"a"`); r.err != nil {
				t.Errorf("got %v", r.err)
				return
			}
		}
	})
	for i := range 2000 {
		sayTool(catalog, "a", fmt.Sprint(i), "a")
	}
	close(done)
	calls.Wait()
	tools := h.sendAs(admin, "tools/list", "").result["tools"].([]any)
	if len(tools) != 2 || tools[0].(map[string]any)["name"] != "a" ||
		tools[0].(map[string]any)["description"] != "1999" {
		t.Errorf("listed %v", tools)
	}
	if !catalog.Remove(server.KindTool, "a") || catalog.Remove(server.KindTool, "a") {
		t.Error("a tool is not removed once")
	}
}

func TestVisibleHoldsInEachCatalog(t *testing.T) {
	var catalogs []*server.Catalog
	h := newHarness(t, &server.Options{
		Capabilities: protocol.ServerCapabilities{Tools: &protocol.ListCapability{}},
		Visible: func(_ protocol.Principal, _ server.Kind, name string) bool {
			return name != "hidden"
		},
		Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, r *server.Request) (protocol.Result, error) {
				r.Catalogs = catalogs
				return next(ctx, r)
			}
		}}})
	catalogs = []*server.Catalog{h.NewCatalog(nil), h.NewCatalog(nil)}
	sayTool(catalogs[0], "hidden", "", "")
	sayTool(catalogs[1], "shown", "", "")
	for name, want := range map[string]bool{"hidden": false, "shown": true} {
		r := h.sendAs(admin, "tools/call", fmt.Sprintf(`"name":%q`, name))
		if r.err == nil != want {
			t.Errorf("%s: got %s", name, r.raw)
		}
	}
}
