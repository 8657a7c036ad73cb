package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestGatewaysInARow(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		for _, between := range bothEras {
			u := startUpstream(t)
			inner := front(t, ops(u.url, upstreamEra))
			connect(t, inner, 0, &person{}, "ops_deploy")
			p := &person{}
			c := connect(t, front(t, ops(inner, between)), clientEra, p, "ops_ops_deploy")
			wantText(t, c, "ops_ops_deploy", deployed)
			if len(p.shown) != 2 || u.commits.Load() != 1 {
				t.Errorf("over %v: shown %q, %d effects", between, p.shown, u.commits.Load())
			}
		}
	})
}

func TestAnUpstreamThatOffersTooMuchIsCut(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	srv := newServer(t, countLists(&lists))
	for i := range 10_000 {
		addTool(srv, fmt.Sprint("tool-", i), done)
	}
	opts := before(ops(serveHTTP(t, srv), 0))
	logs := logged(opts, zap.WarnLevel)
	c := connect(t, startGateway(t, opts), 0, &person{}, "ops_tool-999")
	eventually(func() bool { // the list is read again
		addTool(srv, "x", done)
		srv.RemoveTool("x")
		return lists.Load() > 1
	})
	n := 0
	for range c.Tools(t.Context()) {
		n++
	}
	wantEqual(t, "tools published", n, 1000)
	if said := logs.FilterMessage("gateway.left_out").Len(); said != 1 || lists.Load() < 2 {
		t.Errorf("said %d times in %d readings", said, lists.Load())
	}
}

func TestAnUpstreamThatRenamesItsToolsIsReadOnceASecond(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		var lists atomic.Int64
		srv := newServer(t, countLists(&lists))
		addTool(srv, "0", done)
		c := connect(t, front(t, ops(serveHTTP(t, srv), era)), 0, &person{}, "ops_0")
		const renames = 300
		began := time.Now()
		for i := range renames {
			addTool(srv, fmt.Sprint(i+1), done)
			srv.RemoveTool(fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		awaitTool(t, c, fmt.Sprint("ops_", renames))
		took := time.Since(began)
		if n := lists.Load(); n < 2 || n > int64(took/time.Second)+4 {
			t.Errorf("the lists were read %d times in %v", n, took)
		}
		wantEqual(t, "listed", toolNames(t, c), fmt.Sprint("ops_", renames))
	})
}

// An upstream that hangs or fails blocks neither others nor the shutdown.
func TestAnUpstreamThatIsBrokenHoldsUpNothing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1000)
	for name, handler := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			asked <- struct{}{}
			<-r.Context().Done()
		},
		"broken": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			asked <- struct{}{}
		},
	} {
		for _, era := range []protocol.Era{0, protocol.Modern, protocol.Legacy} {
			other := ops(serve(t, handler).URL, era)
			other.Name = "other"
			g, url := serveGateway(t, before(other, ops(startUpstream(t).url, 0)), nil)
			<-asked
			c := connect(t, url, 0, &person{}, "ops_deploy")
			wantPart(t, name, callText(t, c, "other_x"), "unknown tool")
			began := time.Now()
			if err := g.Close(); err != nil || time.Since(began) > 5*time.Second {
				t.Errorf("%s: closing took %v: %v", name, time.Since(began), err)
			}
		}
	}
}

func TestAnUpstreamThatRestartsWithOtherToolsIsReadAgain(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		var current atomic.Pointer[serverhttp.Handler]
		start := func(tool string) {
			srv := newServer(t, nil)
			addTool(srv, tool, done)
			current.Store(servertest.NewHandler(t, srv, nil))
		}
		start("old")
		listener := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			current.Load().ServeHTTP(w, r)
		}))
		c := connect(t, front(t, ops(listener.URL, era)), 0, &person{}, "ops_old")
		wantText(t, c, "ops_old", "done")
		start("new")
		listener.CloseClientConnections()
		awaitTool(t, c, "ops_new")
		wantEqual(t, "listed", toolNames(t, c), "ops_new")
		wantText(t, c, "ops_new", "done")
	})
}

func TestAnUpstreamThatDiesInMidQuestionEndsTheCall(t *testing.T) {
	t.Parallel()
	url := front(t, thisProgram(t, "legacy, and dies", protocol.Legacy))
	c := byHand(t, url, "ops_deploy")
	pending := begin(t, c)
	p, withdrawn := silent(func() {})
	session := connect(t, url, protocol.Legacy, p)
	const want = "failed: The upstream server ops did not answer. What the tool did is not known"
	if got := callText(t, session, "ops_deploy"); !strings.HasPrefix(got, want) {
		t.Errorf("got %q", got)
	}
	await(t, withdrawn, "the question of the session is still asked")
	time.Sleep(time.Second) // the other call's process has died, too
	result, next, err := c.Resume(t.Context(), answered(t, pending, target{"production"}))
	if err != nil || next != nil {
		t.Fatalf("got %v, %v", next, err)
	}
	if r := result.(*protocol.CallToolResult); !r.IsError ||
		!strings.HasPrefix("failed: "+textOf(r), want) {
		t.Errorf("got %q", textOf(r))
	}
	begin(t, c) // on a new process
}

func TestAStateThatIsTooLongEndsTheCall(t *testing.T) {
	srv := newServer(t, &server.Options{
		Roundtrip: roundtrip.Options{Limits: roundtrip.Limits{StateBytes: 64 << 10}},
	})
	addTool(srv, "deploy", func(context.Context, *server.ToolCall) (outcome, error) {
		return roundtrip.InputRequired(
			roundtrip.Elicit[target]("where", "Deploy where?"),
			roundtrip.WithState(strings.Repeat("x", 40<<10)),
		), nil
	})
	c := byHand(t, front(t, ops(serveHTTP(t, srv), 0)), "ops_deploy")
	_, pending, err := c.Begin(t.Context(), deployCall)
	if pending != nil || err == nil {
		t.Errorf("got %v, %v", pending, err)
	}
}
