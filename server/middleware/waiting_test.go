package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

func works(ctx context.Context, d time.Duration) error {
	if d == 0 { // Go 1.26's race detector may crash on timers that are due in a bubble
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func asks(ctx context.Context, d time.Duration) error {
	defer waiting.Begin(ctx)()
	return works(ctx, d)
}

func TestTimeoutDoesNotCountPeople(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(ctx context.Context) error
		took    time.Duration // 0: the handler decides
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
		bubble(t, c.name, func(t *testing.T) {
			started := time.Now()
			_, err := run(middleware.Timeout(5*time.Second), toolCall(),
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
	}
}

// The function answered waits for a user for d, and then for a slot.
func answered(ctx context.Context, d time.Duration) error {
	var w waiting.Wait
	w.Begin(ctx, nil)
	err := works(ctx, d)
	w.End()
	if err != nil {
		return err
	}
	return w.Resume(ctx)
}

// A call that waits for a user holds no slot. Calls answered together run up to their principal's
// limit, without effect on others.
func TestLimitDoesNotCountPeople(t *testing.T) {
	ann, bob := protocol.Principal{Subject: "ann"}, protocol.Principal{Subject: "bob"}
	for name, who := range map[string]protocol.Principal{"anonymous": {}, "ann": ann} {
		bubble(t, name, func(t *testing.T) {
			running, most := 0, 0
			var mu sync.Mutex
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				running += n
				most = max(most, running)
			}
			opts := &middleware.Options{Calls: 4, CallsPerPrincipal: 2}
			handler := middleware.Limit(opts)(
				func(ctx context.Context, request *server.Request) (protocol.Result, error) {
					if request.Message.Method == protocol.MethodCallTool {
						if err := answered(ctx, time.Minute); err != nil {
							return nil, err
						}
						count(1)
						defer count(-1)
						return &protocol.EmptyResult{}, works(ctx, time.Second)
					}
					return &protocol.EmptyResult{}, nil
				})
			call := func(method string, who protocol.Principal) error {
				_, err := handler(t.Context(), incoming(method, who))
				return err
			}
			noError(t, call(protocol.MethodListTools, bob))
			var calls sync.WaitGroup
			for range 10 { // far above the limit
				calls.Go(func() {
					if err := call(protocol.MethodCallTool, who); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			noError(t, call(protocol.MethodListTools, who))
			time.Sleep(time.Minute + time.Millisecond)
			noError(t, call(protocol.MethodListTools, bob))
			if e, ok := protocol.AsError(call(protocol.MethodListTools, who)); !ok ||
				e.Code != protocol.CodeBusy || !strings.Contains(string(e.Data), "principal") {
				t.Errorf("while calls wait for slots a further one got %v, want busy", e)
			}
			calls.Wait()
			if want := map[string]int{"anonymous": 3, "ann": 2}[name]; most != want {
				t.Errorf("%d calls ran at once, want %d", most, want)
			}
			for range 3 {
				noError(t, call(protocol.MethodListTools, who))
			}
		})
	}
}

// A call that ends while it waits for a slot takes none; its time limit includes that wait.
func TestLimitEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := protocol.Principal{Subject: "ann"}
		limit := middleware.Limit(&middleware.Options{Calls: 4, CallsPerPrincipal: 1})
		handler := limit(middleware.Timeout(3 * time.Second)(
			func(ctx context.Context, request *server.Request) (protocol.Result, error) {
				if request.Message.Method == protocol.MethodCallTool {
					return nil, answered(ctx, time.Minute)
				}
				return &protocol.EmptyResult{}, works(ctx, 2*time.Second)
			}))
		call := func(ctx context.Context, method string) error {
			_, err := handler(ctx, incoming(method, ann))
			return err
		}
		gone, leave := context.WithCancel(t.Context())
		results := make(chan error, 2)
		go func() { results <- call(gone, protocol.MethodCallTool) }()
		synctest.Wait()
		go func() { results <- call(t.Context(), protocol.MethodCallTool) }()
		synctest.Wait()
		// Both calls are answered while the only slot is taken for longer than they may run.
		time.Sleep(time.Minute - time.Second)
		hold, release := context.WithCancel(t.Context())
		blocked := make(chan struct{})
		go func() {
			defer close(blocked)
			_, _ = limit(func(context.Context, *server.Request) (protocol.Result, error) {
				<-hold.Done()
				return &protocol.EmptyResult{}, nil
			})(t.Context(), incoming(protocol.MethodListTools, ann))
		}()
		time.Sleep(1500 * time.Millisecond)
		leave()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller left: got %v", err)
		}
		began := time.Now()
		wantPart(t, "the result", spell(nil, <-results), "timed out after 3s")
		wantEqual(t, "timed out after another", time.Since(began), 2500*time.Millisecond)
		release()
		<-blocked
		noError(t, call(t.Context(), protocol.MethodListTools))
	})
}

// Whatever one principal and the anonymous callers do, neither exceeds its share, and calls of
// another principal run at once.
func TestLimitIsFair(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			rogue := protocol.Principal{Subject: "rogue"}
			victim := protocol.Principal{Subject: "zoe"}
			shares := map[protocol.Principal]int{{}: 12, rogue: 2, victim: 2}
			var mu sync.Mutex
			running := map[protocol.Principal]int{}
			run := func(ctx context.Context, who protocol.Principal, d time.Duration) error {
				mu.Lock()
				if running[who]++; running[who] > shares[who] {
					t.Errorf("seed %d: %d calls of %v run, want %d", seed, running[who], who,
						shares[who])
				}
				mu.Unlock()
				err := works(ctx, d)
				mu.Lock()
				running[who]--
				mu.Unlock()
				return err
			}
			type script struct{ work, think []time.Duration }
			limit := middleware.Limit(&middleware.Options{Calls: 16, CallsPerPrincipal: 2})
			serve := func(ctx context.Context, who protocol.Principal, s script) error {
				_, err := limit(func(ctx context.Context,
					_ *server.Request) (protocol.Result, error) {
					for i, d := range s.work {
						if err := run(ctx, who, d); err != nil {
							return nil, err
						}
						if i < len(s.think) {
							if err := answered(ctx, s.think[i]); err != nil {
								return nil, err
							}
						}
					}
					return &protocol.EmptyResult{}, nil
				})(ctx, incoming(protocol.MethodCallTool, who))
				return err
			}
			plain := script{work: []time.Duration{time.Millisecond}}
			noError(t, serve(t.Context(), victim, plain))
			millis := func(most int) time.Duration {
				return time.Duration(random.IntN(most)) * time.Millisecond
			}
			var calls sync.WaitGroup
			for range 300 {
				who := []protocol.Principal{{}, rogue}[random.IntN(2)]
				var s script
				for range 1 + random.IntN(4) {
					s.work = append(s.work, millis(50))
					s.think = append(s.think, time.Duration(random.IntN(3))*100*time.Millisecond)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(3) == 0 {
					time.AfterFunc(millis(400), cancel)
				}
				start := millis(500)
				calls.Go(func() {
					defer cancel()
					time.Sleep(start)
					_ = serve(ctx, who, s) // refused, cut off or done
				})
			}
			for range 200 {
				began := time.Now()
				if err := serve(t.Context(), victim, plain); err != nil ||
					time.Since(began) != time.Millisecond {
					t.Fatalf("seed %d: got %v after %s", seed, err, time.Since(began))
				}
				time.Sleep(4 * time.Millisecond)
			}
			calls.Wait()
			for who, share := range shares { // nothing is leaked
				for range share {
					calls.Go(func() {
						if err := serve(t.Context(), who, plain); err != nil {
							t.Errorf("seed %d: %v at the end: %v", seed, who, err)
						}
					})
				}
				calls.Wait()
			}
		})
	}
}

func TestLimitGetsSlotsBackFromGoroutinesThatWaitOn(t *testing.T) {
	handler := middleware.Limit(&middleware.Options{Calls: 1})(
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
					incoming(method, protocol.Principal{Subject: "ann"})); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}()
			if i == 2 {
				// some waits end after their calls, others during later ones
				time.Sleep(time.Minute)
			}
		}
		time.Sleep(time.Minute)
		_, err := handler(t.Context(),
			incoming(protocol.MethodListTools, protocol.Principal{Subject: "ann"}))
		noError(t, err)
		time.Sleep(time.Minute)
	})
}

func TestLogAndMetricsTellWorkFromWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, nil, nil)
		wrapped := w.log.Wrap(w.metrics.Wrap(func(ctx context.Context,
			request *server.Request) (protocol.Result, error) {
			_ = works(ctx, time.Second)
			if request.Message.Method == protocol.MethodCallTool {
				end := waiting.Begin(ctx)
				w.wantValue(1, "rondo_requests_waiting")
				time.Sleep(time.Minute)
				end()
				go func() { _ = asks(ctx, time.Hour) }() // left behind
				synctest.Wait()
			}
			return &protocol.EmptyResult{}, nil
		}))
		for _, method := range []string{protocol.MethodCallTool, protocol.MethodListTools} {
			_, err := wrapped(t.Context(), incoming(method, protocol.LocalPrincipal()))
			noError(t, err)
		}
		time.Sleep(2 * time.Hour)
		lines := w.logs.FilterMessage("mcp.request").All()
		wantFields(t, lines[0], map[string]any{"duration_ms": 1000, "waited_ms": 60000})
		wantFields(t, lines[1], map[string]any{"duration_ms": 1000, "waited_ms": nil})
		for name, want := range map[string]float64{
			"rondo_request_duration_seconds": 2, "rondo_request_waiting_seconds": 60,
			"rondo_requests_waiting": 0,
		} {
			wantEqual(t, fmt.Sprintf("%s adds up to", name), sum(t, w.registry, name), want)
		}
	})
}

// sum adds up the observations of a histogram, or the values of a gauge.
func sum(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	noError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetHistogram().GetSampleSum() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
