package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// startParking serves a gateway for a legacy upstream. Its client answers by hand.
func startParking(t *testing.T, change func(*gateway.Options)) (*upstreamServer, *client.Client) {
	t.Helper()
	u := startUpstream(t)
	opts := before(ops(u.url, protocol.Legacy))
	change(opts)
	return u, byHand(t, startGateway(t, opts), "ops_deploy")
}

// startAskingTwice serves askTwice with limits for a thousand concurrent calls.
func startAskingTwice(t *testing.T) (url string) {
	t.Helper()
	srv := newServer(t, &server.Options{Roundtrip: unlimited()})
	server.AddTool(srv, server.Tool{Name: "work"}, askTwice(func(_, _ string) {}))
	return serveHTTPWith(t, srv, &serverhttp.Options{Limits: manySessions()})
}

func startForTwo(t *testing.T, era protocol.Era, upstream string) (url string) {
	t.Helper()
	_, url = serveGateway(t, &gateway.Options{
		Log:      zaplog.New(zap.NewNop()),
		Server:   server.Options{Roundtrip: unlimited()},
		MaxCalls: -1, MaxCallsPerPrincipal: -1, MaxConnections: 5000,
		Upstreams: []gateway.Upstream{ops(upstream, era)},
	}, &serverhttp.Options{Limits: manySessions(), Authenticate: subjectOf})
	return url
}

// In TestFlowsAreNotCrossed two users make many concurrent calls (a client takes 100 questions).
func TestFlowsAreNotCrossed(t *testing.T) {
	calls := 20
	if testkit.Soak {
		calls = 500
	}
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		url := startForTwo(t, upstreamEra, startAskingTwice(t))
		var wg sync.WaitGroup
		for _, user := range []string{"ann", "bob"} {
			p := &person{answer: func(_ context.Context, message string) *protocol.ElicitResult {
				wantPart(t, user+" was asked", message, " of "+user+"-")
				r, _ := client.Accept(target{message})
				return r
			}}
			c := connectUser(t, url, user, client.Options{
				Era: clientEra, Timeout: time.Minute, ElicitForm: p.fill}, "ops_work")
			slots := make(chan struct{}, 90)
			for i := range calls {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					name := fmt.Sprint(user, "-", i)
					result, err := c.CallTool(t.Context(), "ops_work", job{Name: name})
					if want := strings.ReplaceAll("N: first of N, second of N of first of N", "N",
						name); err != nil || textOf(result) != want {
						t.Errorf("got %q, %v, want %q", textOf(result), err, want)
					}
				})
			}
		}
		wg.Wait()
	})
}

func TestCallsBeyondALimitAreRefusedBeforeTheUpstreamRuns(t *testing.T) {
	for name, limit := range map[string]func(*gateway.Options){
		"calls":       func(o *gateway.Options) { o.MaxCalls = 2 },
		"connections": func(o *gateway.Options) { o.MaxConnections = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			u, c := startParking(t, limit)
			first := begin(t, c)
			begin(t, c)
			wantBusy(t, c)
			u.want(t, 2, 0)
			second, _ := resume(t, c, first, target{"a"})
			resume(t, c, second, confirmation{})
			if !eventually(func() bool {
				_, pending, _ := c.Begin(t.Context(), deployCall)
				return pending != nil
			}) {
				t.Error("the slot is not free again")
			}
		})
	}
}

func TestACallThatTakesTooLongEndsUpstream(t *testing.T) {
	t.Parallel()
	_, c := startParking(t, func(o *gateway.Options) {
		o.WithCallTime(time.Second)
	})
	pending := answered(t, begin(t, c), target{"production"})
	time.Sleep(1200 * time.Millisecond)
	result, next, err := c.Resume(t.Context(), pending)
	if err != nil || next != nil {
		t.Fatalf("got %v, %v", next, err)
	}
	r := result.(*protocol.CallToolResult)
	if !r.IsError || !strings.Contains(textOf(r), "timed out or was cancelled") {
		t.Errorf("got %q", textOf(r))
	}
}

func TestASessionThatEndsWithAQuestionOpenEndsTheCallUpstream(t *testing.T) {
	url := startGateway(t, &gateway.Options{MaxCalls: 1, Upstreams: []gateway.Upstream{
		ops(startUpstream(t).url, protocol.Legacy)}})
	ctx, leave := context.WithCancel(t.Context())
	p, _ := silent(leave)
	c := connect(t, url, protocol.Legacy, p, "ops_deploy")
	_, err := c.CallTool(ctx, "ops_deploy", nil)
	wantIs(t, "the call", err, context.Canceled)
	// The one slot is free again.
	other := connect(t, url, protocol.Legacy, &person{})
	if !eventually(func() bool { return callText(t, other, "ops_deploy") == deployed }) {
		t.Error("the call of the session that ended keeps its place")
	}
}

func TestShutdownWaitsForCallsOfModernUpstreams(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	g, url := serveGateway(t, before(ops(serveTool(t, "work", func(
		context.Context, *server.ToolCall) (outcome, error) {
		close(begun)
		time.Sleep(500 * time.Millisecond)
		return server.Text("done"), nil
	}), 0)), nil)
	c := connect(t, url, 0, &person{}, "ops_work")
	down := make(chan error, 1)
	go func() {
		<-begun
		down <- g.Shutdown(context.Background())
	}()
	wantText(t, c, "ops_work", "done")
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A cancelled call's connection is not reused: its questions may still come.
func TestACallThatIsGivenUpLeavesItsConnectionToNobody(t *testing.T) {
	begun := make(chan struct{}, 1)
	upstream := startRaw(t, func(c *rawCall) {
		if c.calls.Load() == 1 {
			begun <- struct{}{}
			c.takeAnswer() // no answer comes: the client leaves
		}
	})
	var opened atomic.Int64
	c := connect(t, front(t, counting(upstream, protocol.Legacy, &opened)), 0, &person{}, "ops_x")
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	if _, err := c.CallTool(ctx, "ops_x", nil); err == nil {
		t.Fatal("the call was not given up")
	}
	time.Sleep(200 * time.Millisecond) // long enough to return the connection
	wantText(t, c, "ops_x", "done")
	wantEqual(t, "connections for the lists and two calls", opened.Load(), int64(3))
}
