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

// canBeAsked is what the clients of these examples declare.
var canBeAsked = protocol.ClientCapabilities{
	Elicitation: &protocol.ElicitationCapability{Form: true}}

// A stream is where a gateway writes what goes to one request of a client.
type stream struct {
	router *elicitation.Router
	from   elicitation.Sender
	answer string
}

// Deliver writes a frame. The client of this example answers at once; in a
// gateway its response comes in by another door, and from is what that door
// knows about the sender. From the answer on Elicit may return, so what Deliver
// did after that might not be seen.
func (s *stream) Deliver(ctx context.Context, m protocol.Message) error {
	question := m.(*protocol.Request)
	fmt.Println("to the client:", question.Method)
	s.router.HandleReply(s.from,
		&protocol.Response{ID: question.ID, Result: json.RawMessage(s.answer)})
	return nil
}

// The blocking form: the host's SDK calls a function when the upstream asks, and
// sends what it returns.
func Example() {
	ctx := context.Background()
	router, err := elicitation.New(&elicitation.Options{
		Log:     zaplog.New(zap.NewNop()),           // a gateway has zap.NewProduction
		Metrics: prom.New(prometheus.NewRegistry()), // and prometheus.DefaultRegisterer
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
	result, err := call.Elicit(ctx, params, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Action, string(result.Content))

	// What ann's client has not declared is not sent to it.
	_, err = call.Elicit(ctx, json.RawMessage(`{"mode": "url", "message": "Sign in", "url": "https://id.example/", "elicitationId": "1"}`), nil)
	if wire, ok := protocol.AsError(err); ok {
		fmt.Println(wire.Code, wire.Message)
	}
	// Output:
	// to the client: elicitation/create
	// accept {"env":"prod"}
	// -32602 Client does not support URL elicitation
}

// The split form: the host shuffles frames, and nothing waits but the question.
func ExampleCall_Offer() {
	ctx := context.Background()
	router, err := elicitation.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Shutdown(ctx)
	ann, err := router.Attach(elicitation.SessionInfo{ID: "session-1", Capabilities: canBeAsked})
	if err != nil {
		fmt.Println(err)
		return
	}
	call, err := router.Begin(ctx, elicitation.Origin{Session: ann}, elicitation.Via{},
		"upstream-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.End()

	// A frame from the upstream: its id is its own business.
	upstreamID := protocol.IntID(1)
	params := json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)
	offered, err := call.Offer(ctx, params, nil, func(o elicitation.Outcome) {
		frame, _ := protocol.AppendMessage(nil, o.Response(upstreamID))
		fmt.Println("to the upstream:", string(frame))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	toClient := offered.Request() // to be written to ann's stream
	offered.ConfirmDelivery()     // it has been
	fmt.Println("pending:", router.Pending())

	// A frame from a client, as its session and token say who it is.
	reply := &protocol.Response{ID: toClient.ID, Result: json.RawMessage(`{"action":"decline"}`)}
	for _, from := range []elicitation.Sender{{Session: "session-2"}, ann.Sender(), ann.Sender()} {
		disposition := router.HandleReply(from, reply)
		fmt.Println(from.Session, disposition)
	}
	// Output:
	// pending: 1
	// session-2 wrong_session
	// to the upstream: {"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}
	// session-1 accepted
	// session-1 duplicate
}

// An SDK that does not say which call a question belongs to.
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
		// The Asker wraps the SDK's own call, with the context of the handler
		// that serves the client's request.
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
	result, err := router.ElicitFrom(ctx, "shared connection", params, nil)
	fmt.Println(result.Action, err)

	bob := begin("bob")
	defer bob.End()
	_, err = router.ElicitFrom(ctx, "shared connection", params, nil)
	fmt.Println(err, errors.Is(err, elicitation.ReasonAmbiguous))

	result, err = router.ElicitFrom(ctx, "shared connection", params,
		&elicitation.ElicitOptions{CallID: "call of bob"})
	fmt.Println(result.Action, err)
	// Output:
	// ann is asked: Sure?
	// accept <nil>
	// No client session available true
	// bob is asked: Sure?
	// accept <nil>
}

// Two calls of one client on one connection that do not say which of them asks: the client is
// asked on the stream of its session.
func ExampleSessionInfo_via() {
	ctx := context.Background()
	router, err := elicitation.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Shutdown(ctx)
	on := func(name string) elicitation.Via {
		return elicitation.ViaAsker(elicitation.AskFunc(func(context.Context, elicitation.Question,
			func()) (json.RawMessage, error) {
			fmt.Println("asked on the stream of", name)
			return json.RawMessage(`{"action":"accept","content":{}}`), nil
		}))
	}
	ann, err := router.Attach(elicitation.SessionInfo{
		ID: "session-1", Capabilities: canBeAsked, Via: on("the session"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	params := json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)
	for n := range 2 {
		name := fmt.Sprint("request ", n+1)
		call, err := router.Begin(ctx, elicitation.Origin{Session: ann}, on(name),
			"shared connection")
		if err != nil {
			fmt.Println(err)
			return
		}
		defer call.End()
		if _, err = router.ElicitFrom(ctx, "shared connection", params, nil); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// asked on the stream of request 1
	// asked on the stream of the session
}

// A call that its client gave up while the upstream works on it.
func ExampleRouter_HasAbandonedCalls() {
	router, err := elicitation.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ann, err := router.Attach(elicitation.SessionInfo{ID: "session-1", Capabilities: canBeAsked})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call, err := router.Begin(ctx, elicitation.Origin{Session: ann}, elicitation.Via{},
		"connection-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	cancel()   // ann's client has cancelled its request
	call.End() // and the upstream was told
	fmt.Println(router.HasAbandonedCalls("connection-1"))

	call.ConfirmUpstreamEnd() // the response of the upstream has come after all
	fmt.Println(router.HasAbandonedCalls("connection-1"))
	// Output:
	// true
	// false
}

// An answer counts when the upstream has it.
func ExampleReceipt() {
	ctx := context.Background()
	router, err := elicitation.New(&elicitation.Options{Audit: printKind{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ann, err := router.Attach(elicitation.SessionInfo{ID: "session-1", Capabilities: canBeAsked})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := elicitation.AskFunc(func(context.Context, elicitation.Question,
		func()) (json.RawMessage, error) {
		return json.RawMessage(`{"action":"accept","content":{}}`), nil
	})
	call, err := router.Begin(ctx, elicitation.Origin{Session: ann},
		elicitation.ViaAsker(ask), "up")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.End()
	params := json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)
	for _, sent := range []error{nil, errors.New("connection reset")} {
		var receipt elicitation.Receipt
		_, err = call.Elicit(ctx, params, &elicitation.ElicitOptions{Receipt: &receipt})
		if err != nil {
			fmt.Println(err)
			return
		}
		// The host sends the answer.
		if sent != nil {
			receipt.Fail(sent)
		} else {
			receipt.Confirm()
		}
	}
	// Output:
	// elicitation.created
	// elicitation.delivered
	// elicitation.completed
	// elicitation.created
	// elicitation.delivered
	// elicitation.error answer_lost
}

// printKind is an AuditSink.
type printKind struct{}

func (printKind) Audit(e elicitation.AuditEvent) {
	if e.Reason != "" {
		fmt.Println(e.Kind, string(e.Reason))
		return
	}
	fmt.Println(e.Kind)
}

// The documented settings, from the environment.
func ExampleOptionsFromEnv() {
	env := map[string]string{"ELICITATION_TIMEOUT": "2m", "ELICITATION_MAX_CONCURRENT": "250"}
	// a program has os.LookupEnv
	lookup := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	opts, err := elicitation.OptionsFromEnv(lookup)
	fmt.Println(opts.Timeout, opts.Limits.Pending, opts.Limits.PerPrincipal, err)

	env["ELICITATION_MAX_CONCURRENT"] = "many"
	_, err = elicitation.OptionsFromEnv(lookup)
	fmt.Println(err)
	// Output:
	// 2m0s 250 40 <nil>
	// elicitation options: ELICITATION_MAX_CONCURRENT: must be a number above 0, got "many"
}
