package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"go.uber.org/zap"
)

// thinkers is how many people think at once: as many as requests may run by default, and eight times as many as those of one
// principal.
const thinkers = middleware.DefaultMaxCalls

// workLimit is the time for work. People take longer.
const workLimit = 500 * time.Millisecond

// TestPeopleWhoThinkAreInNobodysWay has as many clients of an older revision wait for a person as requests may run, with all
// recommended middleware. Others call on in both eras, and each gets the result.
func TestPeopleWhoThinkAreInNobodysWay(t *testing.T) {
	for name, who := range map[string]func(r *http.Request) (roundtrip.Principal, error){
		"each authenticated": authenticate, "all anonymous": nil,
	} {
		t.Run(name, func(t *testing.T) {
			metrics, err := middleware.NewMetrics(prometheus.NewRegistry(), nil)
			if err != nil {
				t.Fatal(err)
			}
			log := middleware.NewLog(zap.NewNop(), nil)
			observer := roundtrip.Observers(log, metrics)
			srv, _ := mustServe(t, &server.Options{Observer: observer, Middleware: []server.Middleware{
				log.Wrap, metrics.Wrap, middleware.Recover(observer), middleware.Payload(nil), middleware.Limit(nil), middleware.Timeout(workLimit),
			}})
			addFlowTool(srv)
			url := listen(t, serverhttp.New(srv, &serverhttp.Options{Authenticate: who}))
			answer, asked := make(chan struct{}), make(chan struct{}, thinkers)
			var thinking sync.WaitGroup
			before := allocated()
			for i := range thinkers {
				c := callAs(t, url, fmt.Sprint("user", i),
					client.Options{Era: protocol.Legacy, ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
						asked <- struct{}{}
						select {
						case <-answer:
						case <-ctx.Done():
						}
						return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: fmt.Appendf(nil, `{"reason":"reason %d"}`, i)}, nil
					}})
				thinking.Go(func() {
					tool := []string{"deploy", "ask in place"}[i%2]
					result, err := c.CallTool(within(t, patience), tool, map[string]string{"env": "prod"})
					want := fmt.Sprintf("deployed to prod: reason %d", i)
					if err != nil || textOf(result.Content) != want || c.Negotiated() != protocol.V20251125 {
						t.Errorf("client %d got %+v, %v, want %s", i, result, err, want)
					}
				})
			}
			for range thinkers {
				<-asked
			}
			t.Logf("%d bytes for each of %d calls that wait, with its session, connection and client", (allocated()-before)/thinkers, thinkers)
			time.Sleep(2 * workLimit)
			for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
				c := callAs(t, url, "other", client.Options{Era: era})
				for range 20 {
					result, err := c.CallTool(within(t, patience), "plain", nil)
					if err != nil || textOf(result.Content) != "plain" {
						t.Fatalf("a plain call of the %s era got %+v, %v", era, result, err)
					}
				}
			}
			close(answer)
			thinking.Wait()
		})
	}
}

// callAs returns a client of a user, with connections of its own.
func callAs(t *testing.T, url, user string, opts client.Options) *client.Client {
	t.Helper()
	peer, err := clienthttp.New(url, &clienthttp.Options{
		HTTPClient: &http.Client{Transport: transport(t)}, Header: http.Header{userHeader: {user}},
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
	server.AddTool(srv, server.Tool{Name: "ask in place"}, func(ctx context.Context, _ *server.ToolCall, in deployInput) (protocol.CallToolOutcome, error) {
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
