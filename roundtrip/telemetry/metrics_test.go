package telemetry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/telemetry"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// collect returns the non-zero series, as name, unit, labels and count or value.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	noError(t, reader.Collect(context.Background(), &all))
	got := map[string]float64{}
	put := func(m metricdata.Metrics, set attribute.Set, value float64) {
		var labels []string
		for _, a := range set.ToSlice() {
			labels = append(labels, a.Value.String())
		}
		slices.Sort(labels)
		if value != 0 {
			got[fmt.Sprintf("%s %s %s", m.Name, m.Unit, strings.Join(labels, ","))] = value
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					put(m, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(m, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(m, p.Attributes, float64(p.Count))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return got
}

// TestMetricsAreThoseOfTheTable and two of the conventions, over a flow that asks twice.
func TestMetricsAreThoseOfTheTable(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	b := newBook(t)
	tel := b.tel("server", telemetry.Options{MeterProvider: provider})
	observer, chain, err := middleware.Production(nil, telemetry.Metrics(provider), nil)
	noError(t, err)
	srv, err := server.New(&server.Options{
		Observer: event.Observers(tel, observer), Middleware: append([]server.Middleware{tel.Wrap},
			chain...), Roundtrip: roundtrip.Options{Tracer: tel, MinHumanTime: -1}})
	noError(t, err)
	server.AddTool(srv, server.Tool{Name: "deploy"}, deploy)
	c := b.dial(tel, b.overStream(srv), protocol.Modern)
	b.call(c, "deploy")
	_, _ = c.CallTool(t.Context(), "no such tool", nil)
	got := collect(t, reader)
	for series, want := range map[string]float64{
		"rondo.requests 1 tools/call,modern,input_required":              2,
		"rondo.requests 1 complete,modern,tools/call":                    1,
		"rondo.input_required 1 elicitation.form":                        2,
		"rondo.answers 1 accepted,elicitation.form":                      2,
		"rondo.human_wait s ":                                            2,
		"rondo.state By ":                                                2,
		"rondo.request_duration s modern,tools/call":                     4,
		"mcp.server.operation.duration s deploy,execute_tool,tools/call": 3,
		"mcp.client.operation.duration s deploy,execute_tool,tools/call": 3,
		"mcp.server.operation.duration s -32602,-32602,tools/call":       1,
	} {
		name, labels, _ := strings.Cut(series, " ")
		unit, labels, _ := strings.Cut(labels, " ")
		sorted := strings.Split(labels, ",")
		slices.Sort(sorted)
		key := name + " " + unit + " " + strings.Join(sorted, ",")
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestPeersMakeNoSeries: callers' invented methods and servers' invented codes make no series.
func TestPeersMakeNoSeries(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	b := newBook(t)
	tel := b.tel("server", telemetry.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	srv := b.serve(tel)
	session := srv.NewSession(protocol.LocalPrincipal(), nil)
	defer session.Close()
	script, code := &scripted{}, int64(0)
	script.refuse = func() *protocol.Error { code++; return protocol.Errorf(code*1000, "no") }
	peer := tel.Peer(script)
	const many = 50
	for i := range many {
		req := &protocol.Request{Method: fmt.Sprintf("made/up%d", i)}
		req.ID, _ = protocol.ParseID([]byte(`1`))
		_, _ = srv.Handle(t.Context(), req, nil)
		srv.Serve(t.Context(), session.Admit(req, server.Delivery{}))
		_, _ = peer.Handle(t.Context(), &protocol.Request{ID: req.ID,
			Method: protocol.MethodListTools}, nil)
	}
	got := collect(t, reader)
	if len(got) > 5 {
		t.Errorf("%d series: %v", len(got), got)
	}
	if n := got["mcp.client.operation.duration s _OTHER,_OTHER,tools/list"]; n != many {
		t.Errorf("%v answers with codes that there are not are counted: %v", n, got)
	}
	for _, s := range b.exporter.GetSpans() {
		if strings.Contains(fmt.Sprint(s.Name, s.Attributes), "made/up") {
			t.Fatalf("a span has %s %v", s.Name, s.Attributes)
		}
	}
}

func TestASeriesThatCannotBeMadeIsNamed(t *testing.T) {
	sink := telemetry.Metrics(sdkmetric.NewMeterProvider())
	_, err := sink.Register([]event.Series{{Name: "rondo_good"}, {Name: "no name"}})
	if err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("got %v", err)
	}
}
