// Package mcpgo is a gateway on mcp-go. All calls share one upstream connection, and an upstream
// question during a call is sent to the client of that call.
package mcpgo

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/streamhttp"
	"github.com/rondo-mcp/rondo/protocol"
)

const connection = elicitation.UpstreamKey("up")

type gateway struct {
	router   *elicitation.Router
	server   *server.MCPServer
	upstream *client.Client

	mu       sync.Mutex
	sessions map[string]*elicitation.Session // by id
}

// New returns a server with the tools of the upstream at url. stop closes the upstream connection.
func New(ctx context.Context, router *elicitation.Router, url string) (_ *server.MCPServer,
	stop func(), err error) {
	g := &gateway{router: router, sessions: map[string]*elicitation.Session{}}
	//lint:ignore SA1019 on this stream upstreams of older revisions say that a visit is over
	over, err := transport.NewStreamableHTTP(url, transport.WithContinuousListening(),
		transport.WithHTTPBasicClient(&http.Client{Transport: streamhttp.TagStreams(nil)}))
	if err != nil {
		return nil, nil, err
	}
	// The connection is older than the calls, so it declares all that any client may support. The
	// router refuses questions that a call's client does not support.
	both := &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
	g.upstream = client.NewClient(&questionTransport{over, g},
		client.WithClientCapabilities(mcp.ClientCapabilities{Elicitation: both}))
	g.upstream.OnNotification(func(n mcp.JSONRPCNotification) {
		id, ok := n.Params.AdditionalFields["elicitationId"].(string)
		if ok && n.Method == protocol.NotifyElicitationCompleted {
			_, _ = router.HandleURLCompletion(context.Background(), connection, id)
		}
	})
	tools, err := g.connect(ctx)
	if err != nil {
		_ = g.upstream.Close()
		return nil, nil, err
	}
	hooks := &server.Hooks{}
	hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) { g.detach(s) })
	g.server = server.NewMCPServer("gateway", "1.0.0", server.WithElicitation(),
		server.WithHooks(hooks))
	for _, tool := range tools.Tools {
		g.server.AddTool(tool, g.callTool)
	}
	return g.server, func() { _ = g.upstream.Close() }, nil
}

func (g *gateway) connect(ctx context.Context) (*mcp.ListToolsResult, error) {
	if err := g.upstream.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = "2025-11-25"
	hello.Params.ClientInfo = mcp.Implementation{Name: "gateway", Version: "1.0.0"}
	if _, err := g.upstream.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	return g.upstream.ListTools(ctx, mcp.ListToolsRequest{})
}

func (g *gateway) callTool(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult,
	error) {
	session, err := g.attachSession(ctx)
	if err != nil {
		return nil, err
	}
	call, err := g.router.Begin(ctx, elicitation.Origin{Session: session},
		elicitation.ViaAsker(elicitation.AskFunc(g.askClient)), connection)
	if err != nil {
		return nil, err
	}
	defer call.End()
	var passed mcp.CallToolRequest
	passed.Params.Name, passed.Params.Arguments = req.Params.Name, req.Params.Arguments
	result, err := g.upstream.CallTool(streamhttp.WithCall(ctx, call), passed)
	if err == nil {
		call.ConfirmUpstreamEnd()
	}
	return result, err
}

func (g *gateway) attachSession(ctx context.Context) (*elicitation.Session, error) {
	of := server.ClientSessionFromContext(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.sessions[of.SessionID()]; known != nil {
		return known, nil
	}
	// A gateway that knows its users also sets the principal.
	about := elicitation.SessionInfo{
		Notify: elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
			var params protocol.ElicitationCompleted
			if err := json.Unmarshal(m.(*protocol.Notification).Params, &params); err != nil {
				return err
			}
			return g.server.SendElicitationComplete(ctx, of, params.ElicitationID)
		}),
	}
	if client, ok := of.(server.SessionWithClientInfo); ok {
		about.LogName = client.GetClientInfo().Name
		declared, err := json.Marshal(client.GetClientCapabilities())
		if err == nil {
			about.Capabilities, err = protocol.DecodeClientCapabilities(declared)
		}
		if err != nil {
			return nil, err
		}
	}
	session, err := g.router.Attach(about)
	if err == nil {
		g.sessions[of.SessionID()] = session
	}
	return session, err
}

func (g *gateway) detach(of server.ClientSession) {
	g.mu.Lock()
	session := g.sessions[of.SessionID()]
	delete(g.sessions, of.SessionID())
	g.mu.Unlock()
	if session != nil {
		session.Detach()
	}
}

// A questionTransport passes upstream questions to the router. The SDK's client would refuse some
// questions, and give every error the code -32603.
type questionTransport struct {
	*transport.StreamableHTTP
	gateway *gateway
}

// SetRequestHandler makes the router handle questions before next.
func (t *questionTransport) SetRequestHandler(next transport.RequestHandler) {
	t.StreamableHTTP.SetRequestHandler(func(ctx context.Context, r transport.JSONRPCRequest) (
		*transport.JSONRPCResponse, error) {
		if r.Method != protocol.MethodElicit {
			return next(ctx, r)
		}
		params, err := json.Marshal(r.Params)
		if err != nil {
			return nil, err
		}
		answer, err := t.gateway.router.ElicitFrom(ctx, connection, params)
		if e, ok := protocol.AsError(err); ok {
			var data any // a nil e.Data would be sent as null
			if e.Data != nil {
				data = e.Data
			}
			return transport.NewJSONRPCErrorResponse(r.ID, int(e.Code), e.Message, data), nil
		}
		result, err := json.Marshal(answer)
		return transport.NewJSONRPCResultResponse(r.ID, result), err
	})
}

// clientError is mcp-go's text for a client's error response.
var clientError = regexp.MustCompile(`^elicitation/create error (-?[0-9]+): (?s:(.*))$`)

// askClient is an [elicitation.AskFunc]. From ctx mcp-go finds the session and stream.
func (g *gateway) askClient(ctx context.Context, q elicitation.Question, _ func()) (
	json.RawMessage, error) {
	var request mcp.ElicitationRequest
	if err := json.Unmarshal(q.Params, &request.Params); err != nil {
		return nil, err
	}
	result, err := g.server.RequestElicitation(ctx, request)
	if err == nil {
		return json.Marshal(result)
	}
	if parts := clientError.FindStringSubmatch(err.Error()); parts != nil {
		code, _ := strconv.ParseInt(parts[1], 10, 64)
		return nil, &protocol.Error{Code: code, Message: parts[2]}
	}
	if strings.HasPrefix(err.Error(), "failed to unmarshal elicitation response: ") {
		return json.RawMessage("null"), nil // this was the client's result; the router refuses it
	}
	return nil, err
}
