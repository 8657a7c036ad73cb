package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A canary is something of the SDK that is relied on beyond what its
// documentation says. Each is tried when Install runs, so that a release that
// works differently is noticed then and not by a person who is asked twice, or
// by a handler that is let through.
type canary struct {
	name string
	try  func(context.Context) error
}

// trialTime bounds all trials. They take a few milliseconds.
const trialTime = 10 * time.Second

// tryHost tries all that is relied on, with servers and clients of its own.
func tryHost() error {
	return tryAll(canaries())
}

func tryAll(all []canary) error {
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	for _, c := range all {
		if err := c.try(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func canaries() []canary {
	return []canary{
		{"results can be marked as asking", func(context.Context) error { return tryMarks() }},
		{"the mark survives embedding", func(context.Context) error { return tryEmbedding() }},
		{"middleware replaces session, answers and state", tryReplacing},
		{"returned questions reach middleware", tryReturned},
		{"the bridge to sessions can be stopped", tryBridge},
		{"pushes of handlers are not taken for the bridge", tryPush},
		{"errors of middleware keep their code", tryErrors},
		{"schema checks of pushes can be put off", tryUnchecked},
	}
}

// tryMarks: decoding sets the result type, and encoding writes it.
func tryMarks() error {
	for _, r := range []mcp.Result{&mcp.CallToolResult{}, &mcp.GetPromptResult{}, &mcp.ReadResourceResult{}} {
		for _, modern := range []bool{true, false} {
			stamped, err := withResultType(r, modern)
			if err != nil {
				return err
			}
			written, err := json.Marshal(stamped)
			if err != nil || strings.Contains(string(written), `"resultType":"complete"`) != modern {
				return fmt.Errorf("a complete %T is written as %s, %v", r, written, err)
			}
		}
	}
	for text, r := range map[string]interface {
		mcp.Result
		NeedsInput() bool
	}{askingToolJSON: &mcp.CallToolResult{}, askingPromptJSON: &mcp.GetPromptResult{}, askingResourceJSON: &mcp.ReadResourceResult{}} {
		if err := json.Unmarshal([]byte(text), r); err != nil {
			return err
		}
		written, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if !r.NeedsInput() || !strings.Contains(string(written), `"resultType":"input_required"`) {
			return fmt.Errorf("%T is written as %s", r, written)
		}
	}
	return nil
}

// tryEmbedding: what embeds a result is one, and writes itself.
func tryEmbedding() error {
	const text = `{"resultType":"input_required"}`
	for _, r := range []mcp.Result{&mcp.CallToolResult{}, &mcp.GetPromptResult{}, &mcp.ReadResourceResult{}} {
		written, err := json.Marshal(&exactResult{r, json.RawMessage(text)})
		if err != nil || string(written) != text {
			return fmt.Errorf("%T is written as %s, %v", r, written, err)
		}
	}
	return nil
}

// A trial is a server with one tool and a client that answers yes.
type trial struct {
	server  *mcp.Server
	adapter *Adapter
	result  *mcp.CallToolResult
	pushed  int // questions that reached the client
	seen    *mcp.CallToolRequest
}

// trialForm is what trials ask.
const trialForm = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

// runTrial calls the tool in a revision, behind the given middleware and the
// sending middleware of this package.
func runTrial(ctx context.Context, version protocol.Version, tool mcp.ToolHandler, middleware func(*trial) mcp.Middleware) (*trial, error) {
	t := &trial{server: mcp.NewServer(&mcp.Implementation{Name: "trial", Version: "1"}, nil)}
	t.adapter = &Adapter{server: t.server}
	t.server.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			t.seen = req
			return tool(ctx, req)
		})
	t.server.AddSendingMiddleware(t.adapter.sendToClient)
	t.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		wrapped := middleware(t)(next)
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == protocol.MethodCallTool {
				return wrapped(ctx, method, req)
			}
			return next(ctx, method, req)
		}
	})
	ours, theirs := mcp.NewInMemoryTransports()
	session, err := t.server.Connect(ctx, ours, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	client := mcp.NewClient(&mcp.Implementation{Name: "trial", Version: "1"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("the middleware answers")
		},
	})
	client.AddReceivingMiddleware(t.yes)
	peer, err := client.Connect(ctx, theirs, &mcp.ClientSessionOptions{ProtocolVersion: string(version)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = peer.Close() }()
	t.result, err = peer.CallTool(ctx, &mcp.CallToolParams{Name: "t", Arguments: map[string]any{}})
	return t, err
}

// yes answers what is pushed, with what does not fit: the SDK's client would
// not pass that on.
func (t *trial) yes(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != protocol.MethodElicit {
			return next(ctx, method, req)
		}
		t.pushed++
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"n": "not a number"}}, nil
	}
}

func trialQuestion() *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: "trial", RequestedSchema: json.RawMessage(trialForm)}
}

func trialDone(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
}

func trialReturned(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": trialQuestion()}, RequestState: "s"}, nil
}

// tryReplacing: the handler gets the request that the middleware made, session
// included, and what it pushes over that reaches the sending middleware.
func tryReplacing(ctx context.Context) error {
	var shown *mcp.ServerSession
	var pushed bool
	t, err := runTrial(ctx, protocol.V20260728, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, err := req.Session.Elicit(ctx, trialQuestion())
		pushed = errors.Is(err, roundtrip.ErrNoRound)
		return trialDone(ctx, req)
	}, func(t *trial) mcp.Middleware {
		return func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				r := req.(*mcp.CallToolRequest)
				run := &handlerRun{ctx: ctx, call: &call{adapter: t.adapter, session: r.Session, declared: r.ClientCapabilities(), client: r.ClientInfo()}}
				session, err := t.adapter.connectShadow(run, protocol.V20251125)
				if err != nil {
					return nil, err
				}
				defer t.adapter.closeShadow(session)
				shown = session
				params := *r.Params
				params.RequestState = "replaced"
				params.InputResponses = mcp.InputResponseMap{"k": &mcp.ElicitResult{Action: "decline"}}
				return next(ctx, method, &mcp.CallToolRequest{Session: session, Params: &params, Extra: r.Extra})
			}
		}
	})
	switch {
	case err != nil:
		return err
	case t.seen.Session != shown || t.seen.Params.RequestState != "replaced" || t.seen.Params.InputResponses["k"] == nil:
		return errors.New("the handler got something else")
	case !pushed || t.pushed != 0:
		return errors.New("a push over the session did not reach the sending middleware")
	}
	return nil
}

// tryReturned: in a modern revision middleware finds returned questions, and a
// state alone, in the result.
func tryReturned(ctx context.Context) error {
	var found *mcp.CallToolResult
	_, err := runTrial(ctx, protocol.V20260728, trialReturned, func(*trial) mcp.Middleware {
		return func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				result, err := next(ctx, method, req)
				found, _ = result.(*mcp.CallToolResult)
				return result, err
			}
		}
	})
	if err != nil {
		return err
	}
	if found == nil || len(found.InputRequests) != 1 || found.RequestState != "s" {
		return fmt.Errorf("middleware found %+v", found)
	}
	return nil
}

// withLeg runs the rest in a leg, and keeps what came of it.
func withLeg(run *handlerRun, failure *error) func(*trial) mcp.Middleware {
	return func(t *trial) mcp.Middleware {
		return func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				run.ctx, run.call = ctx, &call{adapter: t.adapter}
				result, err := next(context.WithValue(ctx, handlerRunKey{}, run), method, req)
				if *failure = err; err != nil {
					return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
				}
				return result, nil
			}
		}
	}
}

// tryBridge: in a session the SDK asks what a handler has returned through the
// sending middleware, which recognises it and stops it.
func tryBridge(ctx context.Context) error {
	var run handlerRun
	var failure error
	t, err := runTrial(ctx, protocol.V20251125, trialReturned, withLeg(&run, &failure))
	if err != nil {
		return err
	}
	if !run.wasBridged() || !run.call.isBridgeError(failure) || t.pushed != 0 {
		return fmt.Errorf("stopped %t with %v, after %d questions", run.wasBridged(), failure, t.pushed)
	}
	return nil
}

// tryPush: what the handler pushes itself is let through.
func tryPush(ctx context.Context) error {
	var run handlerRun
	var failure error
	t, err := runTrial(ctx, protocol.V20251125, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, _ = req.Session.Elicit(ctx, trialQuestion())
		return trialDone(ctx, req)
	}, withLeg(&run, &failure))
	if err != nil {
		return err
	}
	if run.wasBridged() || failure != nil || t.pushed != 1 {
		return fmt.Errorf("stopped %t with %v, after %d questions", run.wasBridged(), failure, t.pushed)
	}
	return nil
}

// tryErrors: the client gets code and data.
func tryErrors(ctx context.Context) error {
	_, err := runTrial(ctx, protocol.V20260728, trialDone, func(*trial) mcp.Middleware {
		return func(mcp.MethodHandler) mcp.MethodHandler {
			return func(context.Context, string, mcp.Request) (mcp.Result, error) {
				return nil, encodeError(protocol.MissingCapabilities(protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}))
			}
		}
	})
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != protocol.CodeMissingRequiredClientCapability || len(e.Data) == 0 {
		return fmt.Errorf("the client got %v", err)
	}
	return nil
}

// tryUnchecked: the sending middleware can put the question in that is sent,
// and the answer is not held against it.
func tryUnchecked(ctx context.Context) error {
	var answer json.RawMessage
	t, err := runTrial(ctx, protocol.V20251125, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return trialDone(ctx, req)
	}, func(t *trial) mcp.Middleware {
		return func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				c := &call{adapter: t.adapter, session: req.(*mcp.CallToolRequest).Session}
				c.Version = protocol.V20251125
				var err error
				answer, err = pusher{c}.Push(ctx, &protocol.ElicitForm{Message: "trial", Schema: json.RawMessage(trialForm)}, func() {})
				if err != nil {
					return nil, err
				}
				return next(ctx, method, req)
			}
		}
	})
	if err != nil {
		return err
	}
	if t.pushed != 1 || !strings.Contains(string(answer), "not a number") {
		return fmt.Errorf("%d questions, answered %s", t.pushed, answer)
	}
	return nil
}
