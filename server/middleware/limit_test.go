package middleware_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// crowd keeps requests running within a middleware.
type crowd struct {
	testing.TB
	handler server.Handler
	inside  chan struct{}
	leave   chan struct{}
	wg      sync.WaitGroup
}

func newCrowd(t testing.TB, m server.Middleware) *crowd {
	c := &crowd{TB: t, inside: make(chan struct{}), leave: make(chan struct{})}
	c.handler = m(func(ctx context.Context, request *server.Request) (protocol.Result, error) {
		if request.Refusal() != nil {
			return nil, request.Refusal()
		}
		c.inside <- struct{}{}
		<-c.leave
		return &protocol.EmptyResult{}, nil
	})
	t.Cleanup(c.empty)
	return c
}

// enter returns the error that a further request gets at once, nil if it runs.
func (c *crowd) enter(method string, who protocol.Principal) error {
	refused := make(chan error, 1)
	c.wg.Go(func() {
		if _, err := c.handler(context.Background(), incoming(c.TB, method, who)); err != nil {
			refused <- err
		}
	})
	select {
	case <-c.inside:
		return nil
	case err := <-refused:
		return err
	}
}

// empty lets all that runs return.
func (c *crowd) empty() {
	close(c.leave)
	c.wg.Wait()
	c.leave = make(chan struct{})
}

func (c *crowd) wantFull(err error, limit string) {
	c.Helper()
	e, ok := protocol.AsError(err)
	want := fmt.Sprintf(`{"retryAfterMs":1000,"limit":%q}`, limit)
	if !ok || e.Code != protocol.CodeBusy || string(e.Data) != want {
		c.Errorf("got %v, want busy with data %s", err, want)
		if ok {
			c.Errorf("data %s", e.Data)
		}
	}
}

func TestLimit(t *testing.T) {
	ann := protocol.Principal{Issuer: "https://id.example", Subject: "ann"}
	bob := protocol.Principal{Issuer: "https://id.example", Subject: "bob"}
	c := newCrowd(t, middleware.Limit(&middleware.LimitOptions{Calls: 3, CallsPerPrincipal: 2,
		Listens: 1}))
	for round := range 3 { // slots come back
		for i, who := range []protocol.Principal{ann, ann} {
			if err := c.enter(protocol.MethodCallTool, who); err != nil {
				t.Fatalf("round %d, call %d: %v", round, i, err)
			}
		}
		c.wantFull(c.enter(protocol.MethodCallTool, ann), "principal")
		if err := c.enter(protocol.MethodListTools, bob); err != nil {
			t.Errorf("one principal locks another out: %v", err)
		}
		c.wantFull(c.enter(protocol.MethodCallTool, bob), "server")
		c.wantFull(c.enter(protocol.MethodCallTool, protocol.LocalPrincipal()), "server")
		if err := c.enter(protocol.MethodListen, ann); err != nil {
			t.Errorf("subscriptions need slots of calls: %v", err)
		}
		c.wantFull(c.enter(protocol.MethodListen, bob), "server")
		c.empty()
	}
}

func TestLimitDoesNotTellStrangersApart(t *testing.T) {
	for name, who := range map[string]protocol.Principal{
		"nobody": {}, "local": protocol.LocalPrincipal(),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, middleware.Limit(&middleware.LimitOptions{Calls: 3,
				CallsPerPrincipal: 1}))
			for range 3 {
				if err := c.enter(protocol.MethodCallTool, who); err != nil {
					t.Error(err)
				}
			}
			c.wantFull(c.enter(protocol.MethodCallTool, who), "server")
		})
	}
}

func TestLimitOff(t *testing.T) {
	ann := protocol.Principal{Subject: "ann"}
	c := newCrowd(t, middleware.Limit(&middleware.LimitOptions{Calls: -1, CallsPerPrincipal: -1}))
	for range 2 * 256 {
		if err := c.enter(protocol.MethodCallTool, ann); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLimitDefaults(t *testing.T) {
	ann := protocol.Principal{Subject: "ann"}
	c := newCrowd(t, middleware.Limit(nil))
	for i := range 32 {
		if err := c.enter(protocol.MethodCallTool, ann); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	c.wantFull(c.enter(protocol.MethodCallTool, ann), "principal")
}

func TestLimitReturnsSlotsAfterPanics(t *testing.T) {
	ann := protocol.Principal{Subject: "ann"}
	limit := middleware.Limit(&middleware.LimitOptions{CallsPerPrincipal: 1})
	h := middleware.Recover(nil)(limit(func(context.Context, *server.Request) (protocol.Result,
		error) {
		panic("broken")
	}))
	for range 3 {
		_, err := h(context.Background(), incoming(t, protocol.MethodCallTool, ann))
		if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInternalError {
			t.Fatalf("got %v, want the panic's internal error", err)
		}
	}
}

func TestLimitLetsRefusalsPass(t *testing.T) {
	c := newCrowd(t, middleware.Limit(&middleware.LimitOptions{Calls: 1, RetryAfter: time.Second}))
	if err := c.enter(protocol.MethodCallTool, protocol.LocalPrincipal()); err != nil {
		t.Fatal(err)
	}
	request := incoming(t, protocol.MethodCallTool, protocol.LocalPrincipal())
	request.Refuse(protocol.Errorf(protocol.CodeInvalidParams, "no"))
	if _, err := c.handler(context.Background(), request); err != error(request.Refusal()) {
		t.Errorf("a refused request got %v, want its refusal", err)
	}
}

func TestLimitCountsUnderConcurrency(t *testing.T) {
	const limit = 4
	var mu sync.Mutex
	running, most, served, refused := 0, 0, 0, 0
	h := middleware.Limit(&middleware.LimitOptions{Calls: limit})(func(context.Context,
		*server.Request) (protocol.Result, error) {
		mu.Lock()
		running++
		served++
		most = max(most, running)
		mu.Unlock()
		mu.Lock()
		running--
		mu.Unlock()
		return &protocol.EmptyResult{}, nil
	})
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := h(context.Background(),
				incoming(t, protocol.MethodPing, protocol.Principal{})); err != nil {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if most > limit || served+refused != 200 || running != 0 {
		t.Errorf("most %d of %d, served %d and refused %d of 200, running %d", most, limit, served,
			refused, running)
	}
}

// TestRefusalsForWantOfRoomAreSeen in the log and the metrics, and so are the
// sessions that made room.
func TestRefusalsForWantOfRoomAreSeen(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	registry := prometheus.NewRegistry()
	metrics, err := middleware.NewMetrics(prom.New(registry), nil)
	if err != nil {
		t.Fatal(err)
	}
	both := event.Observers(middleware.NewLog(zaplog.New(zap.New(core)), nil), metrics)
	where := event.Where{Version: protocol.V20260728, Method: protocol.MethodCallTool,
		Target: "pay"}
	both.Observe(t.Context(), event.QuotaExceeded{Where: where, Resource: "guard",
		Limit: "principal", RetryAfter: 2 * time.Second})
	both.Observe(t.Context(), event.SessionEvicted{Idle: time.Minute, Limit: "server"})
	for _, want := range []struct {
		name   string
		fields map[string]any
	}{
		{"mcp.quota_exceeded", map[string]any{"resource": "guard", "limit": "principal",
			"retry_after_ms": 2000.0, "target": "pay"}},
		{"mcp.session_evicted", map[string]any{"idle_ms": 60000.0, "limit": "server"}},
	} {
		t.Run(want.name, func(t *testing.T) {
			entries := logs.FilterMessage(want.name).All()
			if len(entries) != 1 {
				t.Fatalf("%d entries %s, want 1", len(entries), want.name)
			}
			wantFields(t, entries[0], want.fields)
		})
	}
	for _, name := range []string{"rondo_quota_refusals_total", "rondo_sessions_evicted_total"} {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, f := range families {
			if f.GetName() == name {
				for _, m := range f.GetMetric() {
					sum += m.GetCounter().GetValue()
				}
			}
		}
		if sum != 1 {
			t.Errorf("%s is %v, want 1", name, sum)
		}
	}
	if n := testutil.CollectAndCount(registry, "rondo_quota_refusals_total"); n != 6 {
		t.Errorf("%d series, want one for each resource from the start, and one for others", n)
	}
}
