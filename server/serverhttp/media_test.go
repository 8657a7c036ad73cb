package serverhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestMediaTypes(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	tests := []struct {
		name   string
		header string
		values []string // nil for no header
		status int
	}{
		{"JSON", "Content-Type", []string{"application/json"}, 200},
		{"JSON in UTF-8", "Content-Type", []string{"application/json; charset=utf-8"}, 200},
		{"JSON in quoted UTF-8", "Content-Type", []string{`Application/JSON;charset="UTF-8"`}, 200},
		{"JSON with another parameter", "Content-Type", []string{"application/json; profile=x"},
			200},
		{"JSON in Latin 1", "Content-Type", []string{"application/json; charset=iso-8859-1"}, 415},
		{"JSON in UTF-16", "Content-Type", []string{"application/json; charset=utf-16"}, 415},
		{"no Content-Type", "Content-Type", nil, 415},
		{"empty Content-Type", "Content-Type", []string{""}, 415},
		{"form", "Content-Type", []string{"application/x-www-form-urlencoded"}, 415},
		{"plain text, which needs no preflight", "Content-Type", []string{"text/plain"}, 415},
		{"two", "Content-Type", []string{"application/json", "application/json"}, 415},
		{"broken parameter", "Content-Type",
			[]string{"application/json; charset=utf-8; charset=utf-16"}, 415},

		{"both", "Accept", []string{"application/json, text/event-stream"}, 200},
		{"both, two lines", "Accept", []string{"application/json", "text/event-stream"}, 200},
		{"no Accept", "Accept", nil, 200},
		{"JSON only", "Accept", []string{"application/json"}, 200},
		{"events only", "Accept", []string{"text/event-stream"}, 200},
		{"neither", "Accept", []string{"text/html"}, 406},
		{"weight not a number", "Accept", []string{"application/json;q=NaN, text/event-stream"},
			200},
		{"anything with q=0", "Accept", []string{"*/*;q=0"}, 406},
		{"unterminated quote", "Accept", []string{`application/json, text/event-stream;p="\`}, 200},

		{"identity", "Content-Encoding", []string{"identity"}, 200},
		{"gzip", "Content-Encoding", []string{"gzip"}, 415},
		{"identity and gzip", "Content-Encoding", []string{"identity, gzip"}, 415},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := headers("server/discover", "")
			if h[tt.header] = tt.values; tt.values == nil {
				delete(h, tt.header)
			}
			got := do(t, ts, "POST", h, body("server/discover", ""))
			wantStatus(t, fmt.Sprintf("%s %q", tt.header, tt.values), got, tt.status)
			if tt.status != http.StatusOK && got.code() != -32600 {
				t.Errorf("got code %d, want -32600", got.code())
			}
		})
	}
}

const (
	onlyJSON   = "application/json"
	onlyEvents = "text/event-stream"
)

// oneResponse returns the only message of a response, which must have the accepted type.
func oneResponse(t *testing.T, got *reply, accept string) string {
	t.Helper()
	if media := got.header.Get("Content-Type"); got.status != 200 || media != accept {
		t.Fatalf("got status %d and type %s, want 200 and %s: %s", got.status, media, accept,
			got.body)
	}
	if accept == onlyJSON {
		return got.body
	}
	events := sse.NewReader(strings.NewReader(got.body), 0)
	var messages []string
	for {
		event, err := events.Next()
		if err != nil {
			break
		}
		if len(event.Data) > 0 {
			messages = append(messages, string(event.Data))
		}
	}
	if len(messages) == 0 {
		t.Fatalf("no event: %q", got.body)
	}
	return messages[len(messages)-1]
}

// A modern client that accepts one type gets it: for a list, a question, and its answer.
func TestAcceptOneType(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	addWizard(srv)
	ts, _ := serve(t, srv, nil)
	for _, accept := range []string{onlyJSON, onlyEvents} {
		t.Run(accept, func(t *testing.T) {
			post := func(method, name, params string) string {
				t.Helper()
				text := body(method, params)
				text = strings.Replace(text, `Capabilities":{}`,
					`Capabilities":{"elicitation":{}}`, 1)
				return oneResponse(t, do(t, ts, "POST", headers(method, name, "Accept", accept),
					text), accept)
			}
			wantPart(t, "tools/list", post("tools/list", "", ""), `"wizard"`)
			// Notifications are sent if the form allows it.
			got := post("tools/call", "notify", `"name":"notify"`)
			wantPart(t, "notify", got, "done")
			asked := post("tools/call", "wizard", `"name":"wizard"`)
			var m struct {
				Result struct {
					ResultType    string
					InputRequests map[string]json.RawMessage
					RequestState  json.RawMessage
				}
			}
			if err := json.Unmarshal([]byte(asked), &m); err != nil ||
				m.Result.ResultType != "input_required" || m.Result.InputRequests["who"] == nil {
				t.Fatalf("got %v, %s, want the question", err, asked)
			}
			next := post("tools/call", "wizard", `"name":"wizard","inputResponses":{"who":`+
				byAnn("Who?")+`},"requestState":`+string(m.Result.RequestState))
			wantPart(t, "the result", next, "Which colour for Ann?")
		})
	}
}

func byAnn(message string) string { return accept(message, "Ann") }

// A subscription without a stream is refused before a handler runs.
func TestAcceptCannotCarry(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	listen := body("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	got := do(t, ts, "POST", headers("subscriptions/listen", "", "Accept", onlyJSON), listen)
	if got.status != 406 || got.code() != -32600 || string(got.ID) != "7" ||
		!strings.Contains(got.body, "text/event-stream") {
		t.Errorf("subscriptions/listen: got status %d: %s", got.status, got.body)
	}
}

// An error keeps its status and JSON for a client that accepts only events.
func TestAcceptErrorStatus(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	got := do(t, ts, "POST", headers("nope", "", "Accept", onlyEvents), body("nope", ""))
	wantRefusal(t, "the answer", got, 404, -32601)
}

// openSessionAccepting opens a session with this Accept header in every POST.
func openSessionAccepting(t *testing.T, ts *httptest.Server, accept string) *legacyClient {
	t.Helper()
	c := newClient(t, ts, "")
	got := read(t, c.post(initializeBody(c.version), "Accept", accept))
	if text := oneResponse(t, got, accept); !strings.Contains(text, "serverInfo") {
		t.Fatalf("initialize: got %s", text)
	}
	c.session = got.header.Get("Mcp-Session-Id")
	if got := read(t, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Accept",
		accept)); got.status != 202 {
		t.Fatalf("initialized: got status %d: %s", got.status, got.body)
	}
	return c
}

const toolsList = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// The same holds in a session, where with only JSON a question uses the open GET stream.
func TestAcceptOneTypeInSession(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	addWizard(srv)
	ts, _ := serve(t, srv, nil)
	t.Run(onlyEvents, func(t *testing.T) {
		c := openSessionAccepting(t, ts, onlyEvents)
		got := read(t, c.post(toolsList, "Accept", onlyEvents))
		wantPart(t, "tools/list", oneResponse(t, got, onlyEvents), `"wizard"`)
		f := c.flow("POST", toolCall(2, "elicit"), "Accept", onlyEvents)
		c.answer(f.expect("elicitation/create").ID, byAnn("Who?"))
		f.expect("accept {")
		f.end()
	})
	for _, tool := range []string{"elicit", "wizard"} { // pushed and returned
		t.Run(onlyJSON+" "+tool, func(t *testing.T) {
			c := openSessionAccepting(t, ts, onlyJSON)
			got := read(t, c.post(toolsList, "Accept", onlyJSON))
			wantPart(t, "tools/list", oneResponse(t, got, onlyJSON), `"wizard"`)
			get := c.listen("")
			answered := make(chan *reply, 1)
			go func() {
				answered <- read(t, c.post(toolCall(2, tool), "Accept", onlyJSON))
			}()
			for range map[string]int{"elicit": 1, "wizard": 3}[tool] {
				m := get.expect("elicitation/create")
				var q struct{ Params struct{ Message string } }
				noError(t, json.Unmarshal([]byte(m.raw), &q))
				c.answer(m.ID, byAnn(strings.Replace(q.Params.Message, "Name", "Who", 1)))
			}
			text := oneResponse(t, <-answered, onlyJSON)
			if !strings.Contains(text, "Ann") || strings.Contains(text, `"isError":true`) {
				t.Errorf("got %s", text)
			}
		})
	}
}

// An undeliverable question ends the call first, with a hint at Accept.
func TestAcceptJSONWithoutStream(t *testing.T) {
	srv, s := legacyServer(t, nil)
	addWizard(srv)
	can := make(chan bool, 1)
	addTool(srv, "can", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		can <- roundtrip.CanAsk(ctx, protocol.KindElicitForm)
		return server.Text("looked"), nil
	})
	ts, _ := serve(t, srv, nil)
	c := openSessionAccepting(t, ts, onlyJSON)
	for id, tool := range []string{"elicit", "wizard"} {
		got := oneResponse(t, c.call(id+1, tool, "Accept", onlyJSON), onlyJSON)
		if !strings.Contains(got, "nobody could be asked") || !strings.Contains(got, "Accept: ") ||
			!strings.Contains(got, "GET stream") {
			t.Errorf("%s: got %s, want words that name Accept", tool, got)
		}
	}
	wantPart(t, "the handler", (<-s.ended).Error(), "Accept: ")
	for i, accept := range []string{onlyJSON, onlyJSON + ", " + onlyEvents} {
		_ = c.call(10+i, "can", "Accept", accept)
		wantEqual(t, fmt.Sprintf("%s: CanAsk", accept), <-can, i == 1)
	}
}

// Progress, a reconnect or time do not turn a JSON response into a stream.
func TestAcceptJSONKeepsOneForm(t *testing.T) {
	srv, s := legacyServer(t, nil)
	ts, _ := serve(t, srv, nil)
	c := openSessionAccepting(t, ts, onlyJSON)
	for id, tool := range []string{"notify", "reconnect"} {
		got := oneResponse(t, c.call(id+1, tool, "Accept", onlyJSON), onlyJSON)
		wantPart(t, tool, got, []string{"done", "cannot"}[id])
	}
	get := c.listen("")
	answered := make(chan *reply, 1)
	go func() { answered <- read(t, c.post(toolCall(3, "steps"), "Accept", onlyJSON)) }()
	<-s.entered
	for i := range 3 {
		s.allow <- struct{}{}
		get.expect(fmt.Sprintf(`"progress":%d`, i+1))
	}
	s.allow <- struct{}{}
	wantPart(t, "the result", oneResponse(t, <-answered, onlyJSON), "all steps")
}

func TestAcceptedForms(t *testing.T) {
	for header, want := range map[string]string{
		"*/*": "true true", "application/json": "true false", "text/*": "false true",
		"application/*;q=0.5, text/event-stream;q=0": "true false", "text/html": "false false",
		`application/json;p="a,b\",c"`: "true false",
		"text/event-stream;q=0, */*":   "true false", "application/json, */*;q=0": "true false",
		"*/*;q=0": "false false", "application/json;q=2": "false false", "": "false false",
	} {
		json, events := serverhttp.AcceptedForms([]string{header})
		wantEqual(t, fmt.Sprintf("%q", header), fmt.Sprint(json, " ", events), want)
	}
}
