package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// rushHour is when most people answer, counted from the start.
const rushHour = 2 * time.Second

// A schedule is what one call does: it works, asks and works again. The person thinks as long as
// Think says, until rushHour where it is 0, and for ever where it is negative.
type schedule struct{ Work, Think []time.Duration }

// arena is a server with all recommended middleware at its defaults. It counts whose calls work.
type arena struct {
	testing.TB
	web     *pipehttp.Server
	mu      sync.Mutex
	working map[string]int
	most    map[string]int
}

// TestNobodyMakesAnotherPrincipalWait: whatever one principal and all anonymous callers do, by
// asking, answering all at once, dying and returning, the plain calls of another principal are
// served at once, in both eras.
func TestNobodyMakesAnotherPrincipalWait(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rush(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func rush(t *testing.T, random *rand.Rand) {
	a := newArena(t)
	shares := map[string]int{"rogue": 32,
		"": 256 * 3 / 4}
	start := time.Now()
	var calls sync.WaitGroup
	for i := range 16 { // clients
		who := []string{"rogue", ""}[i%2]
		c := a.dial(who, []protocol.Era{protocol.Legacy, protocol.Legacy, protocol.Modern}[i%3],
			start.Add(rushHour))
		for range 30 {
			plans := make([]schedule, 2)
			for i := range plans {
				plans[i] = makeSchedule(random)
			}
			begin, death := makeDelay(random, time.Second), 5*time.Second
			if random.IntN(4) == 0 {
				death = makeDelay(random, 4*time.Second)
			}
			calls.Go(func() {
				time.Sleep(begin)
				for _, plan := range plans {
					ctx, cancel := context.WithTimeout(t.Context(), death)
					_, _ = a.work(ctx, c, plan) // refused, cut off or done
					cancel()
				}
			})
		}
	}
	a.watchVictims(start.Add(6 * time.Second))
	calls.Wait()
	for who, share := range shares {
		if a.most[who] > share || a.most[who] < share/2 {
			t.Errorf("%d calls of %q worked at once, want up to %d", a.most[who], who, share)
		}
	}
	t.Logf("calls that worked at once: %v", a.most)
	for who, share := range shares { // nothing is leaked
		c := a.dial(who, protocol.Modern, time.Now())
		for range share {
			calls.Go(func() {
				if _, err := a.work(t.Context(), c,
					schedule{Work: []time.Duration{time.Second}}); err != nil {
					t.Errorf("%q at the end: %v", who, err)
				}
			})
		}
		calls.Wait()
	}
}

func makeDelay(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(most)))
}

func makeSchedule(random *rand.Rand) (s schedule) {
	for range 1 + random.IntN(2) {
		s.Work = append(s.Work, makeDelay(random, 200*time.Millisecond))
		s.Think = append(s.Think, []time.Duration{0, 0, 0, 0,
			time.Millisecond, -1}[random.IntN(6)])
	}
	s.Work = append(s.Work, makeDelay(random, time.Second))
	return s
}

func newArena(t *testing.T) *arena {
	a := &arena{TB: t, working: map[string]int{}, most: map[string]int{}}
	observer, chain, err := middleware.Production(zaplog.New(zap.NewNop()),
		prom.New(prometheus.NewRegistry()), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := mustServe(t, &server.Options{Observer: observer, Middleware: chain})
	server.AddTool(srv, server.Tool{Name: "work"}, a.serveWork)
	a.web = pipehttp.Serve(t, servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{Subject: r.Header.Get(userHeader)}, nil
		}}))
	return a
}

func (a *arena) serveWork(ctx context.Context, call *server.ToolCall,
	in struct {
		Work  []time.Duration `json:"work"`
		Think int             `json:"think"`
	}) (protocol.CallToolOutcome, error) {
	for i, d := range in.Work {
		a.count(call.Principal.Subject, 1)
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		a.count(call.Principal.Subject, -1)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if i < in.Think {
			if _, err := roundtrip.Ask[confirmation](ctx, fmt.Sprint("q", i), "Sure?"); err != nil {
				return nil, err
			}
		}
	}
	return server.Text("done"), nil
}

func (a *arena) count(who string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.working[who] += n
	a.most[who] = max(a.most[who], a.working[who])
}

type scheduleKey struct{}

// work makes a call whose person keeps to the schedule.
func (a *arena) work(ctx context.Context, c *client.Client,
	s schedule) (*protocol.CallToolResult, error) {
	arguments, err := json.Marshal(map[string]any{"work": s.Work, "think": len(s.Think)})
	if err != nil {
		return nil, err
	}
	return c.CallTool(context.WithValue(ctx, scheduleKey{}, &s), "work", json.RawMessage(arguments))
}

// dial returns a client whose people answer as the schedules of their calls say.
func (a *arena) dial(who string, era protocol.Era, rush time.Time) *client.Client {
	var mu sync.Mutex
	asked := map[*schedule]int{}
	form := func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
		s := ctx.Value(scheduleKey{}).(*schedule)
		mu.Lock()
		think := s.Think[min(asked[s], len(s.Think)-1)]
		asked[s]++
		mu.Unlock()
		if think == 0 {
			think = time.Until(rush)
		}
		if think < 0 && time.Now().Before(rush) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		select {
		case <-time.After(think):
			return client.Accept(confirmation{Reason: "why not"})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return callAs(a.TB.(*testing.T), pipehttp.URL, a.web.Client(), who,
		client.Options{Era: era, ElicitForm: form, NoBusyRetry: true})
}

// watchVictims makes plain calls until a time, and wants each to be served at once.
func (a *arena) watchVictims(until time.Time) {
	a.Helper()
	clients := map[protocol.Era]*client.Client{}
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		clients[era] = a.dial("zoe", era, until)
	}
	for time.Now().Before(until) {
		for era, c := range clients {
			began := time.Now()
			result, err := c.CallTool(a.Context(), "plain", nil)
			if took := time.Since(began); err != nil || textOf(result.Content) != "plain" ||
				took != 0 {
				a.Fatalf("a plain call of the %s era got %+v, %v after %s", era, result, err, took)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// callAs returns a client of a user.
func callAs(t *testing.T, url string, http1 *http.Client, user string,
	opts client.Options) *client.Client {
	t.Helper()
	peer, err := clienthttp.New(url, &clienthttp.Options{
		HTTPClient: http1, Header: http.Header{userHeader: {user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(peer, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
