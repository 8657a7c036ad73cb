package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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

func TestGatewaysInARow(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		for _, between := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			t.Run("over "+between.String(), func(t *testing.T) {
				u := startUpstream(t)
				inner := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
					{Name: "ops", Connect: gateway.HTTP(u.url, nil), Era: upstreamEra},
				}})
				awaitTool(t, connect(t, inner, 0, &person{}), "ops_deploy")
				outer := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
					{Name: "inner", Connect: gateway.HTTP(inner, nil), Era: between},
				}})
				p := &person{}
				c := connect(t, outer, clientEra, p)
				awaitTool(t, c, "inner_ops_deploy")
				result, err := c.CallTool(t.Context(), "inner_ops_deploy", nil)
				if err != nil || textOf(result) != "deployed to production: true" {
					t.Errorf("got %q, %v", textOf(result), err)
				}
				if len(p.shown) != 2 || u.commits.Load() != 1 {
					t.Errorf("shown %q, %d effects", p.shown, u.commits.Load())
				}
			})
		}
	})
}

func TestAnUpstreamThatOffersTooMuchIsCut(t *testing.T) {
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		server.AddTool(srv, server.Tool{Name: fmt.Sprint("tool-", i)}, func(
			context.Context, *server.ToolCall, struct{},
		) (protocol.CallToolOutcome, error) {
			return server.Text(), nil
		})
	}
	url := startGateway(t, &gateway.Options{
		Limits: gateway.Limits{Entries: 10},
		Upstreams: []gateway.Upstream{
			{Name: "big", Connect: gateway.HTTP(serveHTTP(t, srv), nil)},
		}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "big_tool-9")
	n := 0
	for range c.Tools(t.Context()) {
		n++
	}
	if n != 10 {
		t.Errorf("%d tools are published", n)
	}
}

func TestAnUpstreamThatFailsHoldsUpNoOther(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(broken.Close)
	u := startUpstream(t)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "broken", Connect: gateway.HTTP(broken.URL, nil)},
		{Name: "ops", Connect: gateway.HTTP(u.url, nil)},
	}})
	awaitTool(t, connect(t, url, 0, &person{}), "ops_deploy")
}

func TestAnUpstreamThatDiesInMidQuestionEndsTheCall(t *testing.T) {
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: thisProgram(t, "legacy, and dies"), Era: protocol.Legacy},
	}})
	c := byHand(t, url)
	awaitTool(t, c, "ops_deploy")
	pending := begin(t, c)
	time.Sleep(time.Second) // it dies
	result, next, err := c.Resume(t.Context(), answered(t, pending, target{"production"}))
	if err != nil || next != nil {
		t.Fatalf("got %v, %v", next, err)
	}
	if r := result.(*protocol.CallToolResult); !r.IsError ||
		!strings.Contains(textOf(r), "The upstream server ops did not answer. What the tool did is not known") {
		t.Errorf("got %q", textOf(r))
	}
	begin(t, c) // on a new process
}

func TestAStateThatIsTooLongEndsTheCall(t *testing.T) {
	long := strings.Repeat("x", 60<<10)
	srv, err := server.New(&server.Options{
		Roundtrip: roundtrip.Options{Limits: roundtrip.Limits{StateBytes: 64 << 10}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "deploy"}, func(
		ctx context.Context, _ *server.ToolCall, _ struct{},
	) (protocol.CallToolOutcome, error) {
		return roundtrip.InputRequired(
			roundtrip.Elicit[target]("where", "Deploy where?"),
			roundtrip.WithState(long[:40<<10]),
		), nil
	})
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(handler)
	t.Cleanup(listener.Close)
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(listener.URL, nil)},
	}})
	c := byHand(t, url)
	awaitTool(t, c, "ops_deploy")
	_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
	if pending != nil || err == nil {
		t.Errorf("got %v, %v", pending, err)
	}
}

func TestAnUpstreamThatDiesWithdrawsTheQuestionOfASession(t *testing.T) {
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: thisProgram(t, "legacy, and dies"), Era: protocol.Legacy},
	}})
	withdrawn := make(chan struct{})
	transport, err := clienthttp.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &client.Options{Era: protocol.Legacy,
		Cache: &client.CacheOptions{Disabled: true},
		ElicitForm: func(
			ctx context.Context, _ *client.FormQuestion,
		) (*protocol.ElicitResult, error) {
			<-ctx.Done() // nobody answers
			close(withdrawn)
			return nil, ctx.Err()
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	awaitTool(t, c, "ops_deploy")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	result, err := c.CallTool(ctx, "ops_deploy", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !result.IsError || !strings.Contains(textOf(result), "What the tool did is not known") {
		t.Errorf("got %q", textOf(result))
	}
	select {
	case <-withdrawn:
	case <-time.After(5 * time.Second):
		t.Error("the question is still asked")
	}
}
