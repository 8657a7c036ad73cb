package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// TestDefinitionsAreRelayed holds that lists show all of a definition.
func TestDefinitionsAreRelayed(t *testing.T) {
	icons := []protocol.Icon{{Src: "https://example.com/i.png", MIMEType: "image/png", Sizes: []string{"48x48", "any"}, Theme: "dark"}}
	const icon = `"icons":[{"src":"https://example.com/i.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}]`
	meta := protocol.Meta(`{"example.com/a":{"b":[1]}}`)
	size, priority, yes := int64(0), 0.5, true
	annotations := &protocol.Annotations{Audience: []protocol.Role{protocol.User}, Priority: &priority}
	h := newHarness(t, &server.Options{Info: protocol.Implementation{Name: "s", Version: "1", Icons: icons}})
	server.AddRawTool(h.Server, server.Tool{
		Name: "t", Title: "T", Description: "d", Icons: icons, Meta: meta,
		Annotations: &protocol.ToolAnnotations{Title: "a", ReadOnlyHint: &yes},
	}, outcome(server.Text("x"), nil))
	server.AddPrompt(h.Server, server.Prompt{Name: "p", Title: "T", Description: "d", Icons: icons, Meta: meta,
		Arguments: []protocol.PromptArgument{{Name: "a", Title: "A", Description: "e", Required: true}}}, getNothing)
	server.AddResource(h.Server, server.Resource{URI: "x:r", Name: "r", Title: "T", Description: "d", Icons: icons, Meta: meta,
		MIMEType: "text/plain", Size: &size, Annotations: annotations}, readNothing)
	server.AddResourceTemplate(h.Server, server.ResourceTemplate{URITemplate: "x:{id}", Name: "r", Title: "T", Description: "d", Icons: icons,
		Meta: meta, MIMEType: "text/plain", Annotations: annotations}, readNothing)
	const common, where = `"title":"T","description":"d"`, `"annotations":{"audience":["user"],"priority":0.5}`
	for method, parts := range map[string][]string{
		protocol.MethodListTools:             {common, icon, `"_meta":` + string(meta), `"annotations":{"title":"a","readOnlyHint":true}`},
		protocol.MethodListPrompts:           {common, icon, `"_meta":` + string(meta), `"arguments":[{"name":"a","title":"A","description":"e","required":true}]`},
		protocol.MethodListResources:         {common, icon, `"_meta":` + string(meta), where, `"mimeType":"text/plain"`, `"size":0`},
		protocol.MethodListResourceTemplates: {common, icon, `"_meta":` + string(meta), where, `"mimeType":"text/plain"`},
		protocol.MethodDiscover:              {`"name":"s"`, icon},
	} {
		r := h.send(method, "")
		for _, part := range parts {
			if !strings.Contains(r.raw, part) {
				t.Errorf("%s: %s lacks %s", method, r.raw, part)
			}
		}
	}
}

// TestDraftErrorCodes compares the numbers with and without the option.
func TestDraftErrorCodes(t *testing.T) {
	for _, draft := range []bool{false, true} {
		h := newHarness(t, &server.Options{DraftErrorCodes: draft})
		code := func(final, old int64) int64 {
			if draft {
				return old
			}
			return final
		}
		server.AddRawTool(h.Server, server.Tool{Name: "x", Needs: protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}}, outcome(server.Text("x"), nil))
		server.AddRawTool(h.Server, server.Tool{Name: "own"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return nil, protocol.Errorf(protocol.CodeHeaderMismatch, "a handler's own")
		})
		h.capabilities = `{}`
		h.call("x", "").refused(code(protocol.CodeMissingRequiredClientCapability, -32003), "roots")
		h.call("own", "").refused(code(protocol.CodeHeaderMismatch, -32001), "own")
		h.raw(t.Context(), protocol.MethodDiscover, strings.Replace("{"+goodMeta+"}", "2026-07-28", "2030-01-01", 1)).
			refused(code(protocol.CodeUnsupportedProtocolVersion, -32004), "2030-01-01")
		h.call("none", "").refused(protocol.CodeInvalidParams, "none")
		in := h.Admit(&protocol.Request{ID: protocol.IntID(1), Method: "x/y"})
		if in.DraftErrorCodes != draft {
			t.Errorf("DraftErrorCodes is %v, want %v", in.DraftErrorCodes, draft)
		}
	}
}
