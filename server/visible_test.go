package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

var admin, guest = protocol.Principal{Issuer: "i",
	Subject: "admin"}, protocol.Principal{Issuer: "i", Subject: "guest"}

// hideSecrets shows names with "secret" only to admin.
func hideSecrets(p protocol.Principal, _ server.Kind, name string) bool {
	return p == admin || !strings.Contains(name, "secret")
}

func (h *harness) sendAs(p protocol.Principal, method, members string) reply {
	h.Helper()
	if members != "" {
		members = "," + members
	}
	return h.raw(server.WithPrincipal(h.Context(), p), method, "{"+goodMeta+members+"}")
}

// A guest cannot tell hidden definitions from missing ones, by any request.
func TestHiddenIsUnknown(t *testing.T) {
	h := newHarness(t, &server.Options{Visible: hideSecrets})
	ran := false
	complete := func(context.Context, *server.CompleteCall) ([]string, error) {
		ran = true
		return []string{"v"}, nil
	}
	// The schema and the needs must not reveal the tool either.
	server.AddRawTool(h.Server, server.Tool{Name: "secret",
		InputSchema: json.RawMessage(`{"type":"object","required":["a"]}`),
		Needs:       protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}},
		func(context.Context, *server.ToolCall) (toolOutcome, error) {
			ran = true
			return server.Text("x"), nil
		})
	server.AddPrompt(h.Server, server.Prompt{Name: "secret", Complete: complete,
		Arguments: []protocol.PromptArgument{{Name: "a", Required: true}}},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			ran = true
			return &protocol.GetPromptResult{}, nil
		})
	read := func(_ context.Context, c *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		ran = ran || strings.Contains(c.URI, "secret")
		return &protocol.ReadResourceResult{}, nil
	}
	server.AddResource(h.Server, server.Resource{URI: "x:secret", Name: "a"}, read)
	server.AddResourceTemplate(h.Server,
		server.ResourceTemplate{URITemplate: "secret:{id}", Name: "a", Complete: complete}, read)
	// This template would reveal the hidden resource.
	server.AddResourceTemplate(h.Server, server.ResourceTemplate{URITemplate: "x:{id}", Name: "b"},
		read)

	tests := []struct{ name, method, hidden, unknown string }{
		{"tool", protocol.MethodCallTool, `"name":"secret"`, `"name":"public"`},
		{"tool with arguments", protocol.MethodCallTool, `"name":"secret","arguments":{"a":1}`,
			`"name":"public","arguments":{"a":1}`},
		{"tool with a state", protocol.MethodCallTool, `"name":"secret","requestState":"x"`,
			`"name":"public","requestState":"x"`},
		{"prompt", protocol.MethodGetPrompt, `"name":"secret"`, `"name":"public"`},
		{"resource", protocol.MethodReadResource, `"uri":"x:secret"`, `"uri":"y:public"`},
		{"resource of a template", protocol.MethodReadResource, `"uri":"secret:1"`,
			`"uri":"public:1"`},
		{"completion of a prompt", protocol.MethodComplete, `"ref":{"type":"ref/prompt","name":"secret"}` + typed, `"ref":{"type":"ref/prompt","name":"public"}` + typed},
		{"completion of a template", protocol.MethodComplete, `"ref":{"type":"ref/resource","uri":"secret:{id}"}` + typed, `"ref":{"type":"ref/resource","uri":"public:{id}"}` + typed},
		{"completion of a resource", protocol.MethodComplete, `"ref":{"type":"ref/resource","uri":"x:secret"}` + typed, `"ref":{"type":"ref/resource","uri":"y:public"}` + typed},
	}
	blur := strings.NewReplacer("secret", "*", "public", "*", "x:", "", "y:", "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hidden, unknown := h.sendAs(guest, tt.method, tt.hidden),
				h.sendAs(guest, tt.method, tt.unknown)
			if hidden.err == nil || unknown.err == nil {
				t.Fatalf("got %s and %s, want errors", hidden.raw, unknown.raw)
			}
			a := fmt.Sprint(hidden.err.Code, hidden.err.Message, string(hidden.err.Data))
			b := fmt.Sprint(unknown.err.Code, unknown.err.Message, string(unknown.err.Data))
			wantEqual(t, "hidden beside unknown", blur.Replace(a), blur.Replace(b))
			if ran {
				t.Error("a hidden handler ran")
			}
			if r := h.sendAs(admin, tt.method, tt.hidden); r.err != nil &&
				r.err.Message == hidden.err.Message {
				t.Errorf("admin is answered %s, too", r.raw)
			}
			ran = false
		})
	}
}

// Everyone gets full pages, which do not reveal how much is hidden.
func TestPagesOfVisible(t *testing.T) {
	walk := func(h *harness, p protocol.Principal, method, member string) (pages [][]string,
		cursors []string) {
		cursor := ""
		for {
			members := ""
			if cursor != "" {
				members = `"cursor":"` + cursor + `"`
			}
			r := h.sendAs(p, method, members)
			wantEqual(h, fmt.Sprintf("%s is", method), r.result["cacheScope"], "private")
			pages = append(pages, r.names(member))
			next, ok := r.result["nextCursor"].(string)
			if !ok {
				return pages, cursors
			}
			cursor, cursors = next, append(cursors, next)
		}
	}
	for _, l := range lists {
		t.Run(l.member, func(t *testing.T) {
			mixed := newHarness(t, &server.Options{PageSize: 2, Visible: hideSecrets})
			plain := newHarness(t, &server.Options{PageSize: 2, Visible: hideSecrets})
			for i := range 10 {
				l.add(mixed.Server, fmt.Sprintf("secret%d", i))
				if i%2 == 0 {
					l.add(mixed.Server, fmt.Sprintf("open%d", i))
					l.add(plain.Server, fmt.Sprintf("open%d", i))
				}
			}
			got, cursors := walk(mixed, guest, l.method, l.member)
			want, wantCursors := walk(plain, guest, l.method, l.member)
			if fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(cursors, wantCursors) {
				t.Errorf("the guest sees %v %q, want %v %q", got, cursors, want, wantCursors)
			}
			all, far := walk(mixed, admin, l.method, l.member)
			if n := len(slices.Concat(all...)); n != 15 || len(all) != 8 {
				t.Errorf("admin sees %d in %d pages, want 15 in 8", n, len(all))
			}
			// admin's cursor is as invalid for the guest as an invented one.
			mixed.sendAs(guest, l.method,
				`"cursor":"`+far[len(far)-1]+`"`).refused(protocol.CodeInvalidParams, "cursor")
			for i := range 10 {
				l.remove(mixed.Server, fmt.Sprintf("open%d", i))
			}
			if pages, next := walk(mixed, guest, l.method, l.member); len(pages) != 1 ||
				len(pages[0]) != 0 || len(next) != 0 {
				t.Errorf("where all is hidden the guest sees %v %q", pages, next)
			}
		})
	}
}

func TestVisibleIsAskedAbout(t *testing.T) {
	asked := map[string]bool{}
	visible := func(p protocol.Principal, kind server.Kind, name string) bool {
		asked[p.Subject+" "+string(kind)+" "+name] = true
		return true
	}
	h := newHarness(t, &server.Options{Visible: visible})
	for _, l := range lists {
		l.add(h.Server, "a")
		h.sendAs(guest, l.method, "")
	}
	for _, want := range []string{"guest tool a", "guest prompt a",
		"guest resource x:a", "guest resource template x:a/{id}"} {
		if !asked[want] {
			t.Errorf("was not asked %q but %v", want, asked)
		}
	}
}

func TestVisiblePanics(t *testing.T) {
	h := newHarness(t, &server.Options{Visible: func(protocol.Principal, server.Kind,
		string) bool {
		panic("secret")
	}})
	lists[0].add(h.Server, "a")
	h.send(protocol.MethodListTools, "").refused(protocol.CodeInternalError)
	if r := h.call("a", ""); r.err == nil || strings.Contains(r.raw, "secret") ||
		!h.events.panicked() {
		t.Errorf("a call is answered %s", r.raw)
	}
}

// Principals see different definitions, so answers to server/discover are not shared.
func TestDiscoverIsPrivateWithVisible(t *testing.T) {
	h := newHarness(t, &server.Options{Visible: hideSecrets})
	wantEqual(t, "cacheScope is",
		h.send(protocol.MethodDiscover, "").result["cacheScope"], "private")
}
