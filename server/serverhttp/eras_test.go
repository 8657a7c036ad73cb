package serverhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type (
	person struct {
		Name string `json:"name"`
	}
	color struct {
		Name string `json:"name" enum:"red,blue"`
	}
	count struct {
		N int `json:"n" minimum:"1" maximum:"9"`
	}
)

var (
	who   = roundtrip.MustQuestion[person]("who")
	shade = roundtrip.MustQuestion[color]("shade")
	many  = roundtrip.MustQuestion[count]("many")
)

// addWizard adds a tool with three questions in three rounds, independent of the era.
func addWizard(srv *server.Server) {
	addTool(srv, "wizard", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		name, ok := who.AcceptedContent(ctx)
		if !ok {
			return roundtrip.InputRequired(who.Elicit("Who?")), nil
		}
		paint, ok := shade.AcceptedContent(ctx)
		if !ok {
			return roundtrip.InputRequired(shade.Elicit("Which colour for " + name.Name + "?")),
				nil
		}
		n, ok := many.AcceptedContent(ctx)
		if !ok {
			return roundtrip.InputRequired(many.Elicit("How many in " + paint.Name + "?")), nil
		}
		return server.Text(fmt.Sprintf("%d %s for %s", n.N, paint.Name, name.Name)), nil
	})
}

// accept answers a question in either era.
func accept(message, name string) string {
	switch {
	case strings.HasPrefix(message, "Who"):
		return `{"action":"accept","content":{"name":"` + name + `"}}`
	case strings.HasPrefix(message, "Which"):
		return `{"action":"accept","content":{"name":"blue"}}`
	}
	return `{"action":"accept","content":{"n":3}}`
}

// A transcript holds the questions and the result.
type transcript struct {
	asked []string
	text  string
}

// runModern answers the rounds of the wizard.
func runModern(t *testing.T, url string, client *http.Client, name string) (got transcript) {
	t.Helper()
	carry, id := "", 0
	for range 5 {
		id++
		request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wizard","arguments":{},%s`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`, id, carry)
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(request))
		if err != nil {
			t.Error(err)
			return got
		}
		r.Header = headers("tools/call", "wizard")
		response, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return got
		}
		var m struct {
			Result struct {
				InputRequests map[string]struct {
					Params struct {
						Message         string
						RequestedSchema json.RawMessage
					}
				}
				RequestState *string
				Content      []struct{ Text string }
			}
		}
		text := readAll(t, response)
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Errorf("%v: %s", err, text)
			return got
		}
		if len(m.Result.Content) > 0 {
			got.text = m.Result.Content[0].Text
			return got
		}
		carry = ""
		for key, q := range m.Result.InputRequests {
			got.asked = append(got.asked, q.Params.Message)
			carry = fmt.Sprintf(`"inputResponses":{%q:%s},`, key, accept(q.Params.Message, name))
		}
		if m.Result.RequestState != nil {
			state, _ := json.Marshal(*m.Result.RequestState)
			carry += `"requestState":` + string(state) + `,`
		}
	}
	t.Error("the wizard has no end")
	return got
}

// runLegacy answers the pushes of the wizard.
func runLegacy(t *testing.T, c *legacyClient, id int, name string) (got transcript) {
	t.Helper()
	f := c.flow("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wizard","arguments":{}}}`, id))
	for {
		m := f.next()
		if m.Method == "" {
			var result struct{ Content []struct{ Text string } }
			if err := json.Unmarshal(m.Result, &result); err != nil || len(result.Content) != 1 {
				t.Fatalf("got %s", m.raw)
			}
			got.text = result.Content[0].Text
			f.end()
			return got
		}
		var q struct{ Params struct{ Message string } }
		noError(t, json.Unmarshal([]byte(m.raw), &q))
		got.asked = append(got.asked, q.Params.Message)
		c.answer(m.ID, accept(q.Params.Message, name))
	}
}

// Concurrent clients of both eras at one URL get the same questions and results, without messages
// of the other era.
func TestBothEras(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	addWizard(srv)
	ts, _ := serve(t, srv, nil)
	check := func(got transcript, name string) {
		want := []string{"Who?", "Which colour for " + name + "?", "How many in blue?"}
		if got.text != "3 blue for "+name ||
			strings.Join(got.asked, "|") != strings.Join(want, "|") {
			t.Errorf("%s: got %+v, want %q", name, got, want)
		}
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			recorder := &wiretest.Recorder{Base: ts.Client().Transport}
			name := fmt.Sprint("modern ", i)
			check(runModern(t, ts.URL, &http.Client{Transport: recorder}, name), name)
			messages := recorder.Messages()
			wiretest.Conform(t, "2026-07-28", messages)
			for _, m := range messages {
				if m.From == wiretest.Server &&
					strings.Contains(string(m.Body), `"method":"elicitation/create","id"`) {
					t.Errorf("a request on the modern wire: %s", m.Body)
				}
			}
		})
	}
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		for i := range 4 {
			all.Go(func() {
				recorder := &wiretest.Recorder{Base: ts.Client().Transport}
				c := &legacyClient{TB: t, ts: ts, client: &http.Client{Transport: recorder},
					version: version}
				c.initialize()
				for id := range 2 {
					name := fmt.Sprint(version, " ", i, " ", id)
					check(runLegacy(t, c, id+1, name), name)
				}
				f := c.callFlow(9, "notify")
				f.expect("progress", "progress", "result")
				f.end()
				c.call(10, "echo")
				messages := recorder.Messages()
				wiretest.Conform(t, version, messages)
				for _, m := range messages {
					if m.From == wiretest.Server &&
						(strings.Contains(string(m.Body), "io.modelcontextprotocol/") ||
							strings.Contains(string(m.Body), "input_required")) {
						t.Errorf("%s: of the other era: %s", version, m.Body)
					}
				}
			})
		}
	}
	all.Wait()
}

// The era depends on the request, not on a session id.
func TestOneSessionBothEras(t *testing.T) {
	c, _, _ := startSession(t, "2025-11-25")
	got := do(t, c.ts, "POST", headers("server/discover", "", "Mcp-Session-Id", c.session),
		body("server/discover", ""))
	if got.status != 200 || got.Result.ResultType != "complete" {
		t.Errorf("modern with a session id: got status %d: %s", got.status, got.body)
	}
	// The header must agree with the modern version in _meta.
	got = read(t, c.post(body("tools/list", "")))
	wantRefusal(t, "modern _meta, legacy header", got, 400, -32020)
}
