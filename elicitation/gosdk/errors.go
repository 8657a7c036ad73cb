package gosdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// decodeError converts the error of a client for the router.
func decodeError(err error) error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &protocol.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	return fmt.Errorf("elicitation: asking the client: %w", err)
}

// encodeError converts an error of the router for the peer. Other errors become internal
// errors without their text.
func encodeError(err error) error {
	e, ok := protocol.AsError(err)
	if !ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
	}
	wire := &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	if e.Code == jsonrpc.CodeMethodNotFound {
		return methodNotFound{wire}
	}
	return wire
}

// methodNotFound is an error -32601 that keeps its message. The SDK replaces the message of
// every error that errors.Is finds to be its own -32601, which compares codes. It reads the
// code by errors.As, and the message from Error. methodNotFound therefore has neither Unwrap
// nor Is. Its data is not sent.
type methodNotFound struct{ wire *jsonrpc.Error }

// Error returns the message for the peer.
func (e methodNotFound) Error() string { return e.wire.Message }

// As sets a target of type **jsonrpc.Error.
func (e methodNotFound) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = e.wire
	}
	return ok
}

// unreachable is an [upstream.Unreachable] with a code.
type unreachable struct{ upstream.Unreachable }

// As sets a target of type **jsonrpc.Error, from which the SDK reads the code.
func (e unreachable) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Error()}
	}
	return ok
}

// encodeRefusals is the receiving middleware of the gateway's server that gives errors of
// the router, which a handler returns, their code and data, and ends the calls that it left.
func encodeRefusals(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ctx, end := upstream.WithRequest(ctx)
		defer end()
		result, err := next(ctx, method, req)
		if refused, ok := errors.AsType[*elicitation.Error](err); ok {
			return nil, encodeError(refused)
		}
		return result, err
	}
}
