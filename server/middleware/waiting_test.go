package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// works takes time for work.
func works(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asks waits for a person who takes her time.
func asks(ctx context.Context, d time.Duration) error {
	defer waiting.Begin(ctx)()
	return works(ctx, d)
}

func TestTimeoutDoesNotCountPeople(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(ctx context.Context) error
		took    time.Duration // 0: as long as the handler wants
	}{
		{"one long question", func(ctx context.Context) error { return asks(ctx, time.Hour) }, 0},
		{"work on both sides of it", func(ctx context.Context) error {
			return errors.Join(works(ctx, 2*time.Second), asks(ctx, time.Hour),
				works(ctx, 2*time.Second))
		}, 0},
		{"too much work, before and after", func(ctx context.Context) error {
			return errors.Join(works(ctx, 3*time.Second), asks(ctx, time.Hour),
				works(ctx, 3*time.Second))
		}, time.Hour + 5*time.Second},
		{"overlapping questions", func(ctx context.Context) error {
			end := waiting.Begin(ctx)
			time.Sleep(time.Minute)
			waiting.Begin(ctx)()
			time.Sleep(time.Minute)
			end()
			return works(ctx, 6*time.Second)
		}, 2*time.Minute + 5*time.Second},
		{"a question of a goroutine", func(ctx context.Context) error {
			go func() { _ = asks(ctx, time.Hour) }()
			time.Sleep(time.Second)
			return works(ctx, 30*time.Minute) // while the person thinks
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := time.Now()
				_, err := run(middleware.Timeout(5*time.Second),
					incoming(t, protocol.MethodCallTool, protocol.LocalPrincipal()),
					func(ctx context.Context, _ *server.Request) (protocol.Result, error) {
						if _, ok := ctx.Deadline(); ok {
							t.Error("a deadline is known although it may be put off")
						}
						if err := c.handler(ctx); err != nil {
							return nil, err
						}
						return &protocol.EmptyResult{}, nil
					})
				took := time.Since(started)
				time.Sleep(2 * time.Hour) // goroutines end
				switch timedOut := err != nil; {
				case timedOut != (c.took > 0):
					t.Errorf("got %v after %s", err, took)
				case timedOut && took != c.took:
					t.Errorf("ended after %s, want %s", took, c.took)
				}
			})
		})
	}
}

// What the handler and its callees see of the end.
func TestTimeoutEndsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := run(middleware.Timeout(time.Second),
			incoming(t, protocol.MethodCallTool, protocol.LocalPrincipal()),
			func(ctx context.Context, _ *server.Request) (protocol.Result, error) {
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				<-child.Done()
				if got := ctx.Err(); got != context.DeadlineExceeded {
					t.Errorf("the context ended with %v, want DeadlineExceeded", got)
				}
				if got := context.Cause(child); !errors.Is(got, context.DeadlineExceeded) {
					t.Errorf("the cause of a context below is %v, want DeadlineExceeded", got)
				}
				return nil, child.Err()
			})
		if got, want := spell(nil, err), `23224 timed out after 1s {"timeoutMs":1000}`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestLimitDoesNotCountPeople(t *testing.T) {
	ann := protocol.Principal{Subject: "ann"}
	for name, who := range map[string]protocol.Principal{"anonymous": {}, "ann": ann,
		"local": protocol.LocalPrincipal()} {
		t.Run(name, func(t *testing.T) {
			// A call that has been answered must not take the answer of another.
			answer, finish, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
			handler := middleware.Limit(&middleware.LimitOptions{Calls: 2, CallsPerPrincipal: 2})(
				func(ctx context.Context, request *server.Request) (protocol.Result, error) {
					if request.Message.Method == protocol.MethodCallTool {
						end := waiting.Begin(ctx)
						goOn <- struct{}{}
						<-answer
						end()
						goOn <- struct{}{}
						<-finish
					}
					return &protocol.EmptyResult{}, nil
				})
			plain := func() error {
				_, err := handler(t.Context(), incoming(t, protocol.MethodListTools, who))
				return err
			}
			done := make(chan error)
			for range 10 { // far above the limit
				go func() {
					_, err := handler(context.Background(),
						incoming(t, protocol.MethodCallTool, who))
					done <- err
				}()
				<-goOn
			}
			if err := plain(); err != nil {
				t.Errorf("people who think keep others from calling: %v", err)
			}
			for range 10 {
				answer <- struct{}{}
				<-goOn
			}
			if e, ok := protocol.AsError(plain()); !ok || e.Code != protocol.CodeBusy {
				t.Errorf("10 calls run with a limit of 2: a further one got %v, want busy", e)
			}
			for i := range 10 {
				finish <- struct{}{}
				if err := <-done; err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
			for range 3 {
				if err := plain(); err != nil {
					t.Errorf("slots did not come back: %v", err)
				}
			}
		})
	}
}

func TestLimitGetsSlotsBackFromGoroutinesThatWaitOn(t *testing.T) {
	handler := middleware.Limit(&middleware.LimitOptions{Calls: 1})(
		func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			end := waiting.Begin(ctx)
			defer time.AfterFunc(time.Second, end)
			if request.Message.Method == protocol.MethodCallTool {
				panic("oh no")
			}
			return &protocol.EmptyResult{}, nil
		})
	synctest.Test(t, func(t *testing.T) {
		for i := range 5 {
			func() {
				defer func() { _ = recover() }()
				method := protocol.MethodListTools
				if i%2 == 0 {
					method = protocol.MethodCallTool
				}
				if _, err := handler(t.Context(),
					incoming(t, method, protocol.Principal{Subject: "ann"})); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}()
			if i == 2 {
				// some waits end after their calls, others during later ones
				time.Sleep(time.Minute)
			}
		}
		time.Sleep(time.Minute)
		if _, err := handler(t.Context(),
			incoming(t, protocol.MethodListTools,
				protocol.Principal{Subject: "ann"})); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

func TestLogAndMetricsTellWorkFromWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		registry := prometheus.NewPedanticRegistry()
		metrics, err := middleware.NewMetrics(registry, nil)
		if err != nil {
			t.Fatal(err)
		}
		log := middleware.NewLog(zap.New(core), nil)
		wrapped := log.Wrap(metrics.Wrap(func(ctx context.Context,
			request *server.Request) (protocol.Result, error) {
			_ = works(ctx, time.Second)
			if request.Message.Method == protocol.MethodCallTool {
				end := waiting.Begin(ctx)
				if got := value(t, registry, "rondo_requests_waiting"); got != 1 {
					t.Errorf("%v requests wait, want 1", got)
				}
				time.Sleep(time.Minute)
				end()
				go func() { _ = asks(ctx, time.Hour) }() // left behind
				synctest.Wait()
			}
			return &protocol.EmptyResult{}, nil
		}))
		for _, method := range []string{protocol.MethodCallTool, protocol.MethodListTools} {
			if _, err := wrapped(t.Context(),
				incoming(t, method, protocol.LocalPrincipal())); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		lines := logs.FilterMessage("mcp.request").All()
		wantFields(t, lines[0], map[string]any{"duration_ms": 1000, "waited_ms": 60000})
		wantFields(t, lines[1], map[string]any{"duration_ms": 1000, "waited_ms": nil})
		for name, want := range map[string]float64{
			"rondo_request_duration_seconds": 2, "rondo_request_waiting_seconds": 60,
			"rondo_requests_waiting": 0,
		} {
			if got := sum(t, registry, name); got != want {
				t.Errorf("%s adds up to %v, want %v", name, got, want)
			}
		}
	})
}

// sum adds up the observations of a histogram, or the values of a gauge.
func sum(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetHistogram().GetSampleSum() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
