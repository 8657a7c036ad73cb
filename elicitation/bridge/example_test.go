package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A client of 2026-07-28 sends its request twice; the call upstream is made once.
func Example() {
	ctx := context.Background()
	router, err := elicitation.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	b, err := bridge.New(router, &bridge.Options{
		Keys: keys.EphemeralKeyring().Derive(bridge.KeyPurpose), // replicas share keys
	})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Shutdown(ctx)

	request := bridge.Request{
		Method: "tools/call", Target: "deploy", Arguments: json.RawMessage(`{"env":"prod"}`),
		Principal: protocol.Principal{Subject: "ann"},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
		Run: func(ctx context.Context, begin bridge.BeginFunc) (json.RawMessage, error) {
			call, err := begin(ctx, "upstream-7")
			if err != nil {
				return nil, err
			}
			defer call.End()
			fmt.Println("the upstream begins")
			// What the upstream sends as the parameters of elicitation/create:
			question := json.RawMessage(`{"message":"Why?","requestedSchema":{"type":"object",` +
				`"properties":{"reason":{"type":"string"}}}}`)
			answer, err := call.Elicit(ctx, question, nil)
			if err != nil {
				return nil, err
			}
			return answer.Content, nil // in place of the upstream's own result
		},
	}
	outcome, err := b.Serve(ctx, &request)
	if err != nil {
		log.Fatal(err)
	}
	form := outcome.Questions[0].Request.(*protocol.ElicitForm)
	fmt.Println("the client is asked:", form.Message)

	request.State = outcome.State
	request.Responses = map[string]json.RawMessage{
		outcome.Questions[0].ID: json.RawMessage(`{"action":"accept","content":{"reason":"a fix"}}`),
	}
	outcome, err = b.Serve(ctx, &request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the result:", string(outcome.Result))
	// Output:
	// the upstream begins
	// the client is asked: Why?
	// the result: {"reason":"a fix"}
}
