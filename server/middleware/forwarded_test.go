package middleware_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestAForwardedRequestIsCountedAtItsOwner: limits, metrics, logs and traces are those of the
// owner of the session, and the hop is counted at the other replica.
func TestAForwardedRequestIsCountedAtItsOwner(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	var traced atomic.Int32
	gate := func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			if request.Message.Method == protocol.MethodCallTool {
				if request.TraceParent == traceParent {
					traced.Add(1)
				}
				entered <- struct{}{}
				<-release
			}
			return next(ctx, request)
		}
	}
	var rigs []*rig
	endpoints := fleettest.Start(t, 2, func(o *replicas.Options) http.Handler {
		r := newRig(t, middleware.Limit(&middleware.LimitOptions{Calls: 1}), gate)
		rigs = append(rigs, r)
		h := servertest.NewHandler(t, r.Server, &serverhttp.Options{Replicas: o})
		t.Cleanup(func() { _ = h.Shutdown(context.Background()) }) // closes its connections
		return h
	}).Servers
	const atOwner, atOther = 0, 1
	session := ""
	post := func(at int, body string) (string, http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", endpoints[at].URL,
			strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return "", nil
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Traceparent": {traceParent},
			"Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header["Mcp-Session-Id"] = []string{session}
		}
		response, err := endpoints[at].Client().Do(r)
		if err != nil {
			t.Error(err)
			return "", nil
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text), response.Header
	}
	_, header := post(atOwner, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+
		`{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"c","version":"1"}}}`)
	session = header.Get("Mcp-Session-Id")
	post(atOwner, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)

	const call = `,"method":"tools/call","params":{"name":"echo","arguments":{"note":"hi"}}}`
	first := make(chan string, 1)
	go func() {
		text, _ := post(atOther, `{"jsonrpc":"2.0","id":1`+call)
		first <- text
	}()
	<-entered
	second, _ := post(atOther, `{"jsonrpc":"2.0","id":2`+call)
	if !strings.Contains(second, "too many requests") {
		t.Errorf("the limit of the owner does not hold: %s", second)
	}
	close(release)
	if text := <-first; !strings.Contains(text, `"hi"`) {
		t.Errorf("got %s", text)
	}

	// A request is counted when its handler returns: its client may have the response before.
	endpoints[atOther].Close()
	endpoints[atOwner].Close()
	owner, other := rigs[atOwner], rigs[atOther]
	owner.wantValue(1, "rondo_requests_total", "method", "tools/call", "outcome", "complete")
	owner.wantValue(2, "rondo_requests_total", "method", "tools/call")
	if n := other.series("rondo_requests_total"); n != 0 {
		t.Errorf("the other replica counts requests in %d series", n)
	}
	owner.wantValue(0, "rondo_forwarded_requests_total")
	other.wantValue(2, "rondo_forwarded_requests_total", "outcome", "answered")
	other.wantValue(2, "rondo_forwarded_requests_total")
	for name, want := range map[string]map[*rig]int{
		"mcp.request":           {owner: 3, other: 0}, // with initialize
		"mcp.request_forwarded": {owner: 0, other: 2},
		"mcp.request_refused":   {owner: 0, other: 0},
	} {
		for r, n := range want {
			if got := r.logs.FilterMessage(name).Len(); got != n {
				t.Errorf("%d lines %s, want %d", got, name, n)
			}
		}
	}
	if traced.Load() != 1 {
		t.Error("the owner does not see the trace of the client")
	}
}

func TestMisdirectedRequestsHaveALabel(t *testing.T) {
	r := newRig(t)
	r.metrics.Observe(t.Context(), event.RequestRefused{Transport: "http", Status: 421,
		Reason: event.RefusedMisdirected})
	r.wantValue(1, "rondo_http_refusals_total", "status", "421", "reason", "misdirected")
}
