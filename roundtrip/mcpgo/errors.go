package mcpgo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// decodeError converts a handler's error for the funnel. mcp-go has two types of errors
// for which the protocol has a code.
func decodeError(err error) error {
	if urls := findURLsRequired(err); urls != nil {
		return urls
	}
	if missing, ok := errors.AsType[mcp.MissingRequiredClientCapabilityError](err); ok {
		return decodeMissingCapability(missing)
	}
	return err
}

// findURLsRequired converts mcp-go's error that asks for visits, which handlers may return
// by value or by pointer; nil if err is none.
func findURLsRequired(err error) *protocol.URLElicitationRequiredError {
	required, ok := errors.AsType[mcp.URLElicitationRequiredError](err)
	if !ok {
		p, ok := errors.AsType[*mcp.URLElicitationRequiredError](err)
		if !ok || p == nil {
			return nil
		}
		required = *p
	}
	out := &protocol.URLElicitationRequiredError{}
	for _, e := range required.Elicitations {
		out.Elicitations = append(out.Elicitations,
			&protocol.ElicitURL{Message: e.Message, URL: e.URL, ElicitationID: e.ElicitationID})
	}
	return out
}

// decodeMissingCapability converts mcp-go's error for a missing capability, which names it
// by a path such as "elicitation" or "elicitation.url".
func decodeMissingCapability(e mcp.MissingRequiredClientCapabilityError) error {
	raw := "{}"
	parts := strings.Split(e.Capability, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		raw = fmt.Sprintf("{%q:%s}", parts[i], raw)
	}
	missing, err := protocol.DecodeClientCapabilities([]byte(raw))
	if err != nil || missing.IsZero() {
		return protocol.Errorf(protocol.CodeMissingRequiredClientCapability, "%s", e.Error())
	}
	return protocol.MissingCapabilities(missing)
}

// isRoundError reports whether err comes from a question. The client gets the funnel's
// result for it, and not mcp-go's JSON-RPC error.
func isRoundError(err error) bool {
	if _, ok := protocol.AsError(err); ok {
		return true
	}
	_, asked := errors.AsType[*askError](err)
	_, declined := errors.AsType[*roundtrip.DeclinedError](err)
	_, cancelled := errors.AsType[*roundtrip.CancelledError](err)
	_, unseen := errors.AsType[*roundtrip.UnseenError](err)
	return asked || declined || cancelled || unseen
}

// encodeError returns the error that the middleware returns to mcp-go for an error of the
// funnel. mcp-go sends every error with the code -32603; behind [Adapter.Handler] and
// [Adapter.Listen] the response is rewritten. own is the handler's error.
func (a *Adapter) encodeError(ctx context.Context, err, own error) error {
	e, ok := protocol.AsError(err)
	if !ok {
		return err
	}
	if e.Code == protocol.CodeURLElicitationRequired && findURLsRequired(own) != nil {
		return own // mcp-go sends this one with its code and data
	}
	if e.Code == protocol.CodeHandlerError && !isRoundError(own) {
		return keepPlainError(e.Message, own)
	}
	rw := rewriterFrom(ctx)
	if rw == nil {
		return e
	}
	m := &markedError{text: e.Message, marker: newMarker(), err: e}
	rw.expectMarker(m.marker, replacement{err: e})
	return m
}

// keepPlainError returns the error of a prompt's or resource's handler for mcp-go, which
// sends the text with its own code. It is the handler's own error, for middleware, unless
// the funnel has changed the text.
func keepPlainError(text string, own error) error {
	if own != nil && own.Error() == text {
		return own
	}
	return errors.New(text)
}

// markedError is an error whose response is rewritten. The rewriter finds it by the
// marker in its text, since mcp-go sends nothing else of an error.
type markedError struct {
	text, marker string
	err          *protocol.Error // nil: a result takes its place
}

func (m *markedError) Error() string { return m.text + " [" + m.marker + "]" }

// Unwrap returns the error that the client gets, for hooks and middleware.
func (m *markedError) Unwrap() error {
	if m.err == nil {
		return nil
	}
	return m.err
}

// newMarker returns a marker that cannot be guessed: the text of an error may quote what
// a client sent.
func newMarker() string { return "rondo-" + rand.Text() }
