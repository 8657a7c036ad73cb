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

// decodeError says a handler's error in the funnel's terms: mcp-go has types of its
// own for two that the protocol gives a code.
func decodeError(err error) error {
	if urls := findURLsRequired(err); urls != nil {
		return urls
	}
	if missing, ok := errors.AsType[mcp.MissingRequiredClientCapabilityError](err); ok {
		return decodeMissingCapability(missing)
	}
	return err
}

// findURLsRequired finds mcp-go's error for visits, returned by value or pointer.
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
		out.Elicitations = append(out.Elicitations, &protocol.ElicitURL{Message: e.Message, URL: e.URL, ElicitationID: e.ElicitationID})
	}
	return out
}

// decodeMissingCapability spells a capability that a handler has found missing, such
// as "elicitation" or "elicitation.url".
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

// isRoundError reports whether err comes from a question, which ends a flow in the
// funnel's words and not in mcp-go's.
func isRoundError(err error) bool {
	if _, ok := protocol.AsError(err); ok {
		return true
	}
	_, asked := errors.AsType[*askError](err)
	_, declined := errors.AsType[*roundtrip.DeclinedError](err)
	_, cancelled := errors.AsType[*roundtrip.CancelledError](err)
	return asked || declined || cancelled
}

// encodeError is how an error of the funnel leaves. mcp-go gives every error of a
// handler the code -32603; where the adapter carries the exchange the right
// one takes its place on the way out. own is what the handler returned.
func (a *Adapter) encodeError(ctx context.Context, err, own error) error {
	e, ok := protocol.AsError(err)
	if !ok {
		return err
	}
	if e.Code == protocol.CodeURLElicitationRequired && findURLsRequired(own) != nil {
		return own // mcp-go knows this one
	}
	rw := rewriterFrom(ctx)
	if rw == nil {
		return e
	}
	m := &markedError{text: e.Message, marker: newMarker(), err: e}
	rw.expectMarker(m.marker, replacement{err: e})
	return m
}

// markedError is an error whose response is replaced on the way out. The marker
// stands in its text, since that is all that mcp-go passes on.
type markedError struct {
	text, marker string
	err          *protocol.Error // nil: a result takes its place
}

func (m *markedError) Error() string { return m.text + " [" + m.marker + "]" }

// Unwrap gives hooks and middleware the error that the client gets.
func (m *markedError) Unwrap() error {
	if m.err == nil {
		return nil
	}
	return m.err
}

// newMarker cannot be guessed: a handler that repeats a client's text in an
// error must not have it taken for a marker.
func newMarker() string { return "rondo-" + rand.Text() }
