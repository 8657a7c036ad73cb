package middleware

import (
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// pushFailureText says why nobody answered a question. Of a client's own error
// only the code is told: its words may be anything.
func pushFailureText(e roundtrip.PushFailed) string {
	if e.Err == nil {
		return ""
	}
	if said, ok := protocol.AsError(e.Err); ok && said.Code != protocol.CodeBusy {
		return fmt.Sprintf("the client answered with an error, code %d", said.Code)
	}
	return escapeText(e.Err.Error(), maxText)
}

// The values of the label of failed pushes.
const (
	pushRefused   = "refused"
	pushTolerated = "tolerated"
)

func pushOutcome(e roundtrip.PushFailed) string {
	if e.Tolerated {
		return pushTolerated
	}
	return pushRefused
}
