package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/sdk"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// runSelfTest checks what the adapter relies on beyond the SDK's documentation.
func runSelfTest() error { return sdk.Run(checks()) }

func checks() []sdk.Check {
	return []sdk.Check{
		{Name: "results can be marked as asking", Run: checkResultTypes},
		{Name: "the mark survives embedding", Run: checkEmbedding},
		{Name: "middleware replaces session, answers and state", Run: checkReplacing},
		{Name: "returned questions reach middleware", Run: checkReturned},
		{Name: "the bridge to sessions can be stopped", Run: checkBridge},
		{Name: "pushes of handlers are not taken for the bridge", Run: checkPush},
		{Name: "errors of middleware keep their code", Run: checkErrors},
		{Name: "schema checks of pushes can be put off", Run: checkUnvalidated},
	}
}

// emptyResults has a result of each kind, by the JSON with which one is marked as asking.
func emptyResults() map[string]mcp.Result {
	return map[string]mcp.Result{askingToolJSON: &mcp.CallToolResult{},
		askingPromptJSON: &mcp.GetPromptResult{}, askingResourceJSON: &mcp.ReadResourceResult{}}
}

// expectWritten encodes a result and looks for a text in it.
func expectWritten(r mcp.Result, text string, want bool) error {
	written, err := json.Marshal(r)
	if err != nil || strings.Contains(string(written), text) != want {
		return fmt.Errorf("%T is written as %s, %v", r, written, err)
	}
	return nil
}

// checkResultTypes: decoding sets the result type, and encoding writes it.
func checkResultTypes(context.Context) error {
	for asking, r := range emptyResults() {
		for _, modern := range []bool{true, false} {
			stamped, err := withResultType(r, modern)
			if err != nil {
				return err
			}
			if err := expectWritten(stamped, `"resultType":"complete"`, modern); err != nil {
				return err
			}
		}
		if err := json.Unmarshal([]byte(asking), r); err != nil {
			return err
		}
		if !r.(interface{ NeedsInput() bool }).NeedsInput() {
			return fmt.Errorf("a %T does not ask", r)
		}
		if err := expectWritten(r, `"resultType":"input_required"`, true); err != nil {
			return err
		}
	}
	return nil
}

// checkEmbedding: a type that embeds a result is one, and its own encoding is sent.
func checkEmbedding(context.Context) error {
	const text = `{"resultType":"input_required"}`
	for _, r := range emptyResults() {
		if err := expectWritten(&exactResult{r, json.RawMessage(text)}, text, true); err != nil {
			return err
		}
	}
	return nil
}

// A probe is a server with one tool, and a client that accepts everything.
type probe struct {
	server  *mcp.Server
	adapter *Adapter
	result  *mcp.CallToolResult
	pushes  int // questions that reached the client

	next    mcp.MethodHandler    // of the middleware
	arrived *mcp.CallToolRequest // at the middleware
	handled *mcp.CallToolRequest // by the tool
}

// passOn calls the tool.
func (p *probe) passOn(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	return p.next(ctx, protocol.MethodCallTool, r)
}

// probeForm is the form that probes ask.
const probeForm = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

// runProbe calls the tool in a revision, behind the given middleware and the
// sending middleware of this package.
func runProbe(ctx context.Context, version protocol.Version, tool mcp.ToolHandler,
	middleware func(context.Context, *probe) (mcp.Result, error)) (*probe, error) {
	p := &probe{server: mcp.NewServer(&mcp.Implementation{Name: "probe", Version: "1"}, nil)}
	p.adapter = &Adapter{opts: Options{Options: roundtrip.Options{Observer: event.Discard}}}
	p.server.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			p.handled = req
			return tool(ctx, req)
		})
	p.server.AddSendingMiddleware(p.adapter.sendToClient)
	p.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			r, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			p.next, p.arrived = next, r
			return middleware(ctx, p)
		}
	})
	ours, theirs := mcp.NewInMemoryTransports()
	session, err := p.server.Connect(ctx, ours, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	client := mcp.NewClient(&mcp.Implementation{Name: "probe", Version: "1"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("the middleware answers")
		},
	})
	client.AddReceivingMiddleware(p.answerPushes)
	peer, err := client.Connect(ctx, theirs,
		&mcp.ClientSessionOptions{ProtocolVersion: string(version)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = peer.Close() }()
	p.result, err = peer.CallTool(ctx, &mcp.CallToolParams{Name: "t", Arguments: map[string]any{}})
	return p, err
}

// answerPushes answers pushed questions with content that is not valid under their form. It
// is a middleware because the SDK's client would refuse to send that.
func (p *probe) answerPushes(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != protocol.MethodElicit {
			return next(ctx, method, req)
		}
		p.pushes++
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"n": "not a number"}},
			nil
	}
}

func probeQuestion() *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: "probe",
		RequestedSchema: json.RawMessage(probeForm)}
}

func returnDone(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
}

func returnQuestion(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": probeQuestion()},
		RequestState: "s"}, nil
}

// checkReplacing: the handler gets the request that the middleware made, with the session
// in it, and questions that it pushes over that session reach the sending middleware.
func checkReplacing(ctx context.Context) error {
	var shown *mcp.ServerSession
	var pushed bool
	p, err := runProbe(ctx, protocol.V20260728,
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := r.Session.Elicit(ctx, probeQuestion())
			pushed = errors.Is(err, roundtrip.ErrNoRound)
			return returnDone(ctx, r)
		},
		func(ctx context.Context, p *probe) (mcp.Result, error) {
			run := &handlerRun{ctx: ctx, call: &call{adapter: p.adapter, server: p.server,
				session: p.arrived.Session, client: p.arrived}}
			session, err := p.adapter.connectShadow(run, protocol.V20251125)
			if err != nil {
				return nil, err
			}
			defer p.adapter.closeShadow(session)
			shown = session
			params := *p.arrived.Params
			params.RequestState = "replaced"
			params.InputResponses = mcp.InputResponseMap{"k": &mcp.ElicitResult{Action: "decline"}}
			return p.passOn(ctx, &mcp.CallToolRequest{Session: session, Params: &params,
				Extra: p.arrived.Extra})
		})
	switch {
	case err != nil:
		return err
	case p.handled.Session != shown || p.handled.Params.RequestState != "replaced" ||
		p.handled.Params.InputResponses["k"] == nil:
		return errors.New("the handler got something else")
	case !pushed || p.pushes != 0:
		return errors.New("a push over the session did not reach the sending middleware")
	}
	return nil
}

// checkReturned: in a modern revision the result that middleware gets has the questions
// and the state that the handler returned.
func checkReturned(ctx context.Context) error {
	var found *mcp.CallToolResult
	_, err := runProbe(ctx, protocol.V20260728, returnQuestion,
		func(ctx context.Context, p *probe) (mcp.Result, error) {
			result, err := p.passOn(ctx, p.arrived)
			found, _ = result.(*mcp.CallToolResult)
			return result, err
		})
	if err != nil {
		return err
	}
	if found == nil || len(found.InputRequests) != 1 || found.RequestState != "s" {
		return fmt.Errorf("middleware found %+v", found)
	}
	return nil
}

// runInSession calls a tool in a session, in a handlerRun of the adapter's. It returns an error
// unless the bridge was stopped as wanted, and the client got the wanted number of questions.
func runInSession(ctx context.Context, tool mcp.ToolHandler, bridged bool, pushes int) error {
	var run handlerRun
	var failure error
	p, err := runProbe(ctx, protocol.V20251125, tool,
		func(ctx context.Context, p *probe) (mcp.Result, error) {
			run.ctx, run.call = ctx, &call{adapter: p.adapter}
			var result mcp.Result
			result, failure = p.passOn(context.WithValue(ctx, handlerRunKey{}, &run), p.arrived)
			if failure != nil {
				return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
			}
			return result, nil
		})
	if err != nil {
		return err
	}
	stopped := failure != nil && run.call.isBridgeError(failure)
	if run.wasBridged() != bridged || stopped != bridged || (failure != nil) != bridged ||
		p.pushes != pushes {
		return fmt.Errorf("stopped %t with %v, after %d questions", run.wasBridged(), failure,
			p.pushes)
	}
	return nil
}

// checkBridge: in a session the SDK's bridge sends returned questions through the sending
// middleware, which recognizes and stops it.
func checkBridge(ctx context.Context) error { return runInSession(ctx, returnQuestion, true, 0) }

// checkPush: a question that the handler pushes itself is not taken for the bridge's.
func checkPush(ctx context.Context) error {
	return runInSession(ctx,
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, _ = r.Session.Elicit(ctx, probeQuestion())
			return returnDone(ctx, r)
		}, false, 1)
}

// checkErrors: the client gets the code and the data of an error that middleware returns.
func checkErrors(ctx context.Context) error {
	_, err := runProbe(ctx, protocol.V20260728, returnDone,
		func(context.Context, *probe) (mcp.Result, error) {
			return nil, encodeError(protocol.MissingCapabilities(
				protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}))
		})
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != protocol.CodeMissingRequiredClientCapability || len(e.Data) == 0 {
		return fmt.Errorf("the client got %v", err)
	}
	return nil
}

// checkUnvalidated: the sending middleware can replace the question that is sent, and the
// SDK does not validate the answer under the schema of the replacement.
func checkUnvalidated(ctx context.Context) error {
	var answer json.RawMessage
	p, err := runProbe(ctx, protocol.V20251125, returnDone,
		func(ctx context.Context, p *probe) (mcp.Result, error) {
			c := &call{adapter: p.adapter, session: p.arrived.Session}
			c.Version = protocol.V20251125
			var err error
			answer, err = pusher{c}.Push(ctx, &protocol.ElicitForm{Message: "probe",
				Schema: json.RawMessage(probeForm)}, func() {}, func() {})
			if err != nil {
				return nil, err
			}
			return p.passOn(ctx, p.arrived)
		})
	if err != nil {
		return err
	}
	if p.pushes != 1 || !strings.Contains(string(answer), "not a number") {
		return fmt.Errorf("%d questions, answered %s", p.pushes, answer)
	}
	return nil
}
