package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// scripted is a server that answers request n with reply n, whatever was requested. It repeats the
// last reply for all further requests.
type scripted struct {
	t       testing.TB
	url     string
	client  *http.Client
	replies []string // JSON text of the members beside jsonrpc and id

	mu   sync.Mutex
	seen []object // the params of each request
	ids  []string
	at   []time.Time
}

func newScripted(t testing.TB, results ...string) *scripted {
	t.Helper()
	for i, result := range results {
		results[i] = `"result":` + result
	}
	return newScriptedReplies(t, results...)
}

// newScriptedReplies is like newScripted, for replies that may be errors.
func newScriptedReplies(t testing.TB, replies ...string) *scripted {
	t.Helper()
	h := &scripted{t: t, replies: replies}
	h.url, h.client = listen(t, h), &http.Client{Transport: transport(t)}
	return h
}

// newScriptedOverPipes is like newScripted, for bubbles of synctest.
func newScriptedOverPipes(t testing.TB, results ...string) *scripted {
	t.Helper()
	for i, result := range results {
		results[i] = `"result":` + result
	}
	h := &scripted{t: t, replies: results}
	ts := pipehttp.Start(t, h)
	h.url, h.client = ts.URL, ts.Client()
	return h
}

func (h *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has given up
	}
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params object          `json:"params"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		h.t.Errorf("the client sent %.200q: %v", body, err)
		return
	}
	wiretest.Validate(h.t, revision, wiretest.Client, body, "")
	h.mu.Lock()
	n := len(h.seen)
	h.seen, h.ids, h.at = append(h.seen, request.Params), append(h.ids, string(request.ID)),
		append(h.at, time.Now())
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, request.ID, h.replies[min(n, len(h.replies)-1)])
}

// requests returns the params of what has come so far.
func (h *scripted) requests() []object {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]object(nil), h.seen...)
}

func (h *scripted) wantRequests(n int) []object {
	h.t.Helper()
	sent := h.requests()
	if len(sent) != n {
		h.t.Errorf("the client sent %d requests, want %d", len(sent), n)
	}
	return sent
}

// dial returns a client whose connections end with the test.
func (h *scripted) dial(opts *client.Options) *client.Client {
	h.t.Helper()
	return connect(h.t, h.url, &clienthttp.Options{HTTPClient: h.client}, opts)
}

// call calls a tool of the scripted server.
func (h *scripted) call(opts *client.Options) (*protocol.CallToolResult, error) {
	h.t.Helper()
	return h.dial(opts).CallTool(within(h.t, patience), "x", raw(`{"a":1}`))
}

// Results and questions for the replies of scripted servers.
const (
	done         = `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
	nameForm     = `{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	visit        = `{"method":"elicitation/create","params":{"mode":"url","message":"Go","url":%s}}`
	completeRead = `{"resultType":"complete","contents":[{"uri":"u:x","text":"done"}],"ttlMs":60000,"cacheScope":"public"}`
)

func unquote(t testing.TB, text json.RawMessage) (s string) {
	t.Helper()
	if err := json.Unmarshal(text, &s); err != nil {
		t.Errorf("not a string: %.100q: %v", text, err)
	}
	return s
}

func ask(members string) string { return `{"resultType":"input_required",` + members + `}` }

// ada answers the form and counts how often she was asked.
type ada struct {
	mu    sync.Mutex
	asked int
}

func (a *ada) options() *client.Options {
	return &client.Options{ElicitForm: func(context.Context,
		*client.FormQuestion) (*protocol.ElicitResult, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked++
		return client.Accept(map[string]any{"name": "Ada"})
	}}
}

func (a *ada) wantAsked(t testing.TB, n int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked != n {
		t.Errorf("the person was asked %d times, want %d", a.asked, n)
	}
}
