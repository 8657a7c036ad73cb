package middleware

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// The outcomes of a leg in logs and metrics.
const (
	outcomeComplete      = "complete"
	outcomeInputRequired = "input_required"
	outcomeToolError     = "tool_error"
	outcomeTimeout       = "timeout"
	outcomeCancelled     = "cancelled"
	outcomePanic         = "panic"
	outcomeInternalError = "internal_error"
)

// outcomeOf names the outcome of a leg. A failure after ctx was cancelled counts as cancelled.
func outcomeOf(ctx context.Context, l *leg, result protocol.Result, err error) string {
	name := outcomeOfAnswer(result, err)
	switch name {
	case outcomeComplete, outcomeInputRequired:
		return name
	case outcomeToolError, outcomeInternalError, "handler_error", outcomeTimeout:
		if l.timedOut.Load() {
			return outcomeTimeout
		}
		if ctx.Err() != nil {
			return outcomeCancelled
		}
	}
	return name
}

func outcomeOfAnswer(result protocol.Result, err error) string {
	if err != nil {
		e, ok := protocol.AsError(err)
		if !ok {
			return outcomeInternalError // the response is an internal error
		}
		return codeName(e.Code)
	}
	// Exact types only: methods of a forged result may panic.
	switch r := result.(type) {
	case nil:
		return outcomeInternalError
	case *protocol.InputRequiredResult:
		return outcomeInputRequired
	case *protocol.CallToolResult:
		if r != nil && r.IsError {
			return outcomeToolError
		}
	}
	return outcomeComplete
}

// codeName names an error code. Codes made up by handlers share a name.
func codeName(code int64) string {
	switch code {
	case protocol.CodeParseError:
		return "parse_error"
	case protocol.CodeInvalidRequest:
		return "invalid_request"
	case protocol.CodeMethodNotFound:
		return "method_not_found"
	case protocol.CodeInvalidParams:
		return "invalid_params"
	case protocol.CodeInternalError:
		return outcomeInternalError
	case protocol.CodeHeaderMismatch:
		return "header_mismatch"
	case protocol.CodeMissingRequiredClientCapability:
		return "missing_capability"
	case protocol.CodeUnsupportedProtocolVersion:
		return "unsupported_version"
	case protocol.CodeResourceNotFound:
		return "resource_not_found"
	case protocol.CodeURLElicitationRequired:
		return "url_elicitation_required"
	case protocol.CodeRefused:
		return "refused"
	case protocol.CodeFlowEnded:
		return "flow_ended"
	case protocol.CodeHandlerError:
		return "handler_error"
	case protocol.CodeBusy:
		return "busy"
	case protocol.CodeTimeout:
		return outcomeTimeout
	case protocol.CodeCannotAsk:
		return "cannot_ask"
	case protocol.CodeInsufficientScope:
		return "insufficient_scope"
	}
	return "other_error"
}
