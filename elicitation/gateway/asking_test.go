package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A client is not told to declare a capability that the gateway withholds from the upstream.
func TestACapabilityThatIsNotPassedOnIsNotAskedOfTheClient(t *testing.T) {
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "x", Needs: protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{URL: true}}},
		func(ctx context.Context, call *server.ToolCall, _ struct{}) (outcome, error) {
			return done(ctx, call)
		})
	upstream := serveHTTP(t, srv)
	for _, kept := range []bool{true, false} {
		u := ops(upstream, protocol.Modern)
		u.Refuse = refuseIf(kept, protocol.KindElicitURL)
		url := front(t, u)
		got := callText(t, connectWith(t, url, client.Options{ElicitURL: agreeToVisit}, "ops_x"),
			"ops_x")
		if !kept && got != "done" || kept && (!strings.HasPrefix(got, "failed: ") ||
			!strings.Contains(got, "elicitation.url, which this gateway does not let")) {
			t.Errorf("refused %v: got %q", kept, got)
		}
		without := connectWith(t, url, client.Options{})
		result, err := without.CallTool(t.Context(), "ops_x", nil)
		said, _ := protocol.AsError(err)
		if _, lacks := said.RequiredCapabilities(); lacks == kept {
			t.Errorf("refused %v, without: got %q, %v", kept, textOf(result), err)
		}
	}
}

func TestRootsArePassedOn(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		upstream := serveTool(t, "where", func(
			ctx context.Context, _ *server.ToolCall) (outcome, error) {
			if roots, ok := roundtrip.Roots(ctx, "roots"); ok && len(roots) == 1 {
				return server.Text(roots[0].URI), nil
			}
			return roundtrip.InputRequired(roundtrip.ListRoots("roots")), nil
		})
		for _, refused := range []bool{false, true} {
			u := ops(upstream, upstreamEra)
			u.Refuse = refuseIf(refused, protocol.KindListRoots)
			var asked atomic.Int64
			c := connectWith(t, front(t, u), client.Options{Era: clientEra, ListRoots: func(
				context.Context, *client.RootsQuestion,
			) ([]protocol.Root, error) {
				asked.Add(1)
				return []protocol.Root{{URI: "file:///work"}}, nil
			}}, "ops_where")
			if got := callText(t, c, "ops_where"); got == "file:///work" == refused ||
				asked.Load() == 0 != refused {
				t.Errorf("refused %v: %q, asked %d times", refused, got, asked.Load())
			}
		}
	})
}

// A question withdrawn by the upstream during its call is withdrawn in the session, too.
func TestAQuestionThatTheUpstreamWithdrawsLeavesTheSession(t *testing.T) {
	shown := make(chan struct{})
	p, withdrawn := silent(func() { close(shown) })
	upstream := startRaw(t, func(c *rawCall) {
		c.ask(99, "Q")
		<-shown
		c.event(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
		await(t, withdrawn, "the question stays")
	})
	c := connect(t, front(t, ops(upstream, protocol.Legacy)), protocol.Legacy, p, "ops_x")
	wantText(t, c, "ops_x", "done")
}

// A visit's completion reaches the session that was asked, with the question's id.
func TestTheEndOfAVisitReachesWhoWasAskedForIt(t *testing.T) {
	upstream := serveTool(t, "visit", func(
		ctx context.Context, call *server.ToolCall) (outcome, error) {
		const id = "the id of the upstream"
		if _, err := call.Push(ctx, &protocol.ElicitURL{Message: "Pay",
			URL: "https://pay.example/1", ElicitationID: id}); err != nil {
			return nil, err
		}
		for range 2 {
			if err := call.ElicitationComplete(ctx, id); err != nil {
				return nil, err
			}
		}
		return server.Text("paid"), nil
	})
	url := front(t, ops(upstream, protocol.Legacy))
	type session struct {
		*client.Client
		asked string
		ended chan string
	}
	var sessions [2]session
	for i := range sessions {
		s := &sessions[i]
		s.ended = make(chan string, 10)
		s.Client = connectWith(t, url, client.Options{Era: protocol.Legacy, ElicitURL: func(
			_ context.Context, q *client.URLQuestion,
		) (*protocol.ElicitResult, error) {
			s.asked = q.ElicitationID
			return client.Accept(nil)
		}, Notification: func(_ context.Context, n *protocol.Notification) {
			var completed protocol.ElicitationCompleted
			if n.Method == protocol.NotifyElicitationCompleted &&
				json.Unmarshal(n.Params, &completed) == nil {
				s.ended <- completed.ElicitationID
			}
		}}, "ops_visit")
	}
	for i := range sessions {
		s := &sessions[i]
		wantText(t, s.Client, "ops_visit", "paid")
		id := await(t, s.ended, "the end of the visit is not announced")
		if id != s.asked || strings.Contains(id, "upstream") {
			t.Errorf("asked under %q, ended under %q", s.asked, id)
		}
	}
	if len(sessions[0].ended)+len(sessions[1].ended) > 0 {
		t.Error("an end is announced to somebody else, or twice")
	}
}

func TestACallWithoutRoomOpensNoConnection(t *testing.T) {
	var opened atomic.Int64
	url := startGateway(t, &gateway.Options{MaxCalls: 1, Upstreams: []gateway.Upstream{
		counting(startUpstream(t).url, protocol.Legacy, &opened)}})
	c := byHand(t, url, "ops_deploy")
	begin(t, c)
	before := opened.Load()
	wantPart(t, "busy", wantBusy(t, c).Message, "at this gateway")
	wantEqual(t, "connections opened", opened.Load(), before)
}
