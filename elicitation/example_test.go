package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

var canBeAsked = protocol.ClientCapabilities{
	Elicitation: &protocol.ElicitationCapability{Form: true}}

// A stream writes frames for one client request.
type stream struct {
	router *elicitation.Router
	from   elicitation.Sender
	answer string
}

// Deliver writes a frame. This example's client answers at once; in a gateway its response arrives
// separately, from an authenticated sender. Once the client has answered, Elicit may return.
func (s *stream) Deliver(ctx context.Context, m protocol.Message) error {
	question := m.(*protocol.Request)
	fmt.Println("to the client:", question.Method)
	s.router.HandleReply(s.from,
		&protocol.Response{ID: question.ID, Result: json.RawMessage(s.answer)})
	return nil
}

// The host's SDK calls a blocking function when the upstream asks, and sends its return value.
func Example() {
	ctx := context.Background()
	log, registry := zap.NewNop(), prometheus.NewRegistry()
	router, err := elicitation.New(&elicitation.Options{
		Log: zaplog.New(log), Metrics: prom.New(registry),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Shutdown(ctx)
	ann, err := router.Attach(elicitation.SessionInfo{
		ID: "session-1", Principal: protocol.Principal{Subject: "ann"}, Capabilities: canBeAsked,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ann.Detach()

	// Ann's tools/call is passed on to an upstream.
	via := elicitation.ViaFrames(&stream{router, ann.Sender(), `{"action":"accept","content":{"env":"prod"}}`})
	call, err := router.Begin(ctx, elicitation.Origin{Session: ann}, via, "upstream-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.End()

	// The upstream asks before it goes on.
	params := json.RawMessage(`{
		"message": "Where to?",
		"requestedSchema": {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"]}
	}`)
	result, err := call.Elicit(ctx, params)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Action, string(result.Content))

	// A mode that ann's client has not declared is not sent to it.
	_, err = call.Elicit(ctx, json.RawMessage(`{"mode": "url", "message": "Sign in", "url": "https://id.example/", "elicitationId": "1"}`))
	if wire, ok := protocol.AsError(err); ok {
		fmt.Println(wire.Code, wire.Message)
	}
	// Output:
	// to the client: elicitation/create
	// accept {"env":"prod"}
	// -32602 Client does not support URL elicitation
}

// The SDK does not say which call a question belongs to.
func ExampleRouter_ElicitFrom() {
	ctx := context.Background()
	router, err := elicitation.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Shutdown(ctx)
	begin := func(who string) *elicitation.Call {
		session, err := router.Attach(elicitation.SessionInfo{ID: who, Capabilities: canBeAsked})
		if err != nil {
			panic(err)
		}
		// The Asker wraps the SDK's own call, with the context of the client request's handler.
		ask := elicitation.AskFunc(func(_ context.Context, q elicitation.Question,
			delivered func()) (json.RawMessage, error) {
			fmt.Printf("%s is asked: %s\n", who, q.Request.(*protocol.ElicitForm).Message)
			return json.RawMessage(`{"action":"accept","content":{}}`), nil
		})
		call, err := router.Begin(ctx,
			elicitation.Origin{Session: session, CallID: "call of " + who},
			elicitation.ViaAsker(ask),
			"shared connection")
		if err != nil {
			panic(err)
		}
		return call
	}
	params := json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)

	ann := begin("ann")
	defer ann.End()
	result, err := router.ElicitFrom(ctx, "shared connection", params)
	fmt.Println(result.Action, err)

	bob := begin("bob")
	defer bob.End()
	_, err = router.ElicitFrom(ctx, "shared connection", params)
	fmt.Println(err, errors.Is(err, elicitation.ReasonAmbiguous))

	// The transport knows the question's stream, and so names the call.
	params = json.RawMessage(`{"_meta":{"` + elicitation.MetaCall + `":"call of bob"},` +
		string(params[1:]))
	result, err = router.ElicitFrom(ctx, "shared connection", params)
	fmt.Println(result.Action, err)
	// Output:
	// ann is asked: Sure?
	// accept <nil>
	// No client session available true
	// bob is asked: Sure?
	// accept <nil>
}

// Settings from the environment.
func ExampleOptionsFromEnv() {
	env := map[string]string{"ELICITATION_TIMEOUT": "2m", "ELICITATION_MAX_CONCURRENT": "250"}
	lookup := func(key string) (string, bool) { v, ok := env[key]; return v, ok } // like os.LookupEnv
	opts, err := elicitation.OptionsFromEnv(lookup)
	fmt.Println(opts.Timeout, opts.MaxPending, opts.MaxPerPrincipal, err)

	env["ELICITATION_MAX_CONCURRENT"] = "many"
	_, err = elicitation.OptionsFromEnv(lookup)
	fmt.Println(err)
	// Output:
	// 2m0s 250 40 <nil>
	// elicitation options: ELICITATION_MAX_CONCURRENT: must be a number above 0, got "many"
}
