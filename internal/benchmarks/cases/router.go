package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/protocol"
)

// ElicitationRow is one question through the router, logged and counted.
const ElicitationRow = "one elicitation"

// Router is a question that the router of a gateway takes to a client in this
// process, which answers at once.
func Router() []measure.Op {
	op := func(row string, recorded bool) measure.Op {
		return measure.Op{Group: RouterGroup, Row: row, Peer: peers.Rondo,
			Start: func() (func() error, func(), error) {
				g, err := newGateway(recorded)
				if err != nil {
					return nil, nil, err
				}
				return g.elicit, g.stop, nil
			}}
	}
	return []measure.Op{op(ElicitationRow, true), op("without log and metrics", false)}
}

// Pending is the memory of a question that waits for a client, in the form in
// which no goroutine waits with it: the call of the client that it belongs to
// and the question, 10 000 of them.
func Pending() []measure.Case {
	return []measure.Case{{Group: RouterGroup, Row: "pending elicitation", Peer: peers.Rondo,
		Run: func(time.Duration) (measure.Sample, error) {
			g, err := newGateway(true)
			if err != nil {
				return nil, err
			}
			defer g.stop()
			return kept(10_000, g.offer)
		}}}
}

// A gateway is a router with one client, which accepts whatever it is asked.
type gateway struct {
	router  *elicitation.Router
	session *elicitation.Session
	call    *elicitation.Call
	params  json.RawMessage
}

func newGateway(recorded bool) (*gateway, error) {
	opts := elicitation.Options{MaxPending: -1, MaxPerPrincipal: -1, MaxPerSession: -1,
		MaxPerUpstream: -1}
	if recorded {
		encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
		opts.Logger = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard),
			zapcore.InfoLevel))
		opts.Registerer = prometheus.NewRegistry()
	}
	router, err := elicitation.New(&opts)
	if err != nil {
		return nil, err
	}
	g := &gateway{router: router, params: fmt.Appendf(nil, `{"mode":"form","message":%q,"requestedSchema":%s}`,
		wire.Question(wire.Environment, wire.Release), wire.ConfirmSchema)}
	g.session, err = router.Attach(elicitation.SessionInfo{
		ID: "session", Principal: protocol.Principal{Issuer: "https://id.example",
			Subject: "alice"},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
	})
	if err == nil {
		g.call, err = g.begin()
	}
	return g, err
}

func (g *gateway) begin() (*elicitation.Call, error) {
	return g.router.Begin(context.Background(), elicitation.Origin{Session: g.session},
		elicitation.ViaFrames(g), "upstream")
}

// Deliver is the client.
func (g *gateway) Deliver(ctx context.Context, m protocol.Message) error {
	q, ok := m.(*protocol.Request)
	if !ok {
		return fmt.Errorf("a %T is delivered", m)
	}
	answer := &protocol.Response{ID: q.ID, Result: json.RawMessage(`{"action":"accept","content":{"approve":true}}`)}
	g.router.HandleReply(g.session.Sender(), answer)
	return nil
}

func (g *gateway) elicit() error {
	result, err := g.call.Elicit(context.Background(), g.params, nil)
	if err == nil && result.Action != protocol.ActionAccept {
		err = fmt.Errorf("the answer is %s", result.Action)
	}
	return err
}

// offer asks in a call of its own, and nobody answers.
func (g *gateway) offer() error {
	call, err := g.begin()
	if err != nil {
		return err
	}
	question, err := call.Offer(context.Background(), g.params, nil, func(elicitation.Outcome) {})
	if err == nil {
		question.ConfirmDelivery()
	}
	return err
}

func (g *gateway) stop() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("what is pending may go"))
	_ = g.router.Shutdown(ctx)
}
