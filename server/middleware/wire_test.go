package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/internal/testing/promtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A wire is a watched server behind HTTP, and a client of one era without checks.
type wire struct {
	*watch
	*httptest.Server
	version protocol.Version
	session string
	logged  chan struct{} // has room for one signal that logs has grown
	entered chan struct{} // gets a signal when the slow tool runs
	calls   int
}

const bearer = "Bearer token-of-ada-0123456789"

type wireOptions struct {
	log     middleware.Options
	metrics middleware.Options
	funnel  roundtrip.Options
}

func inBothEras(t *testing.T, opts wireOptions, test func(t *testing.T, w *wire)) {
	t.Helper()
	for _, version := range []protocol.Version{protocol.V20260728, protocol.V20251125} {
		t.Run(string(version), func(t *testing.T) { test(t, newWire(t, version, opts)) })
	}
}

func newWire(t testing.TB, version protocol.Version, opts wireOptions) *wire {
	t.Helper()
	w := &wire{version: version, logged: make(chan struct{}, 1), entered: make(chan struct{}, 1)}
	w.watch = newWatch(t, &opts.log, &opts.metrics, zap.Hooks(func(zapcore.Entry) error {
		select {
		case w.logged <- struct{}{}:
		default: // the previous signal has not been seen yet
		}
		return nil
	}))
	srv := w.newServer(opts.funnel)
	addPayments(srv, w.entered)
	handler := servertest.NewHandler(t, srv,
		&serverhttp.Options{Authenticate: func(r *http.Request) (protocol.Principal, error) {
			if r.Header.Get("Authorization") != bearer {
				return protocol.Principal{}, errors.New("no such token")
			}
			return protocol.Principal{Issuer: "https://id.example", Subject: "ada"}, nil
		}})
	ts := httptest.NewServer(handler)
	w.Server = ts
	t.Cleanup(func() {
		ts.Client().CloseIdleConnections()
		ts.Close()
		_ = handler.Shutdown(context.Background())
	})
	if version.Era() == protocol.Legacy {
		response := w.post(t.Context(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+string(version)+
			`","capabilities":`+allCapabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
		w.session = response.Header.Get("Mcp-Session-Id")
		discard(response)
		discard(w.post(t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
	return w
}

type payment struct {
	Amount float64 `json:"amount" title:"Amount" minimum:"0.01"`
	Note   string  `json:"note,omitzero"`
}

// addPayments adds handlers in both styles, and some that fail.
func addPayments(srv *server.Server, entered chan<- struct{}) {
	addTool(srv, "pay", func(ctx context.Context, in input) (toolOutcome, error) {
		p, err := roundtrip.Ask[payment](ctx, "payment", "How much?")
		if err != nil {
			return nil, err
		}
		return server.Text(fmt.Sprint("paid ", p.Amount)), nil
	})
	addTool(srv, "pay_guard", func(ctx context.Context, in input) (toolOutcome, error) {
		switch reply := roundtrip.Answer[payment](ctx, "payment"); reply.Outcome {
		case roundtrip.Accepted:
			return server.Text(fmt.Sprint("paid ", reply.Content.Amount)), nil
		case roundtrip.Declined, roundtrip.Cancelled:
			return server.Text("not paid"), nil
		}
		return roundtrip.InputRequired(roundtrip.Elicit[payment]("payment", "How much?")), nil
	})
	addTool(srv, "pay_anyway", func(ctx context.Context, in input) (toolOutcome, error) {
		if roundtrip.RoundOf(ctx).Number == 1 {
			return roundtrip.InputRequired(roundtrip.Elicit[payment]("payment", "How much?")),
				nil
		}
		return server.Text("paid all the same"), nil
	})
	addTool(srv, "charge", func(ctx context.Context, in input) (toolOutcome, error) {
		p, err := roundtrip.Ask[payment](ctx, "payment", "How much?")
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("charging %q for %s: bank at 10.0.0.7 says 401 to Bearer "+
			"token-of-the-bank-1: no token-of-ada-0123456789\n\x1b[2J", p.Note, in.Note)
	})
	addTool(srv, "slow", func(ctx context.Context, _ input) (toolOutcome, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	server.AddPrompt(srv, server.Prompt{Name: "broken"},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return nil, errors.New("db at 10.0.0.7 is down")
		})
	server.AddResourceTemplate(srv,
		server.ResourceTemplate{URITemplate: "doc://{+path}", Name: "broken"},
		func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return nil, errors.New("db at 10.0.0.7 is down")
		})
}

func discard(response *http.Response) {
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

func (w *wire) post(ctx context.Context, body string, change ...string) *http.Response {
	w.Helper()
	response, err := w.do(ctx, body, change...)
	noError(w, err)
	return response
}

func (w *wire) do(ctx context.Context, body string, change ...string) (*http.Response, error) {
	w.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", w.URL, strings.NewReader(body))
	noError(w, err)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {bearer},
	}
	if w.session != "" {
		r.Header.Set("Mcp-Session-Id", w.session)
		r.Header.Set("MCP-Protocol-Version", string(w.version))
	}
	for i := 0; i+1 < len(change); i += 2 {
		r.Header.Set(change[i], change[i+1])
	}
	return w.Client().Do(r)
}

// The method mirrors returns the headers that repeat a request of revision 2026-07-28.
func (w *wire) mirrors(method, target string) []string {
	return []string{"MCP-Protocol-Version", string(w.version), "Mcp-Method", method,
		"Mcp-Name", target}
}

type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Message string
	}
	Result *struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct {
			Params struct{ Message string }
		}
		Content []struct{ Text string }
		IsError bool
	}
	Error *struct {
		Code    int64
		Message string
		Data    json.RawMessage
	}
}

// request answers the questions of a request until its result, and returns the text or error.
func (w *wire) request(method, target string, answer func(question string) string,
	change ...string) string {
	w.Helper()
	retry := ""
	for {
		w.calls++
		got := w.leg(method, target, retry, answer, change)
		switch {
		case got.Error != nil:
			return fmt.Sprint(got.Error.Code, " ", got.Error.Message)
		case got.Result == nil:
			w.Fatal("neither result nor error")
		case got.Result.ResultType == "input_required":
			retry = fmt.Sprintf(`,"requestState":%q,"inputResponses":{`, got.Result.RequestState)
			for key, q := range got.Result.InputRequests {
				retry += fmt.Sprintf(`%q:%s`, key, answer(q.Params.Message))
			}
			retry += "}"
			continue
		}
		if len(got.Result.Content) == 0 {
			return ""
		}
		return got.Result.Content[0].Text
	}
}

func (w *wire) call(tool string, answer func(string) string) string {
	w.Helper()
	return w.request(protocol.MethodCallTool, tool, answer)
}

// leg sends one HTTP request, and in a session answers questions meanwhile.
func (w *wire) leg(method, target, retry string, answer func(string) string,
	change []string) message {
	w.Helper()
	body := w.body(method, target, retry)
	if w.session == "" {
		change = append(change, w.mirrors(method, target)...)
	}
	response := w.post(w.Context(), body, change...)
	defer discard(response)
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		var m message
		if err := json.NewDecoder(response.Body).Decode(&m); err != nil {
			w.Fatalf("status %d: %v", response.StatusCode, err)
		}
		return m
	}
	return w.read(response, func(question string) (member string, goOn bool) {
		return `"result":` + answer(question), true
	})
}

// read returns the response in a stream. The function answer returns the member that answers a
// question, or "", and whether to read on.
func (w *wire) read(response *http.Response,
	answer func(question string) (member string, goOn bool)) message {
	w.Helper()
	events := sse.NewReader(response.Body, 0)
	for {
		e, err := events.Next()
		noError(w, err)
		var m message
		if len(e.Data) == 0 || json.Unmarshal(e.Data, &m) != nil {
			continue
		}
		if m.Method == protocol.MethodElicit {
			member, goOn := answer(m.Params.Message)
			if !goOn {
				return m
			}
			if member != "" {
				discard(w.post(w.Context(),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member)))
			}
		} else if m.Method == "" {
			return m
		}
	}
}

func (w *wire) body(method, target, retry string) string {
	params := fmt.Sprintf(`"name":%q,"arguments":{"note":"cat food"}`, target)
	switch method {
	case protocol.MethodGetPrompt:
		params = fmt.Sprintf(`"name":%q`, target)
	case protocol.MethodReadResource:
		params = fmt.Sprintf(`"uri":%q`, target)
	}
	meta := ""
	if w.session == "" {
		meta = fmt.Sprintf(`,"_meta":{%q:%q,%q:%s}`, protocol.MetaProtocolVersion, w.version,
			protocol.MetaClientCapabilities, allCapabilities)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s%s%s}}`, w.calls, method, params, retry, meta)
}

// The function answering answers with each text in turn, then repeats the last.
func answering(texts ...string) func(string) string {
	asked := 0
	return func(string) string {
		asked++
		return texts[min(asked, len(texts))-1]
	}
}

func pays(amount string) string {
	return `{"action":"accept","content":{"amount":` + amount + `,"note":"for my cat Felix"}}`
}

func TestWireAnswered(t *testing.T) {
	opts := wireOptions{
		log: middleware.Options{Subject: func(p protocol.Principal) string { return p.Subject }}}
	for _, tool := range []string{"pay", "pay_guard"} {
		for action, outcome := range map[string]string{pays("5"): "accepted",
			`{"action":"decline"}`: "declined", `{"action":"cancel"}`: "cancelled"} {
			inBothEras(t, opts, func(t *testing.T, w *wire) {
				w.call(tool, answering(action))
				e := w.entry("mcp.answered")
				wantFields(t, e, map[string]any{
					"key": "payment", "kind": "elicitation.form", "outcome": outcome,
					"principal": "authenticated", "subject": "ada", "target": tool,
				})
				questions := fmt.Sprint(w.entry("mcp.input_required").ContextMap()["questions"])
				if want := fmt.Sprintf("[payment %s]",
					e.ContextMap()["question"]); questions != want {
					t.Errorf("asked %s, answered %s", questions, want)
				}
				if _, ok := e.ContextMap()["waited_ms"].(float64); !ok {
					t.Errorf("fields %v", e.ContextMap())
				}
				w.wantValue(1, "rondo_answers_total", "kind", "elicitation.form", "outcome",
					outcome)
				w.wantValue(1, "rondo_answers_total")
				w.wantValue(0, "rondo_ignored_declines_total")
			})
		}
	}
}

func TestWireIgnoredDecline(t *testing.T) {
	inBothEras(t, wireOptions{}, func(t *testing.T, w *wire) {
		if got := w.call("pay_anyway",
			answering(`{"action":"decline"}`)); got != "paid all the same" {
			t.Fatalf("got %q", got)
		}
		e := w.entry("mcp.decline_ignored")
		wantFields(t, e, map[string]any{"key": "payment", "outcome": "declined",
			"target": "pay_anyway"})
		wantEqual(t, "level", e.Level, zap.WarnLevel)
		w.wantValue(1, "rondo_ignored_declines_total")
	})
}

// The log has the text without the caller's strings; the client gets the text or a reference.
func TestWireHandlerFailed(t *testing.T) {
	const logged = `charging "[redacted]" for [redacted]: bank at 10.0.0.7 says 401 to Bearer [redacted]: no [redacted]\n\x1b[2J`
	inBothEras(t, wireOptions{}, func(t *testing.T, w *wire) {
		if got := w.call("charge", answering(pays("5"))); !strings.HasPrefix(got,
			`charging "for my cat Felix"`) {
			t.Errorf("got %q", got)
		}
		e := w.entry("mcp.handler_failed")
		wantFields(t, e, map[string]any{"error": logged, "error_type": "*errors.errorString",
			"target": "charge", "reference": nil})
		wantEqual(t, "level", e.Level, zap.WarnLevel)
		w.wantValue(1, "rondo_handler_failures_total")
	})
}

func TestWireHiddenErrors(t *testing.T) {
	opts := wireOptions{funnel: roundtrip.Options{HideErrors: true}}
	for _, target := range []struct{ method, name string }{
		{protocol.MethodCallTool, "charge"}, {protocol.MethodGetPrompt, "broken"},
		{protocol.MethodReadResource, "doc://a"},
	} {
		t.Run(target.method, func(t *testing.T) {
			inBothEras(t, opts, func(t *testing.T, w *wire) {
				got := w.request(target.method, target.name, answering(pays("5")))
				fields := w.entry("mcp.handler_failed").ContextMap()
				reference, _ := fields["reference"].(string)
				if reference == "" || !strings.Contains(got, "internal failure; reference "+
					reference) || strings.Contains(got, "10.0.0.7") {
					t.Errorf("the client has %q, the log %q", got, reference)
				}
				wantPart(t, "the log has no text", fmt.Sprint(fields["error"]), "10.0.0.7")
				for _, secret := range []string{"token-of-ada", "Felix"} {
					if all := fmt.Sprint(w.logs.All()); strings.Contains(all, secret) ||
						strings.Contains(got, secret) {
						t.Errorf("%s shows: the client has %q, the log %s", secret, got, all)
					}
				}
			})
		})
	}
}

// Entries can be joined by request.
func TestWireRequestID(t *testing.T) {
	inBothEras(t, wireOptions{}, func(t *testing.T, w *wire) {
		w.call("charge", answering(pays("5")))
		names := map[string][]string{}
		for _, e := range w.logs.All() {
			if e.Message == "mcp.ephemeral_key" ||
				strings.HasSuffix(fmt.Sprint(e.ContextMap()["method"]), "initialize") {
				continue
			}
			id, _ := e.ContextMap()["request"].(string)
			names[id] = append(names[id], e.Message)
		}
		legs := map[protocol.Era]int{protocol.Modern: 2, protocol.Legacy: 1}[w.version.Era()]
		if len(names) != legs || names[""] != nil {
			t.Fatalf("%d requests, want %d: %v", len(names), legs, names)
		}
		for id, list := range names {
			if list[len(list)-1] != "mcp.request" || len(list) < 2 {
				t.Errorf("%s: %v", id, list)
			}
		}
	})
}

func TestWireSenderByOption(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	opts := wireOptions{log: middleware.Options{
		RemoteAddr: true, TraceID: true,
		Subject: func(p protocol.Principal) string { return p.Issuer + " " + p.Subject + "\n" },
	}}
	last := func(w *wire) observer.LoggedEntry {
		list := w.logs.FilterMessage("mcp.request").All()
		return list[len(list)-1]
	}
	inBothEras(t, opts, func(t *testing.T, w *wire) {
		w.request(protocol.MethodGetPrompt, "broken", nil, "Traceparent", trace)
		fields := last(w).ContextMap()
		wantFields(t, last(w), map[string]any{"subject": `https://id.example ada\n`,
			"trace_id": "0af7651916cd43dd8448eb211c80319c"})
		if addr, _ := fields["remote_addr"].(string); !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("remote_addr %v", fields["remote_addr"])
		}
		for _, forged := range []string{"00-forged-1", strings.ReplaceAll(trace, "a", "g")} {
			w.request(protocol.MethodGetPrompt, "broken", nil, "Traceparent", forged)
			wantFields(t, last(w), map[string]any{"trace_id": nil})
		}
	})
	inBothEras(t, wireOptions{}, func(t *testing.T, w *wire) {
		w.request(protocol.MethodGetPrompt, "broken", nil, "Traceparent", trace)
		wantFields(t, last(w), map[string]any{"subject": nil, "trace_id": nil, "remote_addr": nil,
			"principal": "authenticated"})
	})
}

// Only listed targets are labels.
func TestWireTargets(t *testing.T) {
	opts := wireOptions{metrics: middleware.Options{Targets: []string{"pay_guard"}}}
	inBothEras(t, opts, func(t *testing.T, w *wire) {
		w.call("pay_guard", answering(`{"action":"decline"}`))
		w.request(protocol.MethodGetPrompt, "broken", nil)
		w.request(protocol.MethodCallTool, "made up", nil)
		w.wantValue(1, "rondo_requests_total", "target", "pay_guard", "outcome", "complete")
		w.wantValue(2, "rondo_requests_total", "target", "other")
		w.wantValue(2, "rondo_request_duration_seconds", "target", "other")
	})
	inBothEras(t, wireOptions{}, func(t *testing.T, w *wire) {
		w.request(protocol.MethodGetPrompt, "broken", nil)
		for name := range promtest.Series(t, w.registry) {
			if strings.Contains(name, "target=") {
				t.Errorf("%s: targets are labels without having been listed", name)
			}
		}
		w.wantValue(1, "rondo_build_info", "version", "(devel)")
	})
}

// leaveSlow calls the slow tool and disconnects once it runs.
func (w *wire) leaveSlow() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	go func() {
		<-w.entered
		cancel()
	}()
	if response, err := w.do(ctx, w.body(protocol.MethodCallTool, "slow", ""),
		w.mirrors(protocol.MethodCallTool, "slow")...); err == nil {
		discard(response)
		w.Fatal("the call was answered")
	}
}

// await waits for an entry with the name, and returns the latest.
func (w *wire) await(name string) observer.LoggedEntry {
	w.Helper()
	for {
		if list := w.logs.FilterMessage(name).All(); len(list) > 0 {
			return list[len(list)-1]
		}
		<-w.logged
	}
}
