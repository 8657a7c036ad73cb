package middleware_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/internal/testing/promtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// A watch is a Log and Metrics, and their records.
type watch struct {
	testing.TB
	log      *middleware.Log
	metrics  *middleware.Metrics
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
}

func newWatch(t testing.TB, logged, counted *middleware.Options, opts ...zap.Option) *watch {
	t.Helper()
	log, logs := newLog(logged, opts...)
	registry := prometheus.NewPedanticRegistry()
	metrics, err := middleware.NewMetrics(prom.New(registry), counted)
	noError(t, err)
	return &watch{t, log, metrics, logs, registry}
}

func newLog(opts *middleware.Options, with ...zap.Option) (
	*middleware.Log, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	return middleware.NewLog(zaplog.New(zap.New(core, with...)), opts), logs
}

func (w *watch) Observe(ctx context.Context, e event.Event) {
	event.Observers(w.log, w.metrics).Observe(ctx, e)
}

// newServer returns a server whose chain is Log, Metrics, Recover and inner.
func (w *watch) newServer(rounds roundtrip.Options, inner ...server.Middleware) *server.Server {
	w.Helper()
	if rounds.MinHumanTime == 0 { // a test answers at once
		rounds.MinHumanTime = -1
	}
	s, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "test", Version: "1"}, Observer: w, Roundtrip: rounds,
		Middleware: append([]server.Middleware{w.log.Wrap, w.metrics.Wrap, middleware.Recover(w)},
			inner...),
	})
	noError(w, err)
	w.Cleanup(func() { s.Close() })
	return s
}

// A rig is a watched server and a client with handwritten requests.
type rig struct {
	*watch
	*server.Server
	calls int
}

func newRig(t testing.TB, inner ...server.Middleware) *rig {
	t.Helper()
	return newWatch(t, nil, nil).newRig(roundtrip.Options{}, inner...)
}

func (w *watch) newRig(rounds roundtrip.Options, inner ...server.Middleware) *rig {
	w.Helper()
	r := &rig{watch: w, Server: w.newServer(rounds, inner...)}
	register(r.Server)
	return r
}

type confirmation struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitzero"`
}

var confirm = roundtrip.MustQuestion[confirmation]("confirm")

type input struct {
	Note string `json:"note,omitzero"`
}

func register(s *server.Server) {
	addTool(s, "echo", func(_ context.Context, in input) (toolOutcome, error) {
		return server.Text(in.Note), nil
	})
	addTool(s, "fail", func(_ context.Context, in input) (toolOutcome, error) {
		return nil, errors.New("cannot use " + in.Note)
	})
	addTool(s, "refuse", func(_ context.Context, in input) (toolOutcome, error) {
		code, _ := strconv.ParseInt(in.Note, 10, 64)
		return nil, protocol.Errorf(cmp.Or(code, 4711), "not today")
	})
	addTool(s, "panic", func(_ context.Context, in input) (toolOutcome, error) {
		panic("no idea what to do with " + in.Note)
	})
	addTool(s, "bug", func(context.Context, input) (toolOutcome, error) {
		return &protocol.InputRequiredResult{}, nil
	})
	addTool(s, "deploy", func(ctx context.Context, in input) (toolOutcome, error) {
		switch answer := confirm.Answer(ctx); answer.Outcome {
		case roundtrip.Accepted:
			return server.Text("deployed " + answer.Content.Reason), nil
		case roundtrip.Declined:
			return server.Text("left alone"), nil
		}
		return roundtrip.InputRequired(confirm.Elicit("Deploy "+in.Note+"?"),
			roundtrip.WithState("author "+in.Note)), nil
	})
	server.AddPrompt(s, server.Prompt{Name: "greet"},
		func(_ context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return nil, errors.New("cannot greet " + call.Arguments["who"])
		})
	server.AddResourceTemplate(s,
		server.ResourceTemplate{URITemplate: "doc://{+path}", Name: "docs"},
		func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return nil, protocol.ResourceNotFound(call.URI)
		})
}

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

func params(capabilities string, members ...string) json.RawMessage {
	meta := fmt.Sprintf(`"_meta":{%q:%q,%q:%s}`,
		protocol.MetaProtocolVersion, protocol.V20260728, protocol.MetaClientCapabilities,
		capabilities)
	return json.RawMessage("{" + strings.Join(append([]string{meta}, members...), ",") + "}")
}

func (r *rig) send(method string, members ...string) *protocol.Response {
	r.Helper()
	return r.raw(context.Background(), method, params(allCapabilities, members...))
}

// The method raw returns no response if ctx has ended.
func (r *rig) raw(ctx context.Context, method string, params json.RawMessage) *protocol.Response {
	r.Helper()
	r.calls++
	response, err := r.Handle(ctx,
		&protocol.Request{ID: protocol.IntID(int64(r.calls)), Method: method, Params: params}, nil)
	if err != nil && ctx.Err() == nil {
		r.Fatal(err)
	}
	return response
}

// call calls a tool with a note as argument.
func (r *rig) call(tool, note string, members ...string) *protocol.Response {
	r.Helper()
	return r.send(protocol.MethodCallTool, append([]string{
		fmt.Sprintf(`"name":%q`, tool), fmt.Sprintf(`"arguments":{"note":%q}`, note),
	}, members...)...)
}

// state returns the member that echoes a response's requestState.
func (r *rig) state(response *protocol.Response) string {
	r.Helper()
	result, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool, response.Result)
	noError(r, err)
	asks, ok := result.(*protocol.InputRequiredResult)
	if !ok {
		r.Fatalf("result is %s, want input_required", response.Result)
	}
	text, _ := asks.RequestState.Text()
	return fmt.Sprintf(`"requestState":%q`, text)
}

func answers(members string) string { return `"inputResponses":{` + members + `}` }

func (w *watch) entry(name string) observer.LoggedEntry {
	w.Helper()
	entries := w.logs.FilterMessage(name).All()
	if len(entries) != 1 {
		w.Fatalf("%d entries %s, want 1: %v", len(entries), name, w.logs.All())
	}
	return entries[0]
}

func wantFields(t testing.TB, e observer.LoggedEntry, want map[string]any) {
	t.Helper()
	got := e.ContextMap()
	for name, value := range want {
		if fmt.Sprint(got[name]) != fmt.Sprint(value) {
			t.Errorf("%s: %s is %v, want %v", e.Message, name, got[name], value)
		}
	}
}

func (w *watch) exposition() string { return exposition(w, w.registry) }

func exposition(t testing.TB, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	noError(t, err)
	var b strings.Builder
	for _, f := range families {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// value sums a counter or gauge, or the counts of a histogram, over series with the labels, given
// as names and values.
func value(t testing.TB, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	sum, found := 0.0, false
	for full, n := range promtest.Series(t, g) {
		family, have, _ := strings.Cut(full, "{")
		matches := family == name
		found = found || matches
		for i := 0; i < len(labels); i += 2 {
			matches = matches &&
				strings.Contains(have, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
		}
		if matches {
			sum += n
		}
	}
	if !found {
		t.Errorf("no metric %s", name)
	}
	return sum
}

func (w *watch) wantValue(want float64, name string, labels ...string) {
	w.Helper()
	wantEqual(w, fmt.Sprintf("%s%q =", name, labels), value(w, w.registry, name, labels...), want)
}

func (w *watch) series(name string) int {
	w.Helper()
	n, err := testutil.GatherAndCount(w.registry, name)
	noError(w, err)
	return n
}

// wantCode wants an error with the code that contains words.
func wantCode(t testing.TB, response *protocol.Response, code int64, words ...string) {
	t.Helper()
	if response.Error == nil || response.Error.Code != code {
		t.Fatalf("response is %s %v, want code %d", response.Result, response.Error, code)
	}
	for _, w := range words {
		wantPart(t, "error", response.Error.Message+string(response.Error.Data), w)
	}
}

// run calls a middleware around a handler, for cases that servers avoid.
func run(m server.Middleware, request *server.Request, h server.Handler) (protocol.Result, error) {
	return m(h)(context.Background(), request)
}

func incoming(method string, who protocol.Principal) *server.Request {
	return &server.Request{
		Message:   &protocol.Request{ID: protocol.IntID(1), Method: method},
		Meta:      &protocol.RequestMeta{},
		Version:   protocol.Latest,
		Principal: who,
	}
}

func toolCall() *server.Request {
	return incoming(protocol.MethodCallTool, protocol.LocalPrincipal())
}

func returns(result protocol.Result, err error) server.Handler {
	return func(context.Context, *server.Request) (protocol.Result, error) { return result, err }
}

func addTool(s *server.Server, name string,
	f func(ctx context.Context, in input) (toolOutcome, error)) {
	server.AddTool(s, server.Tool{Name: name},
		func(ctx context.Context, _ *server.ToolCall, in input) (toolOutcome, error) {
			return f(ctx, in)
		})
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

var (
	noError    = testkit.NoError
	wantPart   = testkit.WantPart
	wantNoPart = testkit.WantNoPart
	wantEqual  = testkit.WantEqual
)

type toolOutcome = protocol.CallToolOutcome
