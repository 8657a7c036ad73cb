package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
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

func addEmptyTool(srv *server.Server, name string) {
	server.AddTool(srv, server.Tool{Name: name}, func(
		context.Context, *server.ToolCall, struct{},
	) (protocol.CallToolOutcome, error) {
		return server.Text("done"), nil
	})
}

// countLists counts the readings of the tools of a server.
func countLists(n *atomic.Int64) *server.Options {
	return &server.Options{Middleware: []server.Middleware{func(
		next server.Handler) server.Handler {
		return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
			if p, ok := req.Params.(*protocol.ListParams); ok && p.Cursor == "" &&
				req.Message.Method == protocol.MethodListTools {
				n.Add(1)
			}
			return next(ctx, req)
		}
	}}}
}

func TestAnUpstreamThatOffersTooMuchIsCut(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	srv := newServer(t, countLists(&lists))
	for i := range 10_000 {
		addEmptyTool(srv, fmt.Sprint("tool-", i))
	}
	core, logs := observer.New(zap.WarnLevel)
	url := startGateway(t, &gateway.Options{Log: zaplog.New(zap.New(core)),
		Upstreams: []gateway.Upstream{
			{Name: "big", Connect: gateway.HTTP(serveHTTP(t, srv), nil)},
		}})
	c := connect(t, url, 0, &person{})
	awaitTool(t, c, "big_tool-999")
	for range 1000 { // it is read again
		if lists.Load() > 1 {
			break
		}
		addEmptyTool(srv, "x")
		srv.RemoveTool("x")
		time.Sleep(10 * time.Millisecond)
	}
	n := 0
	for range c.Tools(t.Context()) {
		n++
	}
	if n != 1000 {
		t.Errorf("%d tools are published", n)
	}
	if said := logs.FilterMessage("gateway.left_out").Len(); said != 1 || lists.Load() < 2 {
		t.Errorf("said %d times in %d readings", said, lists.Load())
	}
}

func TestAnUpstreamThatRenamesItsToolsIsReadOnceASecond(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			var lists atomic.Int64
			srv := newServer(t, countLists(&lists))
			addEmptyTool(srv, "0")
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: era},
			}})
			c := connect(t, url, 0, &person{})
			awaitTool(t, c, "ops_0")
			const renames = 300
			began := time.Now()
			for i := range renames {
				addEmptyTool(srv, fmt.Sprint(i+1))
				srv.RemoveTool(fmt.Sprint(i))
				time.Sleep(10 * time.Millisecond)
			}
			awaitTool(t, c, fmt.Sprint("ops_", renames))
			took := time.Since(began)
			if n := lists.Load(); n < 2 || n > int64(took/time.Second)+4 {
				t.Errorf("the lists were read %d times in %v", n, took)
			}
			if got := toolNames(t, c); got != fmt.Sprint("ops_", renames) {
				t.Errorf("listed %q", got)
			}
		})
	}
}

func TestAnUpstreamThatNeverAnswersHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{0, protocol.Modern, protocol.Legacy} {
		asked := make(chan struct{}, 100)
		silent := httptest.NewServer(http.HandlerFunc(func(
			_ http.ResponseWriter, r *http.Request,
		) {
			_, _ = io.Copy(io.Discard, r.Body)
			asked <- struct{}{}
			<-r.Context().Done()
		}))
		t.Cleanup(silent.Close)
		u := startUpstream(t)
		g, url := serveGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
			{Name: "silent", Connect: gateway.HTTP(silent.URL, nil), Era: era},
			{Name: "ops", Connect: gateway.HTTP(u.url, nil)},
		}}, nil)
		<-asked
		c := connect(t, url, 0, &person{})
		awaitTool(t, c, "ops_deploy")
		if _, err := c.CallTool(t.Context(), "silent_x", nil); err == nil ||
			!strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("got %v", err)
		}
		began := time.Now()
		if err := g.Close(); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("closing took %v: %v", time.Since(began), err)
		}
	}
}

func TestAnUpstreamThatRestartsWithOtherToolsIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			var current atomic.Pointer[serverhttp.Handler]
			start := func(tool string) {
				srv := newServer(t, nil)
				addEmptyTool(srv, tool)
				handler, err := serverhttp.New(srv, nil)
				if err != nil {
					t.Fatal(err)
				}
				current.Store(handler)
			}
			start("old")
			listener := httptest.NewServer(http.HandlerFunc(func(
				w http.ResponseWriter, r *http.Request,
			) {
				current.Load().ServeHTTP(w, r)
			}))
			t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
				{Name: "ops", Connect: gateway.HTTP(listener.URL, nil), Era: era},
			}})
			c := connect(t, url, 0, &person{})
			awaitTool(t, c, "ops_old")
			if _, err := c.CallTool(t.Context(), "ops_old", nil); err != nil {
				t.Fatal(err)
			}
			start("new")
			listener.CloseClientConnections()
			awaitTool(t, c, "ops_new")
			if got := toolNames(t, c); got != "ops_new" {
				t.Errorf("listed %q", got)
			}
			result, err := c.CallTool(t.Context(), "ops_new", nil)
			if err != nil || textOf(result) != "done" {
				t.Errorf("got %q, %v", textOf(result), err)
			}
		})
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
	t.Parallel()
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
	t.Parallel()
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: thisProgram(t, "legacy, and dies"), Era: protocol.Legacy},
	}})
	withdrawn := make(chan struct{})
	transport, err := clienthttp.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &client.Options{Era: protocol.Legacy,
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
