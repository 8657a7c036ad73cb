// Package cases tests gateways: what a question's upstream, client and operator must see, in each
// way in which the question ends or is refused.
package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// A Builder returns a gateway's handler for the upstream at url. stop closes its connection.
type Builder func(ctx context.Context, router *elicitation.Router, url string) (
	handler http.Handler, stop func(), err error)

const (
	form = `{"mode":"form","message":"Deploy?","requestedSchema":{"type":"object","properties":` +
		`{"who":{"type":"string"}}}}`
	visit = `{"mode":"url","message":"Sign in","url":"https://example.com/in","elicitationId":"v1"}`
	bad   = `{"mode":"form","message":"Deploy?"}`

	both = `{"elicitation":{"form":{},"url":{}}}`
)

// A scene is a question, the client's reply, and the expected outcomes.
type scene struct {
	name, tool, declares, question string
	reply                          string // the client's reply; "": it is silent
	upstream                       string // response to the upstream, or its part before "*"
	events                         string // log events, without "elicitation."
	fields                         string // action, reason, code and error of the last entry
	series                         string // counted series, except requests and durations
}

// An SDK only reports the delivery when the answer arrives.
var scenes = []scene{
	{"accept", "ask", both, form, `"result":{"action":"accept","content":{"who":"ann"}}`,
		`{"action":"accept","content":{"who":"ann"}}`, "created delivered completed", "accept",
		"completed_total{accept}"},
	{"decline", "ask", both, form, `"result":{"action":"decline"}`,
		`{"action":"decline"}`, "created delivered completed", "decline",
		"completed_total{decline}"},
	{"cancel", "ask", both, form, `"result":{"action":"cancel"}`,
		`{"action":"cancel"}`, "created delivered completed", "cancel", "completed_total{cancel}"},
	{"timeout", "ask", both, form, "",
		`{"code":23224,"message":"Elicitation timed out"}`, "created timeout", "23224",
		"timeout_total"},
	{"the client's error", "ask", both, form, `"error":{"code":-32000,"message":"no eyes"}`,
		`{"code":-32000,"message":"no eyes"}`, "created delivered error", "client_error -32000",
		"errors_total{client_error}"},
	{"no result", "ask", both, form, `"result":{"action":5}`,
		`{"code":-32603,"message":"The client's answer is not valid"}`, "created delivered error",
		"invalid_reply -32603 the result is not that of an elicitation", "errors_total{invalid_reply}"},
	{"no call", "outside", both, form, "",
		`{"code":-32601,"message":"No client session available"}`, "rejected",
		"no_session -32601", "rejected_total{no_session}"},
	{"no capability", "ask", `{}`, form, "",
		`{"code":-32601,"message":"Client does not support elicitation"}`, "rejected",
		"capability -32601", "rejected_total{capability}"},
	{"no forms", "ask", `{"elicitation":{"url":{}}}`, form, "",
		`{"code":-32602,"message":"Client does not support form elicitation"}`, "rejected",
		"mode -32602", "rejected_total{mode}"},
	{"no URLs", "ask", `{"elicitation":{}}`, visit, "",
		`{"code":-32602,"message":"Client does not support URL elicitation"}`, "rejected",
		"mode -32602", "rejected_total{mode}"},
	{"malformed", "ask", both, bad, "",
		`{"code":-32602,"message":"Invalid elicitation request: *`, "rejected",
		"invalid_question -32602", "rejected_total{invalid_question}"},
}

// Run plays all scenes. Then it asks two clients at once over the shared connection.
func Run(t *testing.T, build Builder) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			g := start(t, build, s.reply == "")
			text := g.connect(t, "ann", s.declares, s.reply).call(t, s.tool, s.question)
			if s.tool == "outside" {
				text = g.upstream.ask(s.question, func(message string) { g.upstream.outside <- message })
			}
			if want, _, isPrefix := strings.Cut(s.upstream, "*"); text != s.upstream &&
				!(isPrefix && strings.HasPrefix(text, want)) {
				t.Errorf("the upstream reads %s, want %s", text, s.upstream)
			}
			g.checkLog(t, s)
			g.checkSeries(t, s)
		})
	}
	t.Run("two clients", func(t *testing.T) {
		g := start(t, build, false)
		var all sync.WaitGroup
		for _, name := range []string{"ann", "bob"} {
			c := g.connect(t, name, both,
				`"result":{"action":"accept","content":{"who":"`+name+`"}}`)
			all.Go(func() {
				for range 20 {
					text := c.call(t, "ask", strings.Replace(form, "Deploy?", "For "+name, 1))
					if !strings.Contains(text, `"who":"`+name+`"`) {
						t.Errorf("the call of %s got %s", name, text)
					}
				}
				for _, params := range c.asked {
					if !strings.Contains(params, "For "+name) {
						t.Errorf("%s was asked %s", name, params)
					}
				}
			})
		}
		all.Wait()
	})
}

type running struct {
	url      string
	upstream *upstream
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
}

func start(t *testing.T, build Builder, isSilent bool) *running {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	g := &running{upstream: newUpstream(), logs: logs, registry: prometheus.NewRegistry()}
	opts := &elicitation.Options{Log: zaplog.New(zap.New(core)), Metrics: prom.New(g.registry),
		MinHumanTime: -1}
	if isSilent {
		opts.Timeout = 50 * time.Millisecond
	}
	router, err := elicitation.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(g.upstream)
	handler, stop, err := build(t.Context(), router, up.URL)
	if err != nil {
		t.Fatal(err)
	}
	down := httptest.NewServer(handler)
	g.url = down.URL
	t.Cleanup(func() {
		stop()
		for _, s := range []*httptest.Server{up, down} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	return g
}

func (g *running) checkLog(t *testing.T, s scene) {
	t.Helper()
	var events []string
	for _, e := range g.logs.All() {
		f := e.ContextMap()
		events = append(events, strings.TrimPrefix(e.Message, "elicitation."))
		who, message := "ann", "Deploy?"
		if s.tool == "outside" {
			who = ""
		}
		if s.question == visit {
			message = "Sign in"
		}
		if id, _ := f["request_id"].(string); len(id) != 32 || f["upstream_session"] != "up" ||
			f["downstream_session"] != who || f["message"] != message || f["duration_ms"] == nil {
			t.Errorf("the entry %s has %v", e.Message, f)
		}
	}
	if got := strings.Join(events, " "); got != s.events {
		t.Fatalf("logged %q, want %q", got, s.events)
	}
	last, fields := g.logs.All()[len(events)-1].ContextMap(), ""
	for _, name := range []string{"action", "reason", "code", "error"} {
		if v := last[name]; v != nil && v != "" {
			fields += fmt.Sprint(" ", v)
		}
	}
	if fields = strings.TrimSpace(fields); fields != s.fields {
		t.Errorf("the last entry has %q, want %q", fields, s.fields)
	}
}

func (g *running) checkSeries(t *testing.T, s scene) {
	t.Helper()
	want := []string{s.series}
	if !strings.HasPrefix(s.series, "rejected") {
		want = append(want, "requests_total")
	}
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "elicitation_")
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}
			if n := m.GetCounter().GetValue() + m.GetGauge().GetValue(); n != 0 {
				got = append(got, name)
				if n != 1 {
					t.Errorf("%s is %v", name, n)
				}
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("counted are %q, want %q", got, want)
	}
}

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (e *envelope) outcome() string {
	if e.Error != nil {
		return string(e.Error)
	}
	return string(e.Result)
}

// An upstream has two tools: ask returns the outcome of its question, and outside returns at once.
type upstream struct {
	mu      sync.Mutex
	asked   int
	waiting map[string]chan string
	outside chan string // messages for the session's stream
}

func newUpstream() *upstream {
	return &upstream{waiting: map[string]chan string{}, outside: make(chan string)}
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write := func(message string) {
		fmt.Fprintf(w, "data: %s\n\n", message)
		_ = http.NewResponseController(w).Flush()
	}
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case message := <-u.outside:
				write(message)
			case <-r.Context().Done():
				return
			}
		}
	}
	var m envelope
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		return // for DELETE
	}
	result := `{}`
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"up","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"ask","inputSchema":{"type":"object"}},` +
			`{"name":"outside","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		var call struct {
			Name      string
			Arguments struct{ Question json.RawMessage }
		}
		_ = json.Unmarshal(m.Params, &call)
		text := "done"
		w.Header().Set("Content-Type", "text/event-stream")
		if call.Name == "ask" {
			text = u.ask(string(call.Arguments.Question), write)
		}
		quoted, _ := json.Marshal(text)
		write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`,
			m.ID, quoted))
		return
	case "":
		u.mu.Lock()
		defer u.mu.Unlock()
		u.waiting[string(m.ID)] <- m.outcome()
	}
	if m.Method == "" || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (u *upstream) ask(question string, write func(string)) (outcome string) {
	answer := make(chan string, 1)
	u.mu.Lock()
	u.asked++
	id := fmt.Sprint(u.asked)
	u.waiting[id] = answer
	u.mu.Unlock()
	write(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + question + `}`)
	return <-answer
}

// A client answers each question with the same reply.
type client struct {
	session protocol.LegacySession
	reply   string
	asked   []string // parameters of the questions
}

func (g *running) connect(t *testing.T, name, declares, reply string) *client {
	t.Helper()
	transport, err := clienthttp.New(g.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = transport.Close() })
	c := &client{reply: reply}
	c.session, _, err = transport.OpenSession(t.Context(), &protocol.Request{
		ID: protocol.IntID(1), Method: protocol.MethodInitialize,
		Params: json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":` + declares +
			`,"clientInfo":{"name":"` + name + `","version":"1"}}`)}, c)
	if err != nil || c.session == nil {
		t.Fatal("no session", err)
	}
	if err := c.session.Notify(t.Context(),
		&protocol.Notification{Method: protocol.NotifyInitialized}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) call(t *testing.T, tool, question string) string {
	response, err := c.session.Handle(t.Context(), &protocol.Request{ID: protocol.IntID(2),
		Method: protocol.MethodCallTool, Params: json.RawMessage(`{"name":"` + tool +
			`","arguments":{"question":` + question + `}}`)}, c)
	var result struct{ Content []struct{ Text string } }
	if err != nil || json.Unmarshal(response.Result, &result) != nil || len(result.Content) != 1 {
		t.Errorf("the result is %+v, %v", response, err)
		return ""
	}
	return result.Content[0].Text
}

func (*client) Notify(context.Context, *protocol.Notification) error { return nil }

func (c *client) Call(ctx context.Context, q *protocol.Request) (*protocol.Response, error) {
	c.asked = append(c.asked, string(q.Params))
	if c.reply == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	reply, err := protocol.DecodeMessage(
		fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%v,%s}`, q.ID, c.reply))
	if err != nil {
		return nil, err
	}
	return reply.(*protocol.Response), nil
}
