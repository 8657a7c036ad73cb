package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// connectWith returns a client with the handlers of opts.
func connectWith(t *testing.T, url string, opts client.Options) *client.Client {
	t.Helper()
	return connectUser(t, url, "", opts)
}

func agreeToVisit(context.Context, *client.URLQuestion) (*protocol.ElicitResult, error) {
	return client.Accept(nil)
}

// A capability that the gateway keeps from the upstream is none that the client could declare.
func TestACapabilityThatIsNotPassedOnIsNotAskedOfTheClient(t *testing.T) {
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "x", Needs: protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{URL: true}}}, func(
		context.Context, *server.ToolCall, struct{},
	) (outcome, error) {
		return server.Text("done"), nil
	})
	upstream := serveHTTP(t, srv)
	for _, kept := range []bool{true, false} {
		url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
			Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Modern,
			Refuse: refuseIf(kept, protocol.KindElicitURL),
		}}})
		with := connectWith(t, url, client.Options{ElicitURL: agreeToVisit})
		awaitTool(t, with, "ops_x")
		result, err := with.CallTool(t.Context(), "ops_x", nil)
		if got := textOf(result); err != nil || result.IsError != kept ||
			kept && !strings.Contains(got, "elicitation.url, which this gateway does not let") {
			t.Errorf("refused %v: got %q, %v", kept, got, err)
		}
		without := connectWith(t, url, client.Options{})
		result, err = without.CallTool(t.Context(), "ops_x", nil)
		said, _ := protocol.AsError(err)
		if _, lacks := said.RequiredCapabilities(); lacks == kept {
			t.Errorf("refused %v, without: got %q, %v", kept, textOf(result), err)
		}
	}
}

func TestRootsArePassedOn(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		srv := newServer(t, nil)
		server.AddTool(srv, server.Tool{Name: "where"}, func(
			ctx context.Context, _ *server.ToolCall, _ struct{},
		) (outcome, error) {
			if roots, ok := roundtrip.Roots(ctx, "roots"); ok && len(roots) == 1 {
				return server.Text(roots[0].URI), nil
			}
			return roundtrip.InputRequired(roundtrip.ListRoots("roots")), nil
		})
		upstream := serveHTTP(t, srv)
		for _, refused := range []bool{false, true} {
			url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
				Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: upstreamEra,
				Refuse: refuseIf(refused, protocol.KindListRoots),
			}}})
			var asked atomic.Int64
			c := connectWith(t, url, client.Options{Era: clientEra, ListRoots: func(
				context.Context, *client.RootsQuestion,
			) ([]protocol.Root, error) {
				asked.Add(1)
				return []protocol.Root{{URI: "file:///work"}}, nil
			}})
			awaitTool(t, c, "ops_where")
			result, err := c.CallTool(t.Context(), "ops_where", nil)
			if got := err == nil && textOf(result) == "file:///work"; got == refused ||
				asked.Load() == 0 != refused {
				t.Errorf("refused %v: %q, %v, asked %d times", refused, textOf(result), err,
					asked.Load())
			}
		}
	})
}

// A question that the upstream withdraws while its call goes on is withdrawn in the session, too.
func TestAQuestionThatTheUpstreamWithdrawsLeavesTheSession(t *testing.T) {
	shown, withdrawn := make(chan struct{}), make(chan struct{})
	_, upstream := startRaw(t, func(
		id json.RawMessage, event func(string), _ <-chan string,
	) {
		event(`{"jsonrpc":"2.0","id":99,"method":"elicitation/create",` +
			`"params":{"message":"Q","requestedSchema":{"type":"object",` +
			`"properties":{"n":{"type":"string"}}}}}`)
		<-shown
		event(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
		select {
		case <-withdrawn:
		case <-time.After(5 * time.Second):
			t.Error("the question stays")
		}
		event(fmt.Sprintf(rawDone, id))
	})
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{
		{Name: "ops", Connect: gateway.HTTP(upstream, nil), Era: protocol.Legacy}}})
	c := connectWith(t, url, client.Options{Era: protocol.Legacy, ElicitForm: func(
		ctx context.Context, _ *client.FormQuestion,
	) (*protocol.ElicitResult, error) {
		close(shown)
		<-ctx.Done()
		close(withdrawn)
		return nil, ctx.Err()
	}})
	awaitTool(t, c, "ops_x")
	result, err := c.CallTool(t.Context(), "ops_x", nil)
	if err != nil || textOf(result) != "done" {
		t.Errorf("got %q, %v", textOf(result), err)
	}
}

// The end of a visit reaches the session that was asked for it, under the id of the question.
func TestTheEndOfAVisitReachesWhoWasAskedForIt(t *testing.T) {
	srv := newServer(t, nil)
	server.AddTool(srv, server.Tool{Name: "visit"}, func(
		ctx context.Context, call *server.ToolCall, _ struct{},
	) (outcome, error) {
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
	url := startGateway(t, &gateway.Options{Upstreams: []gateway.Upstream{{
		Name: "ops", Connect: gateway.HTTP(serveHTTP(t, srv), nil), Era: protocol.Legacy}}})
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
		}})
		awaitTool(t, s.Client, "ops_visit")
	}
	for i := range sessions {
		s := &sessions[i]
		result, err := s.CallTool(t.Context(), "ops_visit", nil)
		if err != nil || textOf(result) != "paid" {
			t.Fatalf("got %q, %v", textOf(result), err)
		}
		select {
		case id := <-s.ended:
			if id != s.asked || strings.Contains(id, "upstream") {
				t.Errorf("asked under %q, ended under %q", s.asked, id)
			}
		case <-time.After(5 * time.Second):
			t.Error("the end of the visit is not announced")
		}
	}
	if len(sessions[0].ended)+len(sessions[1].ended) > 0 {
		t.Error("an end is announced to somebody else, or twice")
	}
}

// A call for which there is no room does not open a connection.
func TestACallWithoutRoomOpensNoConnection(t *testing.T) {
	u := startUpstream(t)
	var opened atomic.Int64
	dial := gateway.HTTP(u.url, nil)
	url := startGateway(t, &gateway.Options{MaxCalls: 1,
		Upstreams: []gateway.Upstream{{Name: "ops", Era: protocol.Legacy, Connect: func(
			ctx context.Context, c gateway.Credential,
		) (protocol.Peer, error) {
			opened.Add(1)
			return dial(ctx, c)
		}}}})
	c := byHand(t, url)
	awaitTool(t, c, "ops_deploy")
	begin(t, c)
	before := opened.Load()
	_, _, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "ops_deploy"})
	said, ok := protocol.AsError(err)
	if !ok || said.Code != protocol.CodeBusy || !strings.Contains(said.Message, "at this gateway") {
		t.Errorf("got %v", err)
	}
	if opened.Load() != before {
		t.Error("a connection was opened")
	}
}
