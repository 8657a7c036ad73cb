package gosdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// everything is what a client can declare.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// A wire is a modern client that says what a test wants said.
type wire struct {
	t            testing.TB
	endpoint     string
	client       *http.Client
	capabilities string
	exact        bool // the server is told to be
	id           int
}

func dialWire(t testing.TB, server *mcp.Server) *wire {
	t.Helper()
	endpoint, recorder := serve(t,
		handlerOf(t, server, &mcp.StreamableHTTPOptions{JSONResponse: true}))
	return &wire{t: t, endpoint: endpoint, client: &http.Client{Transport: recorder},
		capabilities: everything}
}

// A said is what the server answered.
type said struct {
	t      testing.TB
	Status int
	Result json.RawMessage
	Error  *protocol.Error
	body   []byte
}

// send sends params, a JSON object without _meta, and holds the answer against
// the published schema.
func (w *wire) send(method, params string) said {
	w.t.Helper()
	w.id++
	meta := fmt.Sprintf(`"_meta":{%q:%q,%q:{"name":"wire","version":"1"},%q:%s}`,
		protocol.MetaProtocolVersion, modern, protocol.MetaClientInfo,
		protocol.MetaClientCapabilities, w.capabilities)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s,%s}}`, w.id, method, strings.TrimSuffix(params, "}"), meta)
	var named struct{ Name, URI string }
	_ = json.Unmarshal([]byte(params), &named)
	p := &picky{t: w.t, endpoint: w.endpoint, revision: modern, transport: w.client.Transport}
	resp, answer := p.exchange(http.MethodPost, body, "Mcp-Method", method,
		"Mcp-Name", named.Name+named.URI)
	text := []byte(answer)
	if rest, ok := bytes.CutPrefix(text, []byte("event: message\n")); ok {
		text = bytes.TrimSpace(rest[bytes.Index(rest, []byte("data: "))+6:])
	}
	message, err := protocol.DecodeMessage(text)
	if err != nil {
		w.t.Fatalf("%d: %v in %s", resp.StatusCode, err, text)
	}
	response := message.(*protocol.Response)
	wiretest.Validate(w.t, modern, wiretest.Server, w.exactly(text), method)
	return said{w.t, resp.StatusCode, response.Result, response.Error, text}
}

// exactly takes the one liberty out of a response that the SDK's types take
// beside questions, unless the server is told not to.
func (w *wire) exactly(text []byte) []byte {
	if w.exact || !bytes.Contains(text, []byte(`"input_required"`)) {
		return text
	}
	text = bytes.Replace(text, []byte(`"content":[],`), nil, 1)
	return bytes.Replace(text, []byte(`"messages":[],`), nil, 1)
}

// call calls a tool.
func (w *wire) call(tool, rest string) said {
	w.t.Helper()
	return w.send(protocol.MethodCallTool, `{"name":"`+tool+`","arguments":{"env":"prod"}`+rest+`}`)
}

// retry calls it again with answers and the state of an earlier response.
func (w *wire) retry(tool string, from said, answers string) said {
	w.t.Helper()
	return w.call(tool,
		`,"inputResponses":`+answers+`,"requestState":`+string(from.member("requestState")))
}

func (s said) member(name string) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(s.Result, &members)
	return members[name]
}

// wantAsks checks that the response asks, with a state, and with questions
// under the given keys.
func (s said) wantAsks(keys ...string) {
	s.t.Helper()
	if s.Error != nil || string(s.member("resultType")) != `"input_required"` ||
		len(s.member("requestState")) < 10 {
		s.t.Fatalf("got %s, want questions", s.body)
	}
	var asked map[string]json.RawMessage
	if text := s.member("inputRequests"); text != nil {
		if err := json.Unmarshal(text, &asked); err != nil {
			s.t.Fatal(err)
		}
	}
	if len(asked) != len(keys) {
		s.t.Errorf("got questions %s, want %q", s.member("inputRequests"), keys)
	}
	for _, key := range keys {
		if asked[key] == nil {
			s.t.Errorf("got questions %s, want %q", s.member("inputRequests"), keys)
		}
	}
	for _, name := range []string{"isError", "structuredContent", "ttlMs", "cacheScope"} {
		if s.member(name) != nil {
			s.t.Errorf("there is %s beside questions: %s", name, s.body)
		}
	}
	for _, name := range []string{"content", "contents", "messages"} {
		if text := s.member(name); text != nil && string(text) != "[]" {
			s.t.Errorf("there is %s %s beside questions", name, text)
		}
	}
}

// wantText checks that a tool is done and says so.
func (s said) wantText(text string) {
	s.t.Helper()
	if s.Error != nil || string(s.member("resultType")) != `"complete"` ||
		!bytes.Contains(s.member("content"), []byte(text)) {
		s.t.Errorf("got %s, want %q", s.body, text)
	}
}

// wantError checks code and status.
func (s said) wantError(code int64, status int) {
	s.t.Helper()
	if s.Error == nil || s.Error.Code != code || s.Status != status {
		s.t.Errorf("got %d %s, want %d and code %d", s.Status, s.body, status, code)
	}
}

// single returns a server with one tool, prompt and resource, of any of which
// the handlers may be nil.
func single(t testing.TB, tool mcp.ToolHandler, options ...option) *mcp.Server {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "single", Version: "1.0.0"}, nil)
	if tool != nil {
		server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)}, tool)
	}
	install(t, server, options)
	return server
}

type toolRequest = mcp.CallToolRequest

// asks returns a handler that returns a result as long as it has no answers.
func asks(result *mcp.CallToolResult) mcp.ToolHandler {
	return func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) > 0 || req.Params.RequestState != "" {
			return toolText(fmt.Sprintf("%d answers, state %q", len(req.Params.InputResponses),
				req.Params.RequestState)), nil
		}
		return result, nil
	}
}

func formQuestion() *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: "Sure?", RequestedSchema: raw(reasonForm)}
}

// onlyKey checks that the response asks one thing and returns its key.
func (s said) onlyKey() string {
	s.t.Helper()
	var asked map[string]json.RawMessage
	_ = json.Unmarshal(s.member("inputRequests"), &asked)
	for key := range asked {
		s.wantAsks(key)
		return key
	}
	s.t.Fatalf("got %s, want a question", s.body)
	return ""
}

func accepts(key string) string {
	return `{"` + key + `":{"action":"accept","content":{"reason":"because"}}}`
}

func declines(key string) string { return `{"` + key + `":{"action":"decline"}}` }

// An option sets one of the options with which a test installs the adapter.
type option func(*gosdk.Options)

func withFunnel(o roundtrip.Options) option {
	return func(opts *gosdk.Options) { opts.Options = o }
}

func withPrincipal(f func(mcp.Request) protocol.Principal) option {
	return func(opts *gosdk.Options) { opts.Principal = f }
}

func withExactWire() option {
	return func(opts *gosdk.Options) { opts.ExactWire = true }
}

func withUnmodifiedHandlers() option {
	return func(opts *gosdk.Options) { opts.UnmodifiedHandlers = true }
}

func withMustAsk() option {
	return func(opts *gosdk.Options) { opts.MustAsk = true }
}

// install makes an adapter and installs it on server.
func install(t testing.TB, server *mcp.Server, options []option) {
	t.Helper()
	var opts gosdk.Options
	for _, set := range options {
		set(&opts)
	}
	installWith(t, server, &opts)
}

func installWith(t testing.TB, server *mcp.Server, opts *gosdk.Options) *gosdk.Adapter {
	t.Helper()
	a, err := gosdk.New(atOnce(opts))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Install(server); err != nil {
		t.Fatal(err)
	}
	adapters.Store(server, a)
	t.Cleanup(func() { adapters.Delete(server) })
	return a
}

// adapters has the adapters of the servers of tests, for helpers that get the server alone.
var adapters sync.Map // *mcp.Server → *gosdk.Adapter

// handlerOf returns a handler of the adapter of server.
func handlerOf(t testing.TB, server *mcp.Server, opts *mcp.StreamableHTTPOptions) http.Handler {
	t.Helper()
	a, ok := adapters.Load(server)
	if !ok {
		t.Fatal("the server has no adapter")
	}
	return newHandler(t, a.(*gosdk.Adapter), func(*http.Request) *mcp.Server { return server },
		opts)
}

func newHandler(t testing.TB, a *gosdk.Adapter, get func(*http.Request) *mcp.Server,
	opts *mcp.StreamableHTTPOptions) http.Handler {
	t.Helper()
	h, err := a.Handler(get, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wrapTransport wraps a transport as the adapter of server does, if there is one.
func wrapTransport(t testing.TB, server *mcp.Server, transport mcp.Transport) mcp.Transport {
	t.Helper()
	a, ok := adapters.Load(server)
	if !ok {
		return transport
	}
	return a.(*gosdk.Adapter).Transport(server, transport)
}
