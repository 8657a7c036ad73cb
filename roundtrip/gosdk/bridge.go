package gosdk

import (
	"errors"
	"runtime"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// errBridgeStopped stops the SDK from putting returned questions to a legacy client.
var errBridgeStopped = errors.New("the funnel puts the questions to the client")

// bridgeFunction is the function of the SDK that puts one returned question to a legacy
// client. What a handler pushes itself does not pass it, and is let through.
const bridgeFunction = "github.com/modelcontextprotocol/go-sdk/mcp.fulfillServerInputRequest"

// calledByBridge reports whether the SDK's bridge is among the callers: nothing in
// what it sends tells.
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

// The words with which the SDK fails before its bridge sends anything, and in
// place of it where a resource's handler has returned questions.
const (
	bridgeError  = "multi-round-trip: "
	bridgeBusy   = "the server is busy, retry later"
	bridgeUnread = "read handler returned nil information"
)

// isBridgeError reports whether err is of the bridge and not of the handler. To
// be wrong costs a run of the handler.
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
