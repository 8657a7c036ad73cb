package bridge

import (
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// The errors for clients. The texts are in the page about troubleshooting.

func errInvalidState() *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidParams, "Invalid or expired requestState")
}

func errExpired() *protocol.Error {
	return protocol.Errorf(protocol.CodeFlowEnded, "The call has expired, call again")
}

// errGone is for a call that is over and forgotten.
func errGone() *protocol.Error {
	return protocol.Errorf(protocol.CodeFlowEnded,
		"The call is over: its result was sent, or it was given up")
}

func errOwnerGone() *protocol.Error {
	return protocol.Errorf(protocol.CodeFlowEnded,
		"The server that held the call is gone; what the call has done is not known")
}

func errTooManyRounds() *protocol.Error {
	return protocol.Errorf(protocol.CodeFlowEnded, "The upstream server asked too often")
}

func errNotHeld() *protocol.Error {
	return protocol.Errorf(protocol.CodeFlowEnded,
		"The call has ended, and there was no room to keep its result")
}

func errTooLargeForBus(what string) *protocol.Error {
	return protocol.Errorf(protocol.CodeFlowEnded,
		"The %s too large to be passed on between the servers of the gateway", what)
}

func errUnreachable() *protocol.Error {
	return quota.Refuse(quota.None, busyRetryAfter,
		"The server that holds the call cannot be reached, try again")
}

func errShuttingDown() *protocol.Error {
	return quota.Refuse(quota.None, busyRetryAfter, "The gateway is shutting down")
}
