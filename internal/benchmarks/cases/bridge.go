package cases

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A bridgedGateway is a gateway whose clients come back with answers.
type bridgedGateway struct {
	*gateway
	calls *bridge.Bridge
}

func newBridgedGateway() (*bridgedGateway, error) {
	g, err := newGateway(true)
	if err != nil {
		return nil, err
	}
	calls, err := bridge.New(g.router, &bridge.Options{
		Keys: keys.EphemeralKeyring().Derive(bridge.KeyPurpose),
		// No row is to measure a timer: a question waits for no other.
		Settle: 1, MaxParked: 1_000_000, MaxPerPrincipal: 1_000_000,
		Logger: newLogger(), Registerer: prometheus.NewRegistry(),
	})
	return &bridgedGateway{g, calls}, err
}

// request is the first request of a call that asks one question.
func (g *bridgedGateway) request() *bridge.Request {
	return &bridge.Request{
		Method: protocol.MethodCallTool, Target: "deploy",
		Arguments: json.RawMessage(`{"env":"production"}`),
		Principal: protocol.Principal{Issuer: "https://id.example", Subject: "alice"},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
		Run: func(ctx context.Context, begin bridge.BeginFunc) (json.RawMessage, error) {
			call, err := begin(ctx, "upstream")
			if err != nil {
				return nil, err
			}
			defer call.End()
			if _, err := call.Elicit(ctx, g.params, nil); err != nil {
				return nil, err
			}
			return json.RawMessage(`{"content":[]}`), nil
		},
	}
}

// callAndReturn makes a call, and comes back with the answer to its question.
func (g *bridgedGateway) callAndReturn() error {
	request := g.request()
	o, err := g.calls.Serve(context.Background(), request)
	if err != nil {
		return err
	}
	if len(o.Questions) != 1 {
		return errors.New("the call does not ask")
	}
	request.State, request.Responses = o.State, map[string]json.RawMessage{
		o.Questions[0].ID: json.RawMessage(`{"action":"accept","content":{"approve":true}}`)}
	o, err = g.calls.Serve(context.Background(), request)
	if err == nil && o.Result == nil {
		err = errors.New("the call has no result")
	}
	return err
}

func (g *bridgedGateway) stop() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("what waits may go"))
	_ = g.calls.Shutdown(ctx)
	g.gateway.stop()
}
