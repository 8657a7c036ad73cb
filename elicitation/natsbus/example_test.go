package natsbus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Two replicas of a gateway: one puts a question to its client, whose reply
// arrives at the other.
func ExampleNew() {
	url, stop := natstest.ForExample()
	defer stop()
	asks, leave := exampleReplica(url)
	defer leave()
	answers, leave := exampleReplica(url)
	defer leave()

	session, err := asks.Attach(elicitation.SessionInfo{
		ID: "session-1",
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	wire := make(chan protocol.ID, 1) // to the client
	call, err := asks.Begin(context.Background(), elicitation.Origin{Session: session},
		elicitation.ViaFrames(elicitation.DeliverFunc(func(_ context.Context,
			m protocol.Message) error {
			if request, ok := m.(*protocol.Request); ok {
				wire <- request.ID
			}
			return nil
		})), "upstream")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.End()

	done := make(chan struct{})
	go func() {
		defer close(done)
		reply := &protocol.Response{
			ID:     <-wire,
			Result: json.RawMessage(`{"action":"accept","content":{"reason":"it is tested"}}`),
		}
		disposition, err := answers.HandleReply(context.Background(), session.Sender(), reply)
		fmt.Println("the other replica:", disposition, err)
	}()
	result, err := call.Elicit(context.Background(), json.RawMessage(`{
		"message": "Deploy?",
		"requestedSchema": {"type": "object", "properties": {"reason": {"type": "string"}}}
	}`), nil)
	<-done
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the upstream gets:", result.Action, string(result.Content))
	// Output:
	// the other replica: accepted <nil>
	// the upstream gets: accept {"reason":"it is tested"}
}

// exampleReplica is a router on the bus.
func exampleReplica(url string) (router *elicitation.Router, leave func()) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	bus, err := natsbus.New(context.Background(), js, nil)
	if err != nil {
		panic(err)
	}
	router, err = elicitation.New(&elicitation.Options{Bus: bus, Keys: exampleKeys()})
	if err != nil {
		panic(err)
	}
	return router, func() { // in this order
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = router.Shutdown(ctx)
		_ = bus.Close()
		nc.Close()
	}
}

// exampleKeys are the keys of a fleet, which usually come from the environment: see
// keys.KeyringFromEnv.
func exampleKeys() elicitation.Sealer {
	key, err := keys.NewKey("k1", []byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		panic(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		panic(err)
	}
	return ring.Derive(elicitation.KeyPurpose)
}
