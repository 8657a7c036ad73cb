package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A wire sends requests that no well-behaved client would, and reads what comes back without any of
// our client's code.
type wire struct {
	t      testing.TB
	url    string
	client *http.Client
	watch  *watch
	nextID int
}

// newWire serves the subject, and what register adds to it, over HTTP. register may be nil.
func newWire(t testing.TB, register func(*server.Server)) *wire {
	t.Helper()
	srv, watched := mustServe(t, nil)
	if register != nil {
		register(srv)
	}
	return &wire{
		t: t, url: listen(t, servertest.NewHandler(t, srv, nil)), watch: watched,
		// a response always arrives
		client: &http.Client{Transport: transport(t), Timeout: patience},
	}
}

// A leg is one request. Its fields are JSON text, and need not be sound.
type leg struct {
	method string // default tools/call
	target string // name of the tool or prompt, or URI
	args   string // absent when empty
	caps   string // default: everything
	more   string // further members of params
}

// every is the capabilities of a client that can be asked anything.
const every = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

func (l leg) defaulted() leg {
	if l.method == "" {
		l.method = protocol.MethodCallTool
	}
	if l.caps == "" {
		l.caps = every
	}
	return l
}

func (l leg) params() string {
	name := "name"
	if l.method == protocol.MethodReadResource {
		name = "uri"
	}
	var b strings.Builder
	b.WriteString(`{"` + name + `":` + quote(l.target))
	if l.args != "" {
		b.WriteString(`,"arguments":` + l.args)
	}
	if l.more != "" {
		b.WriteString("," + l.more)
	}
	b.WriteString(`,"_meta":` + meta(l.caps) + `}`)
	return b.String()
}

func meta(caps string) string {
	return `{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":` + caps + `}`
}

func quote(text string) string { return string(jsonx.AppendText(nil, text)) }

// A reply is what came back for one request.
type reply struct {
	t      testing.TB
	status int
	body   []byte
	result object // nil for an error
	err    *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
}

// send sends a leg under a new id and holds the reply against what any reply must be.
func (w *wire) send(l leg) *reply {
	w.t.Helper()
	l = l.defaulted()
	w.nextID++
	id := quote("leg-" + string(rune('0'+w.nextID%10)))
	return w.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+l.method+`","params":`+l.params()+`}`,
		id, l.method, l.target)
}

// post sends a body as it is. id is what must come back, empty for none.
func (w *wire) post(body, id, method, target string) *reply {
	w.t.Helper()
	r := w.exchange(body, method, target)
	if got := string(parse(w.t, r.body)["id"]); got != id {
		w.t.Errorf("got id %s, want %s: %s", got, id, r.body)
	}
	wiretest.Validate(w.t, revision, wiretest.Server, r.body, method)
	return r
}

// exchange sends a body and checks that what comes back is one strict JSON-RPC response on one
// line.
func (w *wire) exchange(body, method, target string) *reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url,
		strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {revision}, "Mcp-Method": {method},
	}
	if target != "" {
		req.Header.Set("Mcp-Name", protocol.EncodeHeaderValue(target))
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("no response: %v\nto %.300s", err, body)
	}
	defer resp.Body.Close()
	r := &reply{t: w.t, status: resp.StatusCode}
	if r.body, err = io.ReadAll(resp.Body); err != nil {
		w.t.Fatalf("response ends early: %v\nto %.300s", err, body)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		w.t.Errorf("got Content-Type %q, want application/json", got)
	}
	if err := jsonx.Check(r.body); err != nil ||
		bytes.ContainsAny(bytes.TrimSuffix(r.body, []byte("\n")), "\r\n") {
		w.t.Fatalf("body is not strict JSON on one line: %v: %.300q\nto %.300s", err, r.body, body)
	}
	message := parse(w.t, r.body)
	if string(message["jsonrpc"]) != `"2.0"` ||
		(message["result"] == nil) == (message["error"] == nil) {
		w.t.Fatalf("not a response: %.300s\nto %.300s", r.body, body)
	}
	if message["result"] != nil {
		r.result = parse(w.t, message["result"])
		checkResult(w.t, r.result)
	} else if err := json.Unmarshal(message["error"], &r.err); err != nil {
		w.t.Fatalf("error: %v", err)
	}
	return r
}

// wantError holds the reply against an error.
func (r *reply) wantError(status int, code int64) *reply {
	r.t.Helper()
	if r.err == nil || r.status != status || r.err.Code != code {
		r.t.Errorf("got status %d and %s, want %d and error %d", r.status, r.body, status, code)
	}
	return r
}

// wantText holds the reply against a tool's result.
func (r *reply) wantText(text string) *reply {
	r.t.Helper()
	if r.status != http.StatusOK || string(r.result["resultType"]) != `"complete"` ||
		!strings.Contains(string(r.result["content"]), quote(text)) {
		r.t.Errorf("got status %d and %s, want the text %q", r.status, r.body, text)
	}
	return r
}

// wantAsked holds the reply against questions under exactly the given keys.
func (r *reply) wantAsked(keys ...string) *reply {
	r.t.Helper()
	if r.status != http.StatusOK || string(r.result["resultType"]) != `"input_required"` {
		r.t.Fatalf("got status %d and %s, want input_required", r.status, r.body)
	}
	if len(keys) == 0 {
		if r.result["inputRequests"] != nil || r.result["requestState"] == nil {
			r.t.Errorf("got %s, want a state alone", r.body)
		}
		return r
	}
	asked := names(parse(r.t, r.result["inputRequests"]))
	if strings.Join(asked, " ") != strings.Join(keys, " ") {
		r.t.Errorf("got questions %q, want %q", asked, keys)
	}
	return r
}

// answered is the members of a retry: answers, an object's JSON text, and the state of the reply.
func (r *reply) answered(answers string) string {
	return `"inputResponses":` + answers + `,"requestState":` + string(r.result["requestState"])
}

// answers sends a leg, which must be answered with a question, and sends it again with answers.
func (w *wire) answers(l leg, answers string) *reply {
	w.t.Helper()
	asked := w.send(l)
	if asked.result["requestState"] == nil {
		w.t.Fatalf("got %s, want a question", asked.body)
	}
	l.more = asked.answered(answers)
	return w.send(l)
}

// bugs returns what the server has reported as its own mistakes.
func (w *wire) bugs() (list []string) {
	for _, e := range seen[event.ServerBug](w.watch) {
		list = append(list, e.Err.Error())
	}
	return list
}
