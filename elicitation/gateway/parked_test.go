package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
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
	opts := &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: protocol.Legacy},
	}}
	if change != nil {
		change(opts)
	}
	c := byHand(t, startGateway(t, opts))
	awaitTool(t, c, "ops_deploy")
	return u, c
}

// byHand returns a modern client whose caller answers the questions.
func byHand(t *testing.T, url string) *client.Client {
	t.Helper()
	return connectUser(t, url, "", client.Options{Manual: &asksForms, NoBusyRetry: true})
}

func begin(t *testing.T, c *client.Client) *client.Pending {
	t.Helper()
	_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
	if err != nil || pending == nil {
		t.Fatalf("got %v, %v, want questions", pending, err)
	}
	return pending
}

// answered returns a copy of a pending call with the answer to its one question.
func answered(t *testing.T, p *client.Pending, content any) *client.Pending {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var clone client.Pending
	if err := json.Unmarshal(data, &clone); err != nil {
		t.Fatal(err)
	}
	accept, err := client.Accept(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := clone.Answer(clone.Questions()[0].Key, accept); err != nil {
		t.Fatal(err)
	}
	return &clone
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
	if u.calls.Load() != flows || u.commits.Load() != flows {
		t.Errorf("called %d times, %d effects", u.calls.Load(), u.commits.Load())
	}
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
			_, _, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
			if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeBusy {
				t.Errorf("got %v", err)
			}
			if n := u.calls.Load(); n != 2 {
				t.Errorf("the upstream was called %d times", n)
			}
			_, second, err := c.Resume(t.Context(), answered(t, first, target{"a"}))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err = c.Resume(t.Context(), answered(t, second, confirmation{})); err != nil {
				t.Fatal(err)
			}
			begin(t, c) // there is room again
		})
	}
}

func TestACallThatTakesTooLongEndsUpstream(t *testing.T) {
	t.Parallel()
	_, c := startParking(t, func(o *gateway.Options) {
		o.WithCallTime(200 * time.Millisecond)
	})
	pending := answered(t, begin(t, c), target{"production"})
	time.Sleep(400 * time.Millisecond)
	result, next, err := c.Resume(t.Context(), pending)
	if err != nil || next != nil {
		t.Fatalf("got %v, %v", next, err)
	}
	r := result.(*protocol.CallToolResult)
	if !r.IsError || !strings.Contains(textOf(r), "not waited for any longer") {
		t.Errorf("got %q", textOf(r))
	}
}

// startSlow serves an upstream whose tool asks and tells when its call has ended.
func startSlow(t *testing.T) (url string, begun, ended chan struct{}) {
	t.Helper()
	begun, ended = make(chan struct{}, 10), make(chan struct{}, 10)
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "wait"},
		func(
			ctx context.Context, _ *server.ToolCall, _ struct{},
		) (protocol.CallToolOutcome, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		})
	return serveHTTP(t, srv), begun, ended
}

func TestAClientThatLeavesEndsTheCallUpstream(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream, begun, ended := startSlow(t)
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "slow", Connect: gateway.HTTP(upstream, nil), Era: upstreamEra},
		}})
		c := connect(t, url, clientEra, &person{})
		awaitTool(t, c, "slow_wait")
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-begun
			leave()
		}()
		if _, err := c.CallTool(ctx, "slow_wait", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Fatal("the call goes on upstream")
		}
	})
}

func TestASessionThatEndsWithAQuestionOpenEndsTheCallUpstream(t *testing.T) {
	u := startUpstream(t)
	url := startGateway(t, &gateway.Options{
		MaxCalls: 1,
		Upstreams: []gateway.Upstream{
			{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: protocol.Legacy},
		}})
	ctx, leave := context.WithCancel(t.Context())
	asked := make(chan struct{})
	silent := &person{answer: func(string) *protocol.ElicitResult {
		close(asked)
		<-ctx.Done()
		return client.Cancel()
	}}
	c := connect(t, url, protocol.Legacy, silent)
	awaitTool(t, c, "ops_deploy")
	go func() {
		<-asked
		leave()
	}()
	if _, err := c.CallTool(ctx, "ops_deploy", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The one place is free again.
	other := connect(t, url, protocol.Legacy, &person{})
	for range 500 {
		result, err := other.CallTool(t.Context(), "ops_deploy", nil)
		if err == nil && textOf(result) == "deployed to production: true" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the call of the session that ended keeps its place")
}

func TestShutdownWaitsForCallsOfModernUpstreams(t *testing.T) {
	t.Parallel()
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "work"}, func(
		context.Context, *server.ToolCall, struct{},
	) (protocol.CallToolOutcome, error) {
		close(begun)
		time.Sleep(500 * time.Millisecond)
		return server.Text("done"), nil
	})
	g, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil)},
	}}, nil)
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "ops_work")
	down := make(chan error, 1)
	go func() {
		<-begun
		down <- g.Shutdown(context.Background())
	}()
	result, err := c.CallTool(t.Context(), "ops_work", nil)
	if err != nil || textOf(result) != "done" {
		t.Errorf("got %q, %v", textOf(result), err)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestShutdownWaitsForCallsWhosePeopleAnswer(t *testing.T) {
	u := startUpstream(t)
	g, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: protocol.Legacy},
	}}, nil)
	c := byHand(t, url)
	awaitTool(t, c, "ops_deploy")
	_, second, err := c.Resume(t.Context(), answered(t, begin(t, c), target{"production"}))
	if err != nil {
		t.Fatal(err)
	}
	down := make(chan error, 1)
	go func() { down <- g.Shutdown(context.Background()) }()
	for range 500 { // until no call begins
		_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
		if said, ok := protocol.AsError(err); ok && said.Code == protocol.CodeBusy {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		again := answered(t, pending, target{"staging"})
		if _, next, err := c.Resume(t.Context(), again); err == nil {
			_, _, _ = c.Resume(t.Context(), answered(t, next, confirmation{}))
		}
	}
	result, _, err := c.Resume(t.Context(), answered(t, second, confirmation{true}))
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(result.(*protocol.CallToolResult)); got != "deployed to production: true" {
		t.Errorf("got %q", got)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// A connection whose call was given up may still bring questions of that call.
func TestACallThatIsGivenUpLeavesItsConnectionToNobody(t *testing.T) {
	begun := make(chan struct{}, 1)
	u := &rawUpstream{answers: make(chan string, 1)}
	u.call = func(id json.RawMessage, event func(string), answers <-chan string) {
		if u.calls.Load() > 1 {
			event(fmt.Sprintf(rawDone, id))
			return
		}
		begun <- struct{}{}
		<-answers // none comes: the client leaves
	}
	listener := httptest.NewServer(u)
	t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
	var opened atomic.Int64
	dial := gateway.HTTP(listener.URL, nil)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops", Era: protocol.Legacy,
		Connect: func(ctx context.Context, c gateway.Credential) (protocol.Peer, error) {
			opened.Add(1)
			return dial(ctx, c)
		}}}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "ops_x")
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-begun; leave() }()
	if _, err := c.CallTool(ctx, "ops_x", nil); err == nil {
		t.Fatal("the call was not given up")
	}
	time.Sleep(200 * time.Millisecond) // the connection would be back
	if _, err := c.CallTool(t.Context(), "ops_x", nil); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 3 {
		t.Errorf("%d connections were opened, want one for the lists and two for calls", n)
	}
}
