package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// A harness is a server and a client with handwritten requests.
type harness struct {
	*testing.T
	*server.Server
	capabilities string
	events       *events
	lastID       int64
}

func newHarness(t *testing.T, opts *server.Options) *harness {
	t.Helper()
	o := *cmp.Or(opts, &server.Options{})
	seen := &events{}
	o.Observer = event.Observers(o.Observer, seen)
	if o.Roundtrip.MinHumanTime == 0 { // a test answers at once
		o.Roundtrip.MinHumanTime = -1
	}
	s, err := server.New(&o)
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return &harness{T: t, Server: s, capabilities: allCapabilities, events: seen}
}

type events struct {
	mu   sync.Mutex
	list []event.Event
}

func (e *events) Observe(_ context.Context, happened event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, happened)
}

func (e *events) bugs() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, e := range e.list {
		if bug, ok := e.(event.ServerBug); ok {
			all = append(all, bug.Err.Error())
		}
	}
	return strings.Join(all, "\n")
}

func (e *events) panicked() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.list, func(e event.Event) bool {
		_, ok := e.(event.HandlerPanicked)
		return ok
	})
}

// A reply is a response decoded independently.
type reply struct {
	*testing.T
	result map[string]any
	err    *protocol.Error
	raw    string
}

// send sends a request with members such as `"name":"echo"` after _meta.
func (h *harness) send(method, members string) reply {
	h.Helper()
	meta := fmt.Sprintf(`"_meta":{"%s":"2026-07-28","%s":%s}`,
		protocol.MetaProtocolVersion, protocol.MetaClientCapabilities, h.capabilities)
	if members != "" {
		meta += ","
	}
	return h.raw(context.Background(), method, "{"+meta+members+"}")
}

func (h *harness) raw(ctx context.Context, method, params string) reply {
	h.Helper()
	h.lastID++
	req := messageOf(h.lastID, method, params)
	response, err := h.Handle(ctx, req, nil)
	noError(h, err)
	return h.read(req, response)
}

// serveDelivered serves as a transport does: with a response even if ctx has ended.
func (h *harness) serveDelivered(ctx context.Context, req *protocol.Request,
	back protocol.Back) *protocol.Response {
	return h.Serve(ctx,
		h.Admit(req, server.Delivery{Principal: server.PrincipalFrom(ctx), Back: back}))
}

func (h *harness) read(req *protocol.Request, response *protocol.Response) reply {
	h.Helper()
	if response == nil {
		h.Fatal("no response")
	}
	wantEqual(h, "response has id", response.ID, req.ID)
	line, err := protocol.AppendMessage(nil, response)
	noError(h, err)
	if (response.Error == nil) == (response.Result == nil) {
		h.Errorf("response must have a result or an error: %s", line)
	}
	r := reply{T: h.T, err: response.Error, raw: string(line)}
	if response.Error == nil {
		if err := json.Unmarshal(response.Result, &r.result); err != nil {
			h.Fatalf("result is not JSON: %v: %s", err, response.Result)
		}
	}
	return r
}

// call calls a tool. arguments may be empty; more members follow.
func (h *harness) call(name, arguments string, more ...string) reply {
	h.Helper()
	members := fmt.Sprintf(`"name":%q`, name)
	if arguments != "" {
		members += `,"arguments":` + arguments
	}
	for _, m := range more {
		if m != "" {
			members += "," + m
		}
	}
	return h.send(protocol.MethodCallTool, members)
}

// state returns the member that echoes a reply's requestState.
func (r reply) state() string {
	r.Helper()
	s, ok := r.result["requestState"].(string)
	if !ok || s == "" {
		r.Fatalf("no requestState: %s", r.raw)
	}
	text, _ := json.Marshal(s)
	return `"requestState":` + string(text)
}

func answers(members string) string { return `"inputResponses":{` + members + `}` }

// The method text wants a complete result with the text.
func (r reply) text(want string) {
	r.Helper()
	if got := r.firstText(); got != want || r.result["isError"] == true {
		r.Errorf("result is %s, want the text %q", r.raw, want)
	}
}

// The method failed wants a tool error that contains words.
func (r reply) failed(words ...string) {
	r.Helper()
	if r.result["isError"] != true {
		r.Errorf("result is %s, want isError", r.raw)
		return
	}
	for _, w := range words {
		wantPart(r, "error", r.firstText(), w)
	}
}

func (r reply) firstText() string {
	if r.result["resultType"] != "complete" {
		return ""
	}
	list, _ := r.result["content"].([]any)
	if len(list) == 0 {
		return ""
	}
	block, _ := list[0].(map[string]any)
	text, _ := block["text"].(string)
	return text
}

// The method refused wants a JSON-RPC error with the code that contains words.
func (r reply) refused(code int64, words ...string) {
	r.Helper()
	if r.err == nil || r.err.Code != code {
		r.Errorf("reply is %s, want an error with code %d", r.raw, code)
		return
	}
	for _, w := range words {
		wantPart(r, "error", r.err.Message, w)
	}
}

// The method asks wants exactly these questions, in order of keys, without other members.
func (r reply) asks(keys ...string) {
	r.Helper()
	if r.result["resultType"] != "input_required" {
		r.Fatalf("reply is %s, want input_required", r.raw)
	}
	for name := range r.result {
		switch name {
		case "resultType", "inputRequests", "requestState", "_meta":
		default:
			r.Errorf("input_required carries %s: %s", name, r.raw)
		}
	}
	requests, present := r.result["inputRequests"].(map[string]any)
	if present && len(requests) == 0 {
		r.Errorf("inputRequests is there and empty: %s", r.raw)
	}
	wantList(r, "asks for", slices.Sorted(maps.Keys(requests)), keys)
}

func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func (h *harness) wantBug(word string) {
	h.Helper()
	wantPart(h, "observer was told of the bugs", h.events.bugs(), word)
}

func wantPanic(t *testing.T, word string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		got := fmt.Sprint(recover())
		wantPart(t, "panic is", got, word)
	}()
	f()
}

type none struct{}

var (
	noError    = testkit.NoError
	wantPart   = testkit.WantPart
	wantIs     = testkit.WantIs
	wantNoPart = testkit.WantNoPart
	wantEqual  = testkit.WantEqual
)

type toolOutcome = protocol.CallToolOutcome

func (h *harness) tool(name string, handle rawTool) { addTool(h.Server, name, handle) }

func addTool(srv *server.Server, name string, handle rawTool) {
	server.AddRawTool(srv, server.Tool{Name: name}, handle)
}

func says(text ...string) rawTool { return outcome(server.Text(text...), nil) }

func wantList[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantCode(t testing.TB, what string, r *protocol.Response, code int64) {
	t.Helper()
	var got int64
	if r.Error != nil {
		got = r.Error.Code
	}
	if got != code {
		t.Errorf("%s: got %s, %v, want code %d", what, r.Result, r.Error, code)
	}
}

// messageOf is a request from a transport, without params if empty.
func messageOf(id int64, method, params string) *protocol.Request {
	r := &protocol.Request{ID: protocol.IntID(id), Method: method}
	if params != "" {
		r.Params = json.RawMessage(params)
	}
	return r
}

func write(t testing.TB, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	noError(t, err)
}

func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
