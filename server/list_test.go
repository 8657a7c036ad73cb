package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

var anonymous = protocol.Principal{}

func (r reply) names(list string) []string {
	r.Helper()
	entries, ok := r.result[list].([]any)
	if !ok {
		r.Fatalf("no list %s: %s", list, r.raw)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, at(e, "name").(string))
	}
	return names
}

func readNothing(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
	return &protocol.ReadResourceResult{}, nil
}

func getNothing(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return &protocol.GetPromptResult{}, nil
}

// The variable lists has the four list methods, their members, and how to add entries.
var lists = []struct {
	method, member string
	add            func(s *server.Server, name string)
	remove         func(s *server.Server, name string) bool
}{
	{protocol.MethodListTools, "tools", func(s *server.Server, name string) {
		addTool(s, name, says("x"))
	}, (*server.Server).RemoveTool},
	{protocol.MethodListPrompts, "prompts", func(s *server.Server, name string) {
		server.AddPrompt(s, server.Prompt{Name: name}, getNothing)
	}, (*server.Server).RemovePrompt},
	{protocol.MethodListResources, "resources", func(s *server.Server, name string) {
		server.AddResource(s, server.Resource{URI: "x:" + name, Name: name}, readNothing)
	}, func(s *server.Server, name string) bool { return s.RemoveResource("x:" + name) }},
	{protocol.MethodListResourceTemplates, "resourceTemplates",
		func(s *server.Server, name string) {
			server.AddResourceTemplate(s,
				server.ResourceTemplate{URITemplate: "x:" + name + "/{id}", Name: name},
				readNothing)
		}, func(s *server.Server, name string) bool {
			return s.RemoveResourceTemplate("x:" + name + "/{id}")
		}},
}

func declaresAll() protocol.ServerCapabilities {
	return protocol.ServerCapabilities{
		Tools: &protocol.ListCapability{}, Prompts: &protocol.ListCapability{},
		Resources: &protocol.ResourcesCapability{},
	}
}

func TestEmptyLists(t *testing.T) {
	h := newHarness(t, &server.Options{Capabilities: declaresAll()})
	for _, l := range lists {
		r := h.send(l.method, "")
		wantPart(t, "the result", r.raw, `"`+l.member+`":[]`)
		if _, ok := r.result["nextCursor"]; ok {
			t.Errorf("%s: cursor beyond the end", l.method)
		}
	}
}

func TestPages(t *testing.T) {
	for _, l := range lists {
		t.Run(l.member, func(t *testing.T) {
			h := newHarness(t, &server.Options{PageSize: 3})
			var want []string
			for i := range 7 {
				// The order is neither alphabetical nor numerical.
				want = append(want, fmt.Sprintf("n%d", (i*5)%7))
				l.add(h.Server, want[i])
			}
			var got []string
			var sizes []int
			cursor := ""
			for {
				r := h.send(l.method, cursor)
				got = append(got, r.names(l.member)...)
				sizes = append(sizes, len(r.names(l.member)))
				next, ok := r.result["nextCursor"].(string)
				if !ok {
					break
				}
				cursor = `"cursor":"` + next + `"`
			}
			if !slices.Equal(got, want) || !slices.Equal(sizes, []int{3, 3, 1}) {
				t.Errorf("pages of %v with %q, want %q", sizes, got, want)
			}
			for _, bad := range []string{"x", "MQ", cursor[10:len(cursor)-1] + "="} {
				h.send(l.method, `"cursor":"`+bad+`"`).refused(protocol.CodeInvalidParams, "cursor")
			}
			h.send(l.method, `"cursor":5`).refused(protocol.CodeInvalidParams, "cursor")
		})
	}
}

// Many clients show only the first page.
func TestDefaultPageHoldsWhatServersHave(t *testing.T) {
	h := newHarness(t, nil)
	for i := range 1001 {
		addTool(h.Server, fmt.Sprintf("n%d", i), says("x"))
	}
	r := h.send(protocol.MethodListTools, "")
	if n := len(r.names("tools")); n != 1000 || r.result["nextCursor"] == nil {
		t.Errorf("the first page has %d tools of 1001", n)
	}
}

func TestCursorsOfAnotherList(t *testing.T) {
	h := newHarness(t, &server.Options{PageSize: 1})
	for _, l := range lists[:2] {
		l.add(h.Server, "a")
		l.add(h.Server, "b")
	}
	next := h.send(lists[0].method, "").result["nextCursor"]
	h.send(lists[1].method, fmt.Sprintf(`"cursor":%q`, next)).refused(
		protocol.CodeInvalidParams, "cursor")
}

func TestCacheHintsOfLists(t *testing.T) {
	private := func(h *harness, method string) reply {
		in := h.Admit(messageOf(1, method, "{"+goodMeta+"}"), server.Delivery{Private: true})
		return h.read(in.Request().Message, h.Serve(h.Context(), in))
	}
	tests := []struct {
		name  string
		opts  server.Options
		ttl   float64
		scope string
		send  func(h *harness, method string) reply
	}{
		{name: "default", ttl: 300_000, scope: "public"},
		{name: "set", opts: server.Options{ListTTL: time.Second}, ttl: 1000, scope: "public"},
		{name: "none", opts: server.Options{ListTTL: -1}, ttl: 0, scope: "public"},
		{name: "private by option", opts: server.Options{PrivateLists: true}, ttl: 300_000,
			scope: "private"},
		{name: "private by transport", ttl: 300_000, scope: "private", send: private},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, &tt.opts)
			for _, l := range lists {
				l.add(h.Server, "a")
			}
			send := tt.send
			if send == nil {
				send = func(h *harness, method string) reply { return h.send(method, "") }
			}
			for _, method := range []string{lists[0].method, lists[1].method, lists[2].method,
				lists[3].method, protocol.MethodDiscover} {
				r := send(h, method)
				if r.result["ttlMs"] != tt.ttl || r.result["cacheScope"] != tt.scope {
					t.Errorf("%s: hints are %v %v, want %v %v", method, r.result["ttlMs"],
						r.result["cacheScope"], tt.ttl, tt.scope)
				}
			}
		})
	}
}

func TestChangesWhileRunning(t *testing.T) {
	for _, l := range lists {
		t.Run(l.member, func(t *testing.T) {
			h := newHarness(t, nil)
			l.add(h.Server, "a")
			l.add(h.Server, "b")
			h.send(l.method, "")
			wantPanic(t, "registered already", func() { l.add(h.Server, "a") })
			if !l.remove(h.Server, "a") || l.remove(h.Server, "a") {
				t.Error("remove does not tell whether there was one")
			}
			l.add(h.Server, "c")
			l.add(h.Server, "a")
			wantList(t, "list is", h.send(l.method, "").names(l.member), []string{"b", "c", "a"})
			for _, name := range []string{"a", "b", "c"} {
				l.remove(h.Server, name)
			}
			// The capability stays: clients have seen it.
			if got := h.send(l.method, "").names(l.member); len(got) != 0 {
				t.Errorf("list is %q, want none", got)
			}
		})
	}
}

func TestConcurrentChanges(t *testing.T) {
	h := newHarness(t, nil)
	lists[0].add(h.Server, "first")
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			for j := range 20 {
				name := fmt.Sprintf("t%d-%d", i, j)
				lists[0].add(h.Server, name)
				req := messageOf(1, protocol.MethodListTools, "{"+goodMeta+"}")
				r, err := h.Handle(t.Context(), req, nil)
				if err != nil || !strings.Contains(string(r.Result), `"`+name+`"`) {
					t.Errorf("%s is registered and not listed: %v", name, err)
				}
				h.RemoveTool(name)
			}
		})
	}
	done.Wait()
	wantList(t, "list is", h.send(protocol.MethodListTools, "").names("tools"), []string{"first"})
}

// An in-process client may modify its list.
func TestListsAreNotShared(t *testing.T) {
	h := newHarness(t, nil)
	lists[0].add(h.Server, "a")
	req := messageOf(1, protocol.MethodListTools, "{"+goodMeta+"}")
	first, _ := h.Handle(t.Context(), req, nil)
	clear(first.Result)
	wantList(t, "list is", h.send(protocol.MethodListTools, "").names("tools"), []string{"a"})
}

func TestDiscover(t *testing.T) {
	h := newHarness(t, &server.Options{
		Info:         protocol.Implementation{Name: "shop", Version: "3", Title: "A shop"},
		Instructions: "Buy.",
	})
	r := h.send(protocol.MethodDiscover, "")
	wantEqual(t, "server is", at(r.result, "_meta", protocol.MetaServerInfo, "name"), "shop")
	if r.result["instructions"] != "Buy." ||
		fmt.Sprint(r.result["supportedVersions"]) != "[2026-07-28]" {
		t.Errorf("discover says %s", r.raw)
	}
	features := func(h *harness) string {
		return fmt.Sprint(h.send(protocol.MethodDiscover, "").result["capabilities"])
	}
	const tools, prompts = "tools:map[listChanged:true]", "prompts:map[listChanged:true]"
	const resources = "resources:map[listChanged:true subscribe:true]"
	wantEqual(t, "capabilities are", features(h), "map[logging:map[]]")
	lists[0].add(h.Server, "a")
	lists[3].add(h.Server, "a")
	wantEqual(t, "capabilities are", features(h), "map[logging:map[] "+resources+" "+tools+"]")
	// Promised features are declared like existing ones.
	h = newHarness(t, &server.Options{Capabilities: declaresAll()})
	if got, want := features(h), "map[logging:map[] "+prompts+" "+resources+" "+tools+
		"]"; got != want {
		t.Errorf("capabilities are %v, want %v", got, want)
	}
}

func TestDefinitionsAreRelayed(t *testing.T) {
	icons := []protocol.Icon{{Src: "https://example.com/i.png", MIMEType: "image/png",
		Sizes: []string{"48x48", "any"}, Theme: "dark"}}
	const icon = `"icons":[{"src":"https://example.com/i.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}]`
	meta := protocol.Meta(`{"example.com/a":{"b":[1]}}`)
	size, priority, yes := int64(0), 0.5, true
	annotations := &protocol.Annotations{Audience: []protocol.Role{protocol.User},
		Priority: &priority}
	h := newHarness(t, &server.Options{Info: protocol.Implementation{Name: "s", Version: "1",
		Icons: icons}})
	server.AddRawTool(h.Server, server.Tool{
		Name: "t", Title: "T", Description: "d", Icons: icons, Meta: meta,
		Annotations: &protocol.ToolAnnotations{Title: "a", ReadOnlyHint: &yes},
	}, says("x"))
	server.AddPrompt(h.Server, server.Prompt{Name: "p", Title: "T", Description: "d", Icons: icons,
		Meta: meta,
		Arguments: []protocol.PromptArgument{{Name: "a", Title: "A", Description: "e",
			Required: true}}}, getNothing)
	server.AddResource(h.Server,
		server.Resource{URI: "x:r", Name: "r", Title: "T", Description: "d", Icons: icons,
			Meta:     meta,
			MIMEType: "text/plain", Size: &size, Annotations: annotations}, readNothing)
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "x:{id}", Name: "r", Title: "T", Description: "d",
			Icons: icons,
			Meta:  meta, MIMEType: "text/plain", Annotations: annotations}, readNothing)
	const common, where = `"title":"T","description":"d"`, `"annotations":{"audience":["user"],"priority":0.5}`
	for method, parts := range map[string][]string{
		protocol.MethodListTools:   {common, icon, `"_meta":` + string(meta), `"annotations":{"title":"a","readOnlyHint":true}`},
		protocol.MethodListPrompts: {common, icon, `"_meta":` + string(meta), `"arguments":[{"name":"a","title":"A","description":"e","required":true}]`},
		protocol.MethodListResources: {common, icon, `"_meta":` + string(meta), where,
			`"mimeType":"text/plain"`, `"size":0`},
		protocol.MethodListResourceTemplates: {common, icon, `"_meta":` + string(meta), where,
			`"mimeType":"text/plain"`},
		protocol.MethodDiscover: {`"name":"s"`, icon},
	} {
		r := h.send(method, "")
		for _, part := range parts {
			wantPart(t, method, r.raw, part)
		}
	}
}
