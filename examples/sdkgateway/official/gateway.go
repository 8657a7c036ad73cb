// Package official is a gateway on the official Go SDK. All calls share one upstream connection,
// and an upstream question during a call is sent to the client of that call.
package official

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/streamhttp"
	"github.com/rondo-mcp/rondo/protocol"
)

const connection = elicitation.UpstreamKey("up")

var info = &mcp.Implementation{Name: "gateway", Version: "1.0.0"}

type gateway struct {
	router   *elicitation.Router
	upstream *mcp.ClientSession

	mu       sync.Mutex
	sessions map[*mcp.ServerSession]*elicitation.Session
}

// New returns a server with the tools of the upstream at url. stop closes the upstream connection.
func New(ctx context.Context, router *elicitation.Router, url string) (_ *mcp.Server, stop func(),
	err error) {
	g := &gateway{router: router, sessions: map[*mcp.ServerSession]*elicitation.Session{}}
	// The connection is older than the calls, so it declares all that any client may support. The
	// router refuses questions that a call's client does not support.
	client := mcp.NewClient(info, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationCompleteHandler: func(ctx context.Context,
			req *mcp.ElicitationCompleteNotificationRequest) {
			_, _ = router.HandleURLCompletion(ctx, connection, req.Params.ElicitationID)
		},
	})
	client.AddReceivingMiddleware(g.receiveQuestions)
	g.upstream, err = client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url,
		HTTPClient: &http.Client{Transport: streamhttp.TagStreams(nil)},
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return nil, nil, err
	}
	server := mcp.NewServer(info, nil)
	for tool, err := range g.upstream.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, errors.Join(err, g.upstream.Close())
		}
		server.AddTool(tool, g.callTool)
	}
	return server, func() { _ = g.upstream.Close() }, nil
}

func (g *gateway) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult,
	error) {
	session, err := g.attachSession(req.Session)
	if err != nil {
		return nil, err
	}
	call, err := g.router.Begin(ctx, elicitation.Origin{Session: session},
		elicitation.ViaAsker(asker{req.Session}), connection)
	if err != nil {
		return nil, encodeError(err)
	}
	defer call.End()
	params := &mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments}
	result, err := g.upstream.CallTool(streamhttp.WithCall(ctx, call), params)
	if err == nil {
		call.ConfirmUpstreamEnd()
	}
	return result, err
}

func (g *gateway) attachSession(of *mcp.ServerSession) (*elicitation.Session, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.sessions[of]; known != nil {
		return known, nil
	}
	client := of.InitializeParams()
	declared, err := json.Marshal(client.Capabilities)
	if err != nil {
		return nil, err
	}
	capabilities, err := protocol.DecodeClientCapabilities(declared)
	if err != nil {
		return nil, err
	}
	// A gateway that knows its users also sets the principal.
	session, err := g.router.Attach(elicitation.SessionInfo{
		LogName: client.ClientInfo.Name, Capabilities: capabilities,
		Notify: elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
			var params mcp.ElicitationCompleteParams
			if err := json.Unmarshal(m.(*protocol.Notification).Params, &params); err != nil {
				return err
			}
			return of.NotifyElicitationComplete(ctx, &params)
		}),
	})
	if err != nil {
		return nil, encodeError(err)
	}
	g.sessions[of] = session
	go func() {
		_ = of.Wait()
		session.Detach()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sessions, of)
	}()
	return session, nil
}

// receiveQuestions passes upstream questions to the router. The SDK would refuse some of them.
func (g *gateway) receiveQuestions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		question, ok := req.(*mcp.ElicitRequest)
		if !ok {
			return next(ctx, method, req)
		}
		if question.Params.Mode == "" {
			question.Params.Mode = "form" // the SDK would send an empty mode
		}
		params, err := json.Marshal(question.Params)
		if err != nil {
			return nil, err
		}
		answer, err := g.router.ElicitFrom(ctx, connection, params)
		if err != nil {
			return nil, encodeError(err)
		}
		result := &mcp.ElicitResult{}
		data, err := json.Marshal(answer)
		if err == nil {
			err = json.Unmarshal(data, result)
		}
		return result, err
	}
}

type asker struct{ session *mcp.ServerSession }

// Ask implements [elicitation.Asker]. From ctx, the client's request, the SDK finds its stream.
func (a asker) Ask(ctx context.Context, q elicitation.Question, _ func()) (json.RawMessage, error) {
	params := &mcp.ElicitParams{}
	if err := json.Unmarshal(q.Params, params); err != nil {
		return nil, err
	}
	result, err := a.session.Elicit(ctx, params)
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, &protocol.Error{Code: wire.Code, Message: wire.Message, Data: wire.Data}
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return json.RawMessage("null"), nil // this was the client's result; the router refuses it
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func encodeError(err error) error {
	e, ok := protocol.AsError(err)
	if !ok {
		return err
	}
	return wireError{&jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}}
}

// A wireError keeps its message. If errors.Is finds a -32601, the SDK replaces the message with its
// own. It reads the code with errors.As.
type wireError struct{ wire *jsonrpc.Error }

func (e wireError) Error() string { return e.wire.Message }

// As sets target if it has the type **jsonrpc.Error.
func (e wireError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = e.wire
	}
	return ok
}
