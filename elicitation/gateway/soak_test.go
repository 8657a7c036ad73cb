//go:build soak

package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A named is the argument of a tool that tells calls apart.
type named struct {
	Name string `json:"name"`
}

// echoNamed asks the caller for a word, and again with it.
func echoNamed(
	ctx context.Context, _ *server.ToolCall, in named,
) (protocol.CallToolOutcome, error) {
	first, err := roundtrip.Ask[target](ctx, "first", "first of "+in.Name)
	if err != nil {
		return nil, err
	}
	second, err := roundtrip.Ask[target](ctx, "second", "second of "+in.Name+", "+first.Name)
	if err != nil {
		return nil, err
	}
	return server.Text(in.Name + " " + first.Name + " " + second.Name), nil
}

// startNamed serves echoNamed without limits that a thousand calls at once would reach.
func startNamed(t *testing.T) (url string) {
	t.Helper()
	srv, err := server.New(&server.Options{Roundtrip: unlimited()})
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "echo"}, echoNamed)
	handler, err := serverhttp.New(srv, &serverhttp.Options{Limits: manySessions()})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
	})
	return listener.URL
}

func startForTwo(t *testing.T, era protocol.Era, upstream string) (url string) {
	t.Helper()
	g, err := gateway.New(&gateway.Options{
		Server:    server.Options{Roundtrip: unlimited()},
		Limits:    gateway.Limits{Calls: -1, CallsPerPrincipal: -1, Connections: 5000},
		Upstreams: []gateway.Upstream{{Name: "up", Connect: gateway.HTTP(upstream, nil), Era: era}},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := g.Handler(&serverhttp.Options{
		Limits: manySessions(), Authenticate: subjectOf,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(func() { stopGateway(t, g, listener) })
	return listener.URL
}

// TestManyCallsOfTwoUsers: two users with 500 calls each, 90 of them at once, in every pairing. A
// client of this module takes 100 pushed questions at once.
func TestManyCallsOfTwoUsers(t *testing.T) {
	const calls = 500
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		url := startForTwo(t, upstreamEra, startNamed(t))
		var wg sync.WaitGroup
		began := time.Now()
		for _, user := range []string{"ann", "bob"} {
			c := clientOf(t, url, clientEra, user)
			awaitTool(t, c, "up_echo")
			slots := make(chan struct{}, 90)
			for i := range calls {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					name := fmt.Sprint(user, "-", i)
					result, err := c.CallTool(t.Context(), "up_echo", named{name})
					if want := strings.Join([]string{name, user, user}, " "); err != nil ||
						textOf(result) != want {
						t.Errorf("got %q, %v, want %q", textOf(result), err, want)
					}
				})
			}
		}
		wg.Wait()
		t.Logf("%d calls with two questions each in %v", 2*calls, time.Since(began))
	})
}

// clientOf returns the client of a user, who answers every question with his name, and fails the
// test where one is somebody else's.
func clientOf(t *testing.T, url string, era protocol.Era, user string) *client.Client {
	t.Helper()
	transport, err := clienthttp.New(url, &clienthttp.Options{
		Header: http.Header{"Authorization": {user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &client.Options{
		Era: era, Timeout: time.Minute, Cache: &client.CacheOptions{Disabled: true},
		ElicitForm: func(
			_ context.Context, q *client.FormQuestion,
		) (*protocol.ElicitResult, error) {
			if !strings.Contains(q.Message, " of "+user+"-") {
				t.Errorf("%s was asked %q", user, q.Message)
			}
			return client.Accept(target{user})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestMemoryOfParkedCalls compares what a parked call holds with an open call of the same client
// without a gateway.
func TestMemoryOfParkedCalls(t *testing.T) {
	const calls = 2000
	upstream := startNamed(t)
	url := startForTwo(t, protocol.Legacy, upstream)
	c := byHand(t, url)
	awaitTool(t, c, "up_echo")
	before := heap()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{
				Name: "up_echo", Arguments: fmt.Appendf(nil, `{"name":"n-%d"}`, i),
			})
			if err != nil || pending == nil {
				t.Error(pending, err)
			}
		})
	}
	wg.Wait()
	if err := c.Close(); err != nil { // and its connections; the calls stay parked
		t.Error(err)
	}
	time.Sleep(time.Second) // the gateway closes its ends
	parked := (heap() - before) / calls
	floor := heapOfOpenCalls(t, upstream, calls)
	t.Logf("heap of %d calls in bytes each: %d parked, upstream and its server included; "+
		"%d open without a gateway", calls, parked, floor)
}

func heapOfOpenCalls(t *testing.T, upstream string, calls int) int {
	t.Helper()
	before := heap()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asked, wg sync.WaitGroup
	for i := range calls {
		transport, err := clienthttp.New(upstream, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked.Add(1)
		c, err := client.New(transport, &client.Options{Era: protocol.Legacy,
			ElicitForm: func(
				ctx context.Context, _ *client.FormQuestion,
			) (*protocol.ElicitResult, error) {
				asked.Done()
				<-ctx.Done()
				return client.Cancel(), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			_, _ = c.CallTool(ctx, "echo", named{fmt.Sprint("n-", i)})
			_ = c.Close()
		})
	}
	asked.Wait()
	each := (heap() - before) / calls
	stop()
	wg.Wait()
	return each
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
