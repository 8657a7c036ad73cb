package middleware_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

// The metrics of calls with every outcome, some concurrent, add up.
func TestMetricsReconcile(t *testing.T) {
	r := newRig(t)
	want := map[string]float64{}
	expect := func(outcome string, response *protocol.Response) *protocol.Response {
		want[outcome]++
		return response
	}
	expect("complete", r.call("echo", "a"))
	expect("complete", r.send(protocol.MethodDiscover))
	expect("complete", r.send(protocol.MethodListTools))
	expect("tool_error", r.call("fail", "a"))
	expect("tool_error", r.send(protocol.MethodCallTool, `"name":"echo"`, `"arguments":{"note":1}`))
	expect("other_error", r.call("refuse", "a"))
	expect("cannot_ask", r.call("refuse", "23225"))
	expect("insufficient_scope", r.call("refuse", "23226"))
	expect("internal_error", r.call("panic", "a"))
	expect("internal_error", r.call("bug", "a"))
	expect("handler_error", r.send(protocol.MethodGetPrompt, `"name":"greet"`))
	expect("invalid_params", r.send(protocol.MethodReadResource, `"uri":"doc://a"`))
	expect("invalid_params", r.call("nothing", "a"))
	expect("invalid_params", r.raw(context.Background(), protocol.MethodListTools, nil))
	expect("method_not_found", r.send("no/such"))
	expect("method_not_found", r.send(protocol.MethodInitialize))
	expect("parse_error", r.raw(context.Background(), protocol.MethodListTools, []byte(`{`)))
	expect("invalid_request", r.raw(context.Background(), protocol.MethodListTools, []byte(`[]`)))
	expect("unsupported_version", r.raw(context.Background(), protocol.MethodListTools,
		[]byte(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`)))
	expect("missing_capability",
		r.raw(context.Background(), protocol.MethodCallTool, params(`{}`, `"name":"deploy"`)))
	asked := expect("input_required", r.call("deploy", "prod"))
	expect("invalid_params", r.call("deploy", "other", r.state(asked)))
	expect("complete",
		r.call("deploy", "prod", answers(`"confirm":{"action":"decline"}`), r.state(asked)))
	expect("complete", r.call("echo", "a", answers(`"x":{"action":"accept"},"y":null`)))

	var wg sync.WaitGroup
	const parallel = 50
	for range parallel {
		wg.Go(func() {
			r.Handle(context.Background(),
				&protocol.Request{ID: protocol.IntID(1), Method: protocol.MethodListTools,
					Params: params("{}")}, nil)
		})
	}
	wg.Wait()
	r.calls += parallel
	want["complete"] += parallel

	sum := 0.0
	for outcome, n := range want {
		r.wantValue(n, "rondo_requests_total", "outcome", outcome)
		sum += n
	}
	if sum != float64(r.calls) {
		t.Fatalf("the test counts %v of %d calls", sum, r.calls)
	}
	r.wantValue(sum, "rondo_requests_total")
	r.wantValue(sum, "rondo_request_duration_seconds")
	r.wantValue(0, "rondo_requests_in_flight")
	wantEqual(t, "legs logged", r.logs.FilterMessage("mcp.request").Len(), r.calls)

	r.wantValue(1, "rondo_requests_total", "method", "tools/call", "era", "modern", "outcome",
		"input_required")
	r.wantValue(1, "rondo_input_required_total", "kind", "elicitation.form")
	r.wantValue(1, "rondo_flows_ended_total", "how", "complete")
	r.wantValue(1, "rondo_flow_rounds")
	r.wantValue(1, "rondo_human_wait_seconds")
	r.wantValue(1, "rondo_state_bytes")
	r.wantValue(1, "rondo_state_rejections_total", "reason", "other_arguments")
	r.wantValue(1, "rondo_state_rejections_total")
	r.wantValue(1, "rondo_capability_refusals_total", "capability", "elicitation.form")
	r.wantValue(2, "rondo_dropped_answers_total", "reason", "unsolicited")
	r.wantValue(1, "rondo_handler_panics_total")
	r.wantValue(1, "rondo_server_bugs_total")
}

// The number of series stays bounded, whatever peers and handlers invent.
func TestMetricsFlood(t *testing.T) {
	r := newRig(t)
	flood := func(from, to int) {
		for i := from; i < to; i++ {
			r.send(fmt.Sprintf("made/up/%d", i))
			r.call(fmt.Sprintf("tool-%d", i), "")
			r.raw(context.Background(), protocol.MethodCallTool, []byte(fmt.Sprintf(
				`{"_meta":{"io.modelcontextprotocol/protocolVersion":"%d"}}`, i)))
			where := event.Where{Version: protocol.Version(fmt.Sprint(i)),
				Method: fmt.Sprint(i), Target: fmt.Sprint(i)}
			for _, e := range []event.Event{
				event.StateRejected{Where: where, Reason: event.Reason(fmt.Sprint(i))},
				event.AnswersDropped{Where: where,
					Dropped: []event.Dropped{{Reason: event.DropReason(fmt.Sprint(i))}}},
				event.InputRequested{Where: where,
					Kinds: []protocol.InputKind{protocol.InputKind(fmt.Sprint(i))}},
				event.FlowEnded{Where: where, How: event.FlowEnd(fmt.Sprint(i))},
				event.CapabilityRefused{Where: where, Missing: protocol.ClientCapabilities{
					Extensions: map[string]json.RawMessage{fmt.Sprint(i): json.RawMessage("{}")}}},
			} {
				r.metrics.Observe(context.Background(), e)
			}
			request := incoming(fmt.Sprintf("made/up/%d", i), protocol.LocalPrincipal())
			request.Version = protocol.Version(fmt.Sprint(i))
			run(r.metrics.Wrap, request, func(context.Context, *server.Request) (protocol.Result,
				error) {
				return nil, protocol.Errorf(int64(i), "made up")
			})
		}
	}
	flood(0, 5)
	before := strings.Count(r.exposition(), "label:")
	if before == 0 {
		t.Fatal("nothing was counted")
	}
	flood(5, 500)
	if after := strings.Count(r.exposition(), "label:"); after != before {
		t.Errorf("%d labels after the flood, %d before", after, before)
	}
	r.wantValue(500, "rondo_state_rejections_total", "reason", "other")
	r.wantValue(500, "rondo_capability_refusals_total", "capability", "other")
	r.wantValue(1000, "rondo_requests_total", "method", "other")
}

func TestMetricsInFlight(t *testing.T) {
	r := newRig(t)
	run(r.metrics.Wrap, incoming(protocol.MethodPing, protocol.LocalPrincipal()),
		func(context.Context, *server.Request) (protocol.Result, error) {
			r.wantValue(1, "rondo_requests_in_flight")
			return &protocol.EmptyResult{}, nil
		})
	r.wantValue(0, "rondo_requests_in_flight")
}

func TestMetricsStartAtZero(t *testing.T) {
	r := newRig(t)
	for name, want := range map[string]int{
		"rondo_state_rejections_total":    18,
		"rondo_capability_refusals_total": 7,
		"rondo_dropped_answers_total":     5,
		"rondo_input_required_total":      5,
		"rondo_flows_ended_total":         9,
		"rondo_answers_total":             25,
		"rondo_invalid_answers_total":     12,
		"rondo_ignored_declines_total":    1,
		"rondo_handler_failures_total":    1,
		"rondo_handler_panics_total":      1,
	} {
		wantEqual(t, fmt.Sprintf("%s has series", name), r.series(name), want)
		r.wantValue(0, name)
	}
}

func TestMetricsMissingCapabilities(t *testing.T) {
	r := newRig(t)
	for _, missing := range []protocol.ClientCapabilities{
		{Elicitation: &protocol.ElicitationCapability{Form: true, URL: true}},
		{Sampling: &protocol.SamplingCapability{}, Roots: &protocol.RootsCapability{}},
		{Sampling: &protocol.SamplingCapability{Tools: true, Context: true}},
	} {
		r.metrics.Observe(context.Background(), event.CapabilityRefused{Missing: missing})
	}
	for _, name := range []string{"elicitation.form", "elicitation.url", "sampling",
		"sampling.tools", "sampling.context", "roots"} {
		r.wantValue(1, "rondo_capability_refusals_total", "capability", name)
	}
}

func TestMetricsReplaysAreNoRounds(t *testing.T) {
	r := newRig(t)
	r.metrics.Observe(context.Background(), event.FlowEnded{Legs: 2, How: words.EndReplayed})
	r.metrics.Observe(context.Background(), event.FlowEnded{Legs: 3, How: words.EndComplete})
	r.metrics.Observe(context.Background(), event.Resumed{Waited: time.Hour})
	r.wantValue(1, "rondo_flow_rounds")
	r.wantValue(2, "rondo_flows_ended_total")
}

func TestMetricsRegisteredTwice(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"server": "b"}, registry)
	for _, registerer := range []prometheus.Registerer{registry, registry, labelled, labelled} {
		m, err := middleware.NewMetrics(prom.New(registerer), nil)
		if err != nil && registerer == prometheus.Registerer(labelled) {
			// Prometheus requires the same labels on all series of a name.
			wantPart(t, "error", err.Error(), "rondo_requests_total")
			continue
		}
		noError(t, err)
		m.Observe(context.Background(), event.HandlerPanicked{})
	}
	wantEqual(t, "two servers count panics", value(t, registry, "rondo_handler_panics_total"), 2.0)
}

func TestMetricsNameTaken(t *testing.T) {
	for name, taken := range map[string]prometheus.Collector{
		"other help": prometheus.NewCounter(prometheus.CounterOpts{Name: "rondo_server_bugs_total",
			Help: "Something else."}),
		"other type": prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rondo_server_bugs_total",
			Help: "Mistakes of handlers that clients got as internal errors."}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(taken)
			_, err := middleware.NewMetrics(prom.New(registry), nil)
			if err == nil || !strings.Contains(err.Error(), "rondo_server_bugs_total") {
				t.Fatalf("error %v, want one that names the metric", err)
			}
			registry.Unregister(taken)
			wantEqual(t, "left behind", exposition(t, registry), "")
		})
	}
}
