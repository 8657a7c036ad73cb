package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// startParking serves a gateway before a legacy upstream and returns a client that answers by hand.
func startParking(t *testing.T, change func(*gateway.Options)) (*upstreamServer, *client.Client) {
	t.Helper()
	u := startUpstream(t)
	opts := before(ops(u.url, protocol.Legacy))
	change(opts)
	return u, byHand(t, startGateway(t, opts), "ops_deploy")
}

func TestFlowsAreNotCrossed(t *testing.T) {
	const flows = 40
	u, c := startParking(t, func(o *gateway.Options) {
		o.MaxCallsPerPrincipal = -1
		o.MaxConnections = flows
	})
	var wg sync.WaitGroup
	for i := range flows {
		wg.Go(func() {
			name := fmt.Sprint("cluster-", i)
			_, second, err := c.Resume(t.Context(), answered(t, begin(t, c), target{name}))
			if err != nil {
				t.Error(err)
				return
			}
			asked := second.Questions()[0].Request.(*protocol.ElicitForm).Message
			result, _, err := c.Resume(t.Context(), answered(t, second, confirmation{i%2 == 0}))
			if err != nil {
				t.Error(err)
				return
			}
			want := fmt.Sprintf("deployed to %s: %v", name, i%2 == 0)
			if got := textOf(result.(*protocol.CallToolResult)); got != want ||
				asked != "Deploy to "+name+"?" {
				t.Errorf("asked %q, got %q, want %q", asked, got, want)
			}
		})
	}
	wg.Wait()
	u.want(t, flows, flows)
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
			begin(t, c) // there is room again
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
	if !r.IsError || !strings.Contains(textOf(r), "not waited for any longer") {
		t.Errorf("got %q", textOf(r))
	}
}

func TestASessionThatEndsWithAQuestionOpenEndsTheCallUpstream(t *testing.T) {
	url := startGateway(t, &gateway.Options{MaxCalls: 1, Upstreams: []gateway.Upstream{
		ops(startUpstream(t).url, protocol.Legacy)}})
	ctx, leave := context.WithCancel(t.Context())
	p, _ := silent(leave)
	c := connect(t, url, protocol.Legacy, p, "ops_deploy")
	if _, err := c.CallTool(ctx, "ops_deploy", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The one place is free again.
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

func TestShutdownWaitsForCallsWhosePeopleAnswer(t *testing.T) {
	g, url := serveGateway(t, before(ops(startUpstream(t).url, protocol.Legacy)), nil)
	c := byHand(t, url, "ops_deploy")
	second, _ := resume(t, c, begin(t, c), target{"production"})
	down := make(chan error, 1)
	go func() { down <- g.Shutdown(context.Background()) }()
	eventually(func() bool { // no call begins
		_, pending, err := c.Begin(t.Context(), deployCall)
		if said, ok := protocol.AsError(err); ok && said.Code == protocol.CodeBusy {
			return true
		}
		noError(t, err)
		again := answered(t, pending, target{"staging"})
		if _, next, err := c.Resume(t.Context(), again); err == nil {
			_, _, _ = c.Resume(t.Context(), answered(t, next, confirmation{}))
		}
		return false
	})
	if _, got := resume(t, c, second, confirmation{true}); got != deployed {
		t.Errorf("got %q", got)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A connection whose call was given up may still bring questions of that call.
func TestACallThatIsGivenUpLeavesItsConnectionToNobody(t *testing.T) {
	begun := make(chan struct{}, 1)
	upstream := startRaw(t, func(c *rawCall) {
		if c.calls.Load() == 1 {
			begun <- struct{}{}
			c.takeAnswer() // none comes: the client leaves
		}
	})
	var opened atomic.Int64
	c := connect(t, front(t, counting(upstream, protocol.Legacy, &opened)), 0, &person{}, "ops_x")
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	if _, err := c.CallTool(ctx, "ops_x", nil); err == nil {
		t.Fatal("the call was not given up")
	}
	time.Sleep(200 * time.Millisecond) // the connection would be back
	wantText(t, c, "ops_x", "done")
	if n := opened.Load(); n != 3 {
		t.Errorf("%d connections were opened, want one for the lists and two for calls", n)
	}
}
