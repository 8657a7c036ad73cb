package gosdk

import (
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/rondo-mcp/rondo/protocol"
)

// ErrNotInstalled is returned where a handler asks with a context that is not one
// of a handler of a server with [Install].
var ErrNotInstalled = errors.New("gosdk: not within a handler of a server with gosdk.Install")

// encodeError returns err as the SDK passes it to the client unchanged: errors
// of other types would leave with code 0.
func encodeError(err error) error {
	e, ok := protocol.AsError(err)
	if !ok {
		e = &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
	}
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// decodeError reads an error that came out of the SDK's dispatch, its own or
// a handler's. Of what wraps a JSON-RPC error the text is kept, as the SDK does.
func decodeError(err error) error {
	if isForClient(err) {
		return err
	}
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e == nil {
		return err
	}
	out := &protocol.Error{Code: e.Code, Message: err.Error(), Data: e.Data}
	if error(e) == err {
		out.Message = e.Message
	}
	if urls, ok := out.URLElicitations(); ok {
		return &protocol.URLElicitationRequiredError{Message: e.Message, Elicitations: urls}
	}
	if out.Code == 0 { // reserved for nothing, and means nothing
		return errors.New(out.Message)
	}
	return out
}

// isForClient reports whether a handler has chosen what the client is to get. The
// SDK makes a result of every other error of a typed tool, and of these, too.
func isForClient(err error) bool {
	if _, ok := protocol.AsError(err); ok {
		return true
	}
	urls, ok := errors.AsType[*protocol.URLElicitationRequiredError](err)
	return ok && urls != nil
}
