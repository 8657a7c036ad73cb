package mcpgo

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// cancelTimeout bounds the sending of the notification that a request is cancelled.
const cancelTimeout = 5 * time.Second

// Transport wraps a transport of mcp-go. It sends the errors of a client's handlers with
// their codes, where mcp-go gives them all -32603, and lets [ElicitationHandler] report
// progress to the server that asks. Over HTTP it tells servers of older revisions when a request
// is cancelled, where mcp-go only closes the stream. The wrapper has the optional methods of the
// transport.
func Transport(t transport.Interface) transport.Interface { return wrapTransport(t, nil) }

// wrapTransport is [Transport] with a handler of questions, nil: that of the client.
func wrapTransport(t transport.Interface, questions *elicitationHandler) transport.Interface {
	both, ok := t.(transport.BidirectionalInterface)
	if !ok {
		return t
	}
	if _, ok := t.(transport.HTTPConnection); ok {
		return &httpTransport{lineTransport: lineTransport{both, questions}}
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
	type lossReporter interface{ SetConnectionLostHandler(func(error)) }
	if inner, ok := t.BidirectionalInterface.(lossReporter); ok {
		inner.SetConnectionLostHandler(h)
	}
}

// RequiresLegacyProtocol calls the method of transports that have it.
func (t *lineTransport) RequiresLegacyProtocol() bool {
	inner, ok := t.BidirectionalInterface.(interface{ RequiresLegacyProtocol() bool })
	return ok && inner.RequiresLegacyProtocol()
}

// upstreamErrorKey is the context key of where the error of a response is kept.
type upstreamErrorKey struct{}

// SendRequest keeps the error of the response: mcp-go makes a text of it.
func (t *lineTransport) SendRequest(ctx context.Context,
	request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.BidirectionalInterface.SendRequest(ctx, request)
	if kept, ok := ctx.Value(upstreamErrorKey{}).(**protocol.Error); ok && err == nil {
		*kept = decodeResponseError(response)
	}
	return response, err
}

// decodeResponseError returns the error of a response, nil if it has none.
func decodeResponseError(response *transport.JSONRPCResponse) *protocol.Error {
	if response == nil || response.Error == nil {
		return nil
	}
	e := &protocol.Error{Code: int64(response.Error.Code), Message: response.Error.Message}
	if response.Error.Data != nil {
		e.Data, _ = json.Marshal(response.Error.Data) // it was JSON
	}
	return e
}

// httpTransport is also an HTTPConnection, which mcp-go's client looks for.
type httpTransport struct {
	lineTransport
	modern atomic.Bool // the closed stream is the cancellation
}

// SetProtocolVersion sets the negotiated revision.
func (t *httpTransport) SetProtocolVersion(version string) {
	t.modern.Store(mcp.IsModernProtocol(version))
	t.BidirectionalInterface.(transport.HTTPConnection).SetProtocolVersion(version)
}

// SendRequest also cancels a request whose context ends: in older revisions a stream that is
// closed cancels nothing, and the upstream would go on and ask where nobody listens.
func (t *httpTransport) SendRequest(ctx context.Context,
	request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.lineTransport.SendRequest(ctx, request)
	switch request.Method {
	case protocol.MethodInitialize, protocol.MethodDiscover:
	default:
		if err != nil && ctx.Err() != nil && !t.modern.Load() {
			go t.sendCancelled(context.WithoutCancel(ctx), request.ID, ctx.Err().Error())
		}
	}
	return response, err
}

func (t *httpTransport) sendCancelled(ctx context.Context, id mcp.RequestId, reason string) {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	var n mcp.JSONRPCNotification
	n.JSONRPC, n.Method = mcp.JSONRPC_VERSION, protocol.NotifyCancelled
	n.Params.AdditionalFields = map[string]any{"requestId": id, "reason": reason}
	_ = t.SendNotification(ctx, n) // the upstream may not know it
}
