package server_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const goodMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func TestAdmit(t *testing.T) {
	const version, capabilities = protocol.MetaProtocolVersion, protocol.MetaClientCapabilities
	tests := []struct {
		name, method, params string
		code                 int64
		word                 string
	}{
		{"no params", "tools/list", ``, -32602, version},
		{"empty params", "tools/list", `{}`, -32602, version},
		{"discover without _meta", "server/discover", `{}`, -32602, version},
		{"no version", "tools/list", `{"_meta":{"` + capabilities + `":{}}}`, -32602, version},
		{"no capabilities", "tools/list", `{"_meta":{"` + version + `":"2026-07-28"}}`, -32602,
			capabilities},
		{"null capabilities", "tools/list",
			`{"_meta":{"` + version + `":"2026-07-28","` + capabilities + `":null}}`, -32602,
			"clientCapabilities"},
		{"version not a string", "tools/list", `{"_meta":{"` + version + `":20260728}}`,
			-32602, version},
		{"wrong case of a key", "tools/list",
			`{"_meta":{"` + strings.ToUpper(version) + `":"2026-07-28"}}`, -32602, version},
		{"future version", "tools/list",
			`{"_meta":{"` + version + `":"2099-01-01","` + capabilities + `":{}}}`, -32022,
			"2099-01-01"},
		{"legacy version", "tools/list",
			`{"_meta":{"` + version + `":"2025-11-25","` + capabilities + `":{}}}`, -32022,
			"2025-11-25"},
		{"future version, unknown method", "x/y", `{"_meta":{"` + version + `":"2099-01-01"}}`,
			-32022, "2099-01-01"},
		{"unknown method", "x/y", "{" + goodMeta + "}", -32601, "x/y"},
		{"unknown method without _meta", "x/y", "{}", -32602, version},
		{"wrong case of a method", "Tools/list", "{" + goodMeta + "}", -32601, "Tools/list"},
		{"empty method", "", "{" + goodMeta + "}", -32601, ""},
		{"initialize", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`, -32601, "2026-07-28"},
		{"set level", "logging/setLevel", "{" + goodMeta + "}", -32601, "logging/setLevel"},
		{"feature not offered", "prompts/list", "{" + goodMeta + "}", -32601, "prompts/list"},
		{"feature not offered, bad params", "prompts/get", "{" + goodMeta + `,"name":4}`, -32601,
			"prompts/get"},
		{"bad params", "tools/call", "{" + goodMeta + `,"name":5}`, -32602, "name"},
		{"no name", "tools/call", "{" + goodMeta + `}`, -32602, "name"},
		{"arguments not an object", "tools/call", "{" + goodMeta + `,"name":"x","arguments":[]}`,
			-32602, "arguments"},
		{"params not an object", "tools/list", `[]`, -32600, "params"},
		{"params not JSON", "tools/list", `{"a":`, -32700, "parse error"},
		{"duplicate member", "tools/call", "{" + goodMeta + `,"name":"x","name":"y"}`, -32700,
			"parse error"},
		{"nested too deep", "tools/call",
			"{" + goodMeta + `,"name":"x","arguments":{"a":` + strings.Repeat("[", 99) +
				strings.Repeat("]", 99) + `}}`, -32700, "parse error"},
	}
	h := newHarness(t, nil)
	h.tool("x", says("x"))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := h.raw(t.Context(), tt.method, tt.params)
			r.T = t
			r.refused(tt.code, tt.word)
		})
	}
}

func TestRefusalsNameTheVersions(t *testing.T) {
	h := newHarness(t, nil)
	r := h.raw(t.Context(), "initialize", `{}`)
	wantEqual(t, "initialize: data is", string(r.err.Data), `{"supported":["2026-07-28"]}`)
	r = h.raw(t.Context(), "server/discover",
		strings.Replace("{"+goodMeta+"}", "2026-07-28", "2030-01-01", 1))
	if got, want := string(r.err.Data), `{"supported":["2026-07-28"],"requested":"2030-01-01"}`; got != want {
		t.Errorf("unknown version: data is %s, want %s", got, want)
	}
}

func TestNilRequest(t *testing.T) {
	h := newHarness(t, nil)
	response, err := h.Handle(t.Context(), nil, nil)
	if err != nil || response == nil || response.Error == nil ||
		response.Error.Code != protocol.CodeInvalidRequest {
		t.Errorf("Handle(nil) = %v, %v; want an invalid request", response, err)
	}
}

func TestFirstRefusalCounts(t *testing.T) {
	h := newHarness(t, nil)
	h.tool("x", says("x"))
	req := &protocol.Request{ID: protocol.StringID("a"), Method: protocol.MethodCallTool,
		Params: json.RawMessage("{" + goodMeta + `,"name":"x"}`)}
	admitted := h.Admit(req, server.Delivery{Principal: protocol.LocalPrincipal()})
	request := admitted.Request()
	if request.Refusal() != nil || request.Target != "x" || request.Version != protocol.V20260728 ||
		request.Meta.Capabilities == nil || request.Params == nil {
		t.Errorf("Admit = %+v", request)
	}
	request.Refuse(nil)
	request.Refuse(protocol.Errorf(protocol.CodeHeaderMismatch, "first"))
	request.Refuse(protocol.Errorf(protocol.CodeInvalidParams, "second"))
	response := h.Serve(t.Context(), admitted)
	if response.Error == nil || response.Error.Message != "first" || response.ID != req.ID {
		t.Errorf("Serve = %+v, want the first refusal", response)
	}
	bad := h.Admit(messageOf(1, "x/y", ""), server.Delivery{}).Request()
	if bad.Refusal() == nil || bad.Meta == nil || bad.Params != nil {
		t.Errorf("Admit of a bad request = %+v", bad)
	}
}

func TestMiddleware(t *testing.T) {
	var trace []string
	mark := func(name string) server.Middleware {
		return func(next server.Handler) server.Handler {
			return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				trace = append(trace, name)
				result, err := next(ctx, request)
				word := "ok"
				if err != nil {
					word = "error"
				}
				trace = append(trace, name+" "+word)
				return result, err
			}
		}
	}
	h := newHarness(t, &server.Options{Middleware: []server.Middleware{mark("a"), mark("b")}})
	h.tool("x", asksCount)
	first := h.call("x", "")
	h.call("x", "", answers(`"n":{"action":"decline"}`), first.state()).text("declined")
	h.send("x/y", "")
	want := "a,b,b ok,a ok,a,b,b ok,a ok,a,b,b error,a error"
	wantEqual(t, "middleware saw", strings.Join(trace, ","), want)
}

func TestMiddlewareMisbehaves(t *testing.T) {
	tests := []struct {
		name   string
		result protocol.Result
		err    error
		panics bool
	}{
		{name: "panics", panics: true},
		{name: "returns nothing"},
		{name: "returns a result of another method", result: &protocol.ListToolsResult{}},
		{name: "returns a typed nil", result: (*protocol.DiscoverResult)(nil)},
		{name: "returns a plain error", err: context.DeadlineExceeded},
		{name: "returns what cannot be encoded",
			result: &protocol.DiscoverResult{Meta: protocol.Meta(`{`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, &server.Options{
				Middleware: []server.Middleware{func(server.Handler) server.Handler {
					return func(context.Context, *server.Request) (protocol.Result, error) {
						if tt.panics {
							panic("boom")
						}
						return tt.result, tt.err
					}
				}}})
			r := h.send(protocol.MethodDiscover, "")
			r.refused(protocol.CodeInternalError)
			if tt.err != nil && strings.Contains(r.raw, tt.err.Error()) {
				t.Errorf("the client learns of %v", tt.err)
			}
			if !h.events.panicked() && h.events.bugs() == "" {
				t.Error("the observer is not told")
			}
		})
	}
}

func TestMiddlewareMayFilterLists(t *testing.T) {
	hide := func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			result, err := next(ctx, request)
			if list, ok := result.(*protocol.ListToolsResult); ok && request.Principal.Anonymous() {
				list.Tools = slices.DeleteFunc(list.Tools,
					func(t protocol.Tool) bool { return t.Name == "secret" })
			}
			return result, err
		}
	}
	h := newHarness(t, &server.Options{Middleware: []server.Middleware{hide}, PrivateLists: true})
	h.tool("secret", says("x"))
	h.tool("open", says("x"))
	for range 2 {
		anonymous := h.raw(server.WithPrincipal(t.Context(), anonymous), protocol.MethodListTools,
			"{"+goodMeta+"}")
		wantList(t, "anonymous sees", anonymous.names("tools"), []string{"open"})
		local := h.send(protocol.MethodListTools, "")
		wantList(t, "local sees", local.names("tools"), []string{"secret", "open"})
		wantEqual(t, "scope is", local.result["cacheScope"], "private")
	}
}
