package gosdk

import (
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// errNotInstalled is returned where a handler asks with a context that is not one of a handler
// of a server with an [Adapter].
var errNotInstalled = fmt.Errorf("gosdk: %w: not within a handler of a server that has the "+
	"adapter; see Adapter.Install", roundtrip.ErrNoRound)

// encodeError returns err as the one type of error that the SDK sends unchanged. Errors
// of other types would be sent with code 0. All but a [*protocol.Error] are internal
// errors to the client.
func encodeError(err error) error {
	e, ok := protocol.AsError(err)
	if !ok {
		e = &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
	}
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// encodeHostError is encodeError for an error of the funnel. Where the funnel has made it of
// an error without a code, it gets the code that the SDK sends for such an error.
func (c *call) encodeHostError(err error) error {
	if e, ok := protocol.AsError(err); ok && e.Code == protocol.CodeHandlerError &&
		c.plainError != nil && !isForClient(c.plainError) {
		return &jsonrpc.Error{Code: hostErrorCode, Message: e.Message, Data: e.Data}
	}
	return encodeError(err)
}

// hostToolError returns the error that the SDK sends where an unmodified tool that was not added
// with mcp.AddTool fails without a code, and nothing was asked; nil for all other results. The
// funnel has made result of the error, in its own words.
func (c *call) hostToolError(result protocol.Result) error {
	r, ok := result.(*protocol.CallToolResult)
	if !ok || !c.adapter.opts.UnmodifiedHandlers || c.plainError == nil || c.usedAnswer() ||
		isForClient(c.plainError) || !r.IsError || len(r.Content) != 1 {
		return nil
	}
	text, ok := r.Content[0].(*protocol.TextContent)
	if !ok || text.Text != c.plainError.Error() {
		return nil
	}
	return &jsonrpc.Error{Code: hostErrorCode, Message: text.Text}
}

// hostErrorCode is the code that the SDK sends for an error without one.
const hostErrorCode = 0

// decodeError converts an error that came out of the SDK's dispatch, its own or a
// handler's. The text of an error that wraps a JSON-RPC error is kept, as the SDK does.
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

// isForClient reports whether err is one that the handler addressed to the client. The
// SDK turns every error of a typed tool into a result, these as well.
func isForClient(err error) bool {
	if _, ok := protocol.AsError(err); ok {
		return true
	}
	urls, ok := errors.AsType[*protocol.URLElicitationRequiredError](err)
	return ok && urls != nil
}
