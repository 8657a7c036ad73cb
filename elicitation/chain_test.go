package elicitation_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// A gatewayPair is two gateways in a row: a client, the one that it is connected to, and one
// more before the upstream. What the second sends to its client is the request of an upstream
// to the first.
type gatewayPair struct {
	near, far *rig
	client    *elicitation.Session // at near
	middle    *elicitation.Session // at far: near, as its client
	screen    *screen              // the client's
	nearCall  *elicitation.Call
	farCall   *elicitation.Call
}

func newGatewayPair(t *testing.T, near, far elicitation.Options,
	declared protocol.ClientCapabilities,
	sc *screen) *gatewayPair {
	g := &gatewayPair{near: newRig(t, near), far: newRig(t, far), screen: sc}
	g.client = g.near.attach(elicitation.SessionInfo{ID: "client", Principal: alice(),
		Capabilities: declared})
	g.middle = g.far.attach(elicitation.SessionInfo{ID: "middle", Principal: alice(),
		Capabilities: caps(true, true)})
	g.nearCall = g.near.begin(elicitation.Origin{Session: g.client},
		elicitation.ViaFrames(sc), "far")
	t.Cleanup(g.nearCall.End)
	g.farCall = g.far.begin(elicitation.Origin{Session: g.middle},
		elicitation.ViaFrames(elicitation.DeliverFunc(g.receive)), "upstream")
	t.Cleanup(g.farCall.End)
	return g
}

// receive is the upstream connection of the near gateway: frames of the far one arrive there.
func (g *gatewayPair) receive(ctx context.Context, m protocol.Message) error {
	switch m := m.(type) {
	case *protocol.Request:
		go func() {
			answer, err := g.near.ElicitFrom(context.WithoutCancel(ctx), "far", m.Params,
				&elicitation.ElicitOptions{UpstreamID: m.ID, Progress: func(p *protocol.Progress) {
					g.far.HandleProgress(g.middle.Sender(),
						progress(p.Token, p.Progress))
				}})
			outcome := elicitation.Outcome{Result: answer, Err: err}
			g.far.HandleReply(g.middle.Sender(), outcome.Response(m.ID))
		}()
	case *protocol.Notification:
		var cancelled protocol.Cancelled
		if err := json.Unmarshal(m.Params, &cancelled); err != nil {
			return err
		}
		g.near.CancelUpstream("far", cancelled.RequestID)
	}
	return nil
}

// What a question means is the same behind two gateways: whom it asks, its answer, refusals and
// ends; each gateway has ids of its own, and books that balance.
func TestTwoGatewaysInARow(t *testing.T) {
	for _, test := range []struct {
		name      string
		declared  protocol.ClientCapabilities
		near, far elicitation.Options
		answer    func(g *gatewayPair, q *protocol.Request)
		question  json.RawMessage
		want      string // the action, or the message of the error
		code      int64
	}{
		{name: "answer", want: "accept", answer: func(g *gatewayPair, q *protocol.Request) {
			g.near.HandleReply(g.client.Sender(), result(q.ID, yes))
		}},
		{name: "answer after progress", want: "accept",
			near: elicitation.Options{Timeout: time.Minute},
			far:  elicitation.Options{Timeout: time.Minute},
			answer: func(g *gatewayPair, q *protocol.Request) {
				for n := range 3 {
					time.Sleep(50 * time.Second)
					g.near.HandleProgress(g.client.Sender(),
						progress(q.ID, float64(n)))
				}
				g.near.HandleReply(g.client.Sender(), result(q.ID, yes))
			}},
		{name: "no elicitation",
			declared: protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}},
			want:     "Client does not support elicitation", code: -32601},
		{name: "no such mode", declared: caps(false, true),
			want: "Client does not support form elicitation", code: -32602},
		{name: "timeout of the near one", near: elicitation.Options{Timeout: time.Second},
			want: "Elicitation timed out", code: protocol.CodeTimeout},
		{name: "timeout of the far one", far: elicitation.Options{Timeout: time.Second},
			want: "Elicitation timed out", code: protocol.CodeTimeout},
		{name: "the client leaves", want: "No client session available", code: -32601,
			answer: func(g *gatewayPair, _ *protocol.Request) { g.client.Detach() }},
		{name: "a secret that the far one allows",
			far: elicitation.Options{AllowSecrets: func(elicitation.UpstreamKey) bool {
				return true
			}},
			question: json.RawMessage(`{"message":"m","requestedSchema":{"type":"object",
				"properties":{"pin":{"type":"string"}}}}`),
			want: `Invalid elicitation request: requestedSchema: "pin" looks like a secret ("pin"), ` +
				`and a form is no place for one: ask for it with a URL elicitation`, code: -32602},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.declared.IsZero() {
					test.declared = caps(true, true)
				}
				if test.question == nil {
					test.question = form("Deploy?")
				}
				sc := &screen{t: t}
				g := newGatewayPair(t, test.near, test.far, test.declared, sc)
				if test.answer != nil {
					sc.answer = func(q *protocol.Request) { go test.answer(g, q) }
				}
				answer, err := g.far.ElicitFrom(t.Context(), "upstream", test.question, nil)
				synctest.Wait()
				if test.code == 0 {
					if err != nil || string(answer.Action) != test.want ||
						string(answer.Content) != `{"ok":true}` {
						t.Errorf("got %+v, %v", answer, err)
					}
				} else if wire, ok := protocol.AsError(err); !ok || wire.Code != test.code ||
					wire.Message != test.want {
					t.Errorf("got %v, want %d %q", err, test.code, test.want)
				}
				for _, q := range sc.requests() {
					for _, e := range g.far.logs.All() {
						if `"`+e.ContextMap()["request_id"].(string)+`"` == q.ID.String() {
							t.Error("the client sees the id of the far gateway")
						}
					}
				}
				g.near.settled()
				g.far.settled()
			})
		})
	}
}

// An upstream that withdraws its question withdraws it at both gateways.
func TestWithdrawalThroughTwoGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &screen{t: t}
		g := newGatewayPair(t, elicitation.Options{}, elicitation.Options{}, caps(true, true), sc)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := g.far.ElicitFrom(ctx, "upstream", form("m"), nil)
			done <- err
		}()
		synctest.Wait()
		cancel()
		refused(t, <-done, elicitation.ReasonCancelled, protocol.CodeFlowEnded,
			"Elicitation cancelled")
		synctest.Wait()
		if n := len(sc.notifications(protocol.NotifyCancelled)); n != 1 {
			t.Errorf("the client was told %d times", n)
		}
		g.near.settled()
		g.far.settled()
	})
}
