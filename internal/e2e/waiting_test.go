package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
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

// thinkers is how many people think at once: as many as requests may run by default, and eight
// times as many as those of one principal.
const thinkers = 256

// workLimit is the time for work. People take longer.
const workLimit = time.Minute

// TestPeopleWhoThinkAreInNobodysWay has as many clients of an older revision wait for a person as
// requests may run, with all recommended middleware. Others call on in both eras, and each gets the
// result.
func TestPeopleWhoThinkAreInNobodysWay(t *testing.T) {
	for name, who := range map[string]func(r *http.Request) (protocol.Principal, error){
		"each authenticated": authenticate, "all anonymous": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { thinkSideBySide(t, who) })
		})
	}
}

// thinkSideBySide has people think for twice as long as work may take, in fake time.
func thinkSideBySide(t *testing.T, who func(*http.Request) (protocol.Principal, error)) {
	observer, chain, err := middleware.Production(zaplog.New(zap.NewNop()),
		prom.New(prometheus.NewRegistry()), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := mustServe(t, &server.Options{Observer: observer, Middleware: chain})
	addFlowTool(srv)
	web := pipehttp.Serve(t, servertest.NewHandler(t, srv, &serverhttp.Options{Authenticate: who}))
	answer, asked := make(chan struct{}), make(chan struct{}, thinkers)
	var thinking sync.WaitGroup
	before := allocated()
	for i := range thinkers {
		c := callAs(t, pipehttp.URL, web.Client(), fmt.Sprint("user", i),
			client.Options{Era: protocol.Legacy,
				ElicitForm: func(ctx context.Context,
					_ *client.FormQuestion) (*protocol.ElicitResult, error) {
					asked <- struct{}{}
					select {
					case <-answer:
					case <-ctx.Done():
					}
					return &protocol.ElicitResult{Action: protocol.ActionAccept,
						Content: fmt.Appendf(nil, `{"reason":"reason %d"}`, i)}, nil
				}})
		thinking.Go(func() {
			tool := []string{"deploy", "ask in place"}[i%2]
			result, err := c.CallTool(t.Context(), tool, map[string]string{"env": "prod"})
			want := fmt.Sprintf("deployed to prod: reason %d", i)
			if err != nil || textOf(result.Content) != want ||
				c.Negotiated() != protocol.V20251125 {
				t.Errorf("client %d got %+v, %v, want %s", i, result, err, want)
			}
		})
	}
	for range thinkers {
		<-asked
	}
	t.Logf("%d bytes for each of %d calls that wait, with its session, connection and "+
		"client", (allocated()-before)/thinkers, thinkers)
	time.Sleep(2 * workLimit)
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		c := callAs(t, pipehttp.URL, web.Client(), "other", client.Options{Era: era})
		for range 20 {
			result, err := c.CallTool(within(t, patience), "plain", nil)
			if err != nil || textOf(result.Content) != "plain" {
				t.Fatalf("a plain call of the %s era got %+v, %v", era, result, err)
			}
		}
	}
	close(answer)
	thinking.Wait()
}

// TestSlotsComeBackHoweverAWaitEnds, with a middleware that lets one call run and a server that
// lets one wait: the handler panics while a person is asked, the answer comes after the end, the
// session is deleted in mid-question, or the call is cancelled.
func TestSlotsComeBackHoweverAWaitEnds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := middleware.NewMetrics(prom.New(registry), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := mustServe(t, &server.Options{
		Observer: metrics, Roundtrip: roundtrip.Options{Limits: roundtrip.Limits{Waiting: 1}},
		Middleware: []server.Middleware{
			metrics.Wrap, middleware.Recover(metrics),
			middleware.Limit(&middleware.LimitOptions{Calls: 1}), middleware.Timeout(patience),
		},
	})
	ended := make(chan struct{}, 1)
	server.AddRawTool(srv, server.Tool{Name: "t"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			defer func() { ended <- struct{}{} }()
			if string(call.Arguments) != `{"panics":true}` {
				_, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
				return server.Text("asked"), err
			}
			asked := make(chan struct{})
			go func() {
				ctx := roundtrip.WatchWaiting(ctx, func(waiting bool) {
					if waiting {
						close(asked)
					}
				})
				_, _ = roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
			}()
			<-asked
			panic("while a person is asked")
		})
	for over, open := range rawTransports {
		for _, revision := range []string{"2025-06-18", "2025-11-25"} {
			for _, how := range []string{"panic", "cancel", "delete", "answer"} {
				if how == "delete" && over == "lines" {
					continue // its sessions end with the stream
				}
				t.Run(fmt.Sprint(over, "/", revision, "/", how), func(t *testing.T) {
					c := open(t, srv, revision)
					c.endWait(how)
					<-ended
					for range 3 { // a late answer is nobody's, and takes nothing
						c.say(`{"jsonrpc":"2.0","id":"server-1","result":{"action":"accept","content":{"reason":"late"}}}`)
					}
					c.settle()
					wantGauges(t, registry, "rondo_requests_in_flight", "rondo_requests_waiting")
				})
			}
		}
	}
	url := listen(t, servertest.NewHandler(t, srv, nil))
	for range 3 { // the one slot and the one place are free
		c := callAs(t, url, &http.Client{Transport: transport(t)}, "other",
			client.Options{Era: protocol.Legacy, ElicitForm: accepting})
		result, err := c.CallTool(within(t, patience), "t", nil)
		if err != nil || textOf(result.Content) != "asked" {
			t.Errorf("got %+v, %v", result, err)
		}
		<-ended
		wantGauges(t, registry, "rondo_requests_in_flight", "rondo_requests_waiting")
	}
}

func accepting(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
	return client.Accept(confirmation{Reason: "why not"})
}

// endWait makes a call that waits for a person, and ends it.
func (c *rawClient) endWait(how string) {
	c.Helper()
	arguments := map[bool]string{true: `{"panics":true}`, false: `{}`}[how == "panic"]
	c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":` + arguments + `}}`)
	if how != "panic" { // where the question may be withdrawn before it is out
		question := c.next()
		if question.Method != protocol.MethodElicit {
			c.Fatalf("got %s, want a question", question.raw)
		}
		switch how {
		case "cancel":
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			return
		case "delete":
			c.deleteSession()
			return
		}
		c.say(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept","content":{"reason":"why not"}}}`)
	}
	for m := c.next(); string(m.ID) != "7"; m = c.next() {
	}
}

// wantGauges checks that gauges are zero, which they may be a moment after the last response.
func wantGauges(t *testing.T, registry *prometheus.Registry, names ...string) {
	t.Helper()
	for _, name := range names {
		value := 1.0
		for until := time.Now().Add(patience); value != 0 &&
			time.Now().Before(until); runtime.Gosched() {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			value = 0
			for _, f := range families {
				if f.GetName() == name {
					for _, m := range f.GetMetric() {
						value += m.GetGauge().GetValue()
					}
				}
			}
		}
		if value != 0 {
			t.Errorf("%s is %v", name, value)
		}
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

// addFlowTool adds the tool that asks in place what deploy asks by returning.
func addFlowTool(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "ask in place"},
		func(ctx context.Context, _ *server.ToolCall,
			in servertest.DeployInput) (protocol.CallToolOutcome, error) {
			answer, err := roundtrip.Ask[confirmation](ctx, "confirm", "Deploy to "+in.Env+"?")
			if err != nil {
				return nil, err
			}
			return server.Text("deployed to " + in.Env + ": " + answer.Reason), nil
		})
}

// allocated is the memory in use, of objects and stacks.
func allocated() int64 {
	runtime.GC()
	runtime.GC() // twice, for what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
