package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// BenchmarkFlow is a tool that asks once, both legs, through ServeHTTP: with the
// SDK alone, which seals and checks nothing, and with what is installed on it.
func BenchmarkFlow(b *testing.B) {
	stock := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	stock.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
		func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			if len(req.Params.InputResponses) > 0 {
				return toolText("done"), nil
			}
			questions := mcp.InputRequestMap{"question": formQuestion()}
			return &mcp.CallToolResult{InputRequests: questions}, nil
		})
	elicits := func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if _, err := gosdk.Elicit(gosdk.WithKey(ctx, "question"), req.Session,
			formQuestion()); err != nil {
			return nil, err
		}
		return toolText("done"), nil
	}
	pushes := func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if _, err := req.Session.Elicit(ctx, formQuestion()); err != nil {
			return nil, err
		}
		return toolText("done"), nil
	}
	opts := &mcp.StreamableHTTPOptions{JSONResponse: true}
	stateless := &mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: true}
	for _, bench := range []struct {
		name    string
		handler http.Handler
	}{
		{"sdk", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return stock },
			stateless)},
		{"elicit", handlerOf(b, single(b, elicits), opts)},
		{"unmodified", handlerOf(b, single(b, pushes, withUnmodifiedHandlers()), opts)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				first := post(b, bench.handler, "")
				key, state := first.onlyKeyAndState()
				post(b, bench.handler, `,"inputResponses":`+accepts(key)+state).wantText("done")
			}
		})
	}
}

func post(b *testing.B, h http.Handler, rest string) said {
	b.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{%q:%q,%q:%s}%s}}`,
		protocol.MetaProtocolVersion, modern, protocol.MetaClientCapabilities, everything, rest)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "http://localhost/",
		strings.NewReader(body))
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept":               "application/json, text/event-stream",
		"MCP-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "t"} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	message, err := protocol.DecodeMessage(w.Body.Bytes())
	if err != nil {
		b.Fatalf("%v in %s", err, w.Body)
	}
	response := message.(*protocol.Response)
	return said{b, w.Code, response.Result, response.Error, w.Body.Bytes()}
}

// onlyKeyAndState is for servers that need not send a state.
func (s said) onlyKeyAndState() (key, state string) {
	text := string(s.member("inputRequests"))
	if _, key, _ = strings.Cut(text, `"`); key == "" {
		s.t.Fatalf("got %s", s.body)
	}
	key, _, _ = strings.Cut(key, `"`)
	if text := s.member("requestState"); text != nil {
		state = `,"requestState":` + string(text)
	}
	return key, state
}

// BenchmarkPlainCall is a call that asks nothing, with the SDK alone and behind the adapter with
// unmodified handlers.
func BenchmarkPlainCall(b *testing.B) {
	type in struct{ Name string }
	newServer := func() *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "t"},
			func(context.Context, *toolRequest, in) (*mcp.CallToolResult, any, error) {
				return toolText("plain"), nil, nil
			})
		return server
	}
	opts := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}
	alone, adapted := newServer(), newServer()
	install(b, adapted, []option{withUnmodifiedHandlers()})
	for _, bench := range []struct {
		name    string
		handler http.Handler
	}{
		{"sdk", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return alone },
			opts)},
		{"unmodified", handlerOf(b, adapted, opts)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				post(b, bench.handler, `,"arguments":{"Name":"a"}`).wantText("plain")
			}
		})
	}
}
