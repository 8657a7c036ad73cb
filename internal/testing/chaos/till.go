package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// charges is what a till serves.
const charges = "charges"

type order struct {
	Flow string `json:"flow"`
}

type consent struct {
	Reason string `json:"reason"`
}

// newTill serves a tool that asks for consent and charges.
func newTill(guard store.Guard) (http.Handler, error) {
	ring := newKeyring()
	srv, err := server.New(&server.Options{
		Info: protocol.Implementation{Name: "till", Version: "1.0.0"},
		Roundtrip: roundtrip.Options{
			Sealer: ring, RequireSharedKey: true, Guard: guard,
		},
	})
	if err != nil {
		return nil, err
	}
	server.AddTool(srv, server.Tool{Name: "charge", Description: "Charges once."}, func(
		ctx context.Context, _ *server.ToolCall, in order,
	) (protocol.CallToolOutcome, error) {
		if _, ok := roundtrip.AcceptedContent[consent](ctx, "consent"); !ok {
			return roundtrip.InputRequired(roundtrip.Elicit[consent]("consent", "Charge?")), nil
		}
		if err := note("charge", in.Flow, "-"); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // it may be killed here
		return server.Text("charged"), nil
	})
	return serverhttp.New(srv, nil)
}
