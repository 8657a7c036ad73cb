package benchmarks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// routerOps returns a question through a gateway's router, with log and metrics, to a client here.
func routerOps() []op {
	return []op{{"router", "one elicitation", ours,
		func() (func() error, func(), error) {
			g, err := newGateway()
			if err != nil {
				return nil, nil, err
			}
			return g.elicit, g.stop, nil
		}}}
}

// A gateway is a router with one client, which accepts every question.
type gateway struct {
	router  *elicitation.Router
	session *elicitation.Session
	call    *elicitation.Call
	params  json.RawMessage
}

func newGateway() (*gateway, error) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	router, err := elicitation.New(&elicitation.Options{
		MaxPending: -1, MaxPerPrincipal: -1,
		Log: zaplog.New(zap.New(zapcore.NewCore(encoder, zapcore.AddSync(io.Discard),
			zapcore.InfoLevel))),
		Metrics: prom.New(prometheus.NewRegistry()),
	})
	if err != nil {
		return nil, err
	}
	g := &gateway{router: router, params: fmt.Appendf(nil,
		`{"mode":"form","message":%q,"requestedSchema":%s}`,
		wire.Deployment().Question(), wire.ConfirmSchema)}
	g.session, err = router.Attach(elicitation.SessionInfo{
		ID:        "session",
		Principal: protocol.Principal{Issuer: "https://id.example", Subject: "alice"},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
	})
	if err == nil {
		g.call, err = router.Begin(context.Background(), elicitation.Origin{Session: g.session},
			elicitation.ViaFrames(g), "upstream")
	}
	return g, err
}

// Deliver acts as the client.
func (g *gateway) Deliver(ctx context.Context, m protocol.Message) error {
	q, ok := m.(*protocol.Request)
	if !ok {
		return fmt.Errorf("a %T is delivered", m)
	}
	answer := &protocol.Response{ID: q.ID, Result: json.RawMessage(wire.Accept)}
	g.router.HandleReply(g.session.Sender(), answer)
	return nil
}

func (g *gateway) elicit() error {
	result, err := g.call.Elicit(context.Background(), g.params)
	if err == nil && result.Action != protocol.ActionAccept {
		err = fmt.Errorf("the answer is %s", result.Action)
	}
	return err
}

func (g *gateway) stop() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("what is pending may go"))
	_ = g.router.Shutdown(ctx)
}
