package gosdk

import (
	"errors"
	"runtime"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// The SDK has a bridge to legacy clients: where a handler returns questions it pushes
// them itself, for one round. The adapter stops the bridge before it sends anything,
// since the funnel validates answers, and knows more than one round.

// errBridgeStopped is returned to the bridge in place of the answer to its question.
var errBridgeStopped = errors.New("the funnel puts the questions to the client")

// bridgeFunction is the function of the SDK that pushes one returned question. It is not
// on the call stack of a question that a handler pushes itself.
const bridgeFunction = "github.com/modelcontextprotocol/go-sdk/mcp.fulfillServerInputRequest"

// calledByBridge reports whether the SDK's bridge is on the call stack. Its questions
// cannot be recognized by what they contain.
func calledByBridge() bool {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if frame.Function == bridgeFunction {
			return true
		}
		if !more {
			return false
		}
	}
}

// The texts of the SDK's errors where it fails before the bridge sends anything; the
// last is that of a resource handler which returned questions and no contents.
const (
	bridgeError  = "multi-round-trip: "
	bridgeBusy   = "the server is busy, retry later"
	bridgeUnread = "read handler returned nil information"
)

// isBridgeError reports whether err comes from the bridge and not from the handler.
// Where it is wrong the handler runs once more than needed.
func (c *call) isBridgeError(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, errBridgeStopped):
		return true
	case c.method == protocol.MethodReadResource && strings.HasSuffix(err.Error(), bridgeUnread):
		return c.Version.Era() == protocol.Legacy || c.shadowVersion() != ""
	}
	return strings.HasPrefix(err.Error(), bridgeError) || err.Error() == bridgeBusy
}
