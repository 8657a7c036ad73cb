package mcpgo

import (
	"context"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/rondo-mcp/rondo/protocol"
)

// Transport wraps a transport of mcp-go. It sends the errors of a client's handlers with
// their codes, where mcp-go gives them all -32603, and lets [ElicitationHandler] report
// progress to the server that asks. The wrapper has the optional methods of the transport.
func Transport(t transport.Interface) transport.Interface { return wrapTransport(t, nil) }

// wrapTransport is [Transport] with a handler of questions, nil: that of the client.
func wrapTransport(t transport.Interface, questions *elicitationHandler) transport.Interface {
	both, ok := t.(transport.BidirectionalInterface)
	if !ok {
		return t
	}
	if _, ok := t.(transport.HTTPConnection); ok {
		return &httpTransport{lineTransport{both, questions}}
	}
	return &lineTransport{both, questions}
}

type lineTransport struct {
	transport.BidirectionalInterface
	// questions handles questions in the place of the client, nil: the client does.
	questions *elicitationHandler
}

// SetRequestHandler adds the connection to the handler's context, and encodes its errors.
func (t *lineTransport) SetRequestHandler(h transport.RequestHandler) {
	t.BidirectionalInterface.SetRequestHandler(func(ctx context.Context,
		r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		handle := h
		if t.questions != nil && r.Method == protocol.MethodElicit {
			handle = t.questions.handleRequest
		}
		response, err := handle(context.WithValue(ctx, transportKey{}, t.BidirectionalInterface), r)
		e, ok := protocol.AsError(err)
		if !ok {
			return response, err
		}
		var data any
		if len(e.Data) > 0 {
			data = e.Data
		}
		return transport.NewJSONRPCErrorResponse(r.ID, int(e.Code), e.Message, data), nil
	})
}

// SetConnectionLostHandler calls the method of transports that have it.
func (t *lineTransport) SetConnectionLostHandler(h func(error)) {
	if inner, ok := t.BidirectionalInterface.(interface{ SetConnectionLostHandler(func(error)) }); ok {
		inner.SetConnectionLostHandler(h)
	}
}

// RequiresLegacyProtocol calls the method of transports that have it.
func (t *lineTransport) RequiresLegacyProtocol() bool {
	inner, ok := t.BidirectionalInterface.(interface{ RequiresLegacyProtocol() bool })
	return ok && inner.RequiresLegacyProtocol()
}

// httpTransport is also an HTTPConnection, which mcp-go's client looks for.
type httpTransport struct{ lineTransport }

// SetProtocolVersion sets the negotiated revision.
func (t *httpTransport) SetProtocolVersion(version string) {
	t.BidirectionalInterface.(transport.HTTPConnection).SetProtocolVersion(version)
}
