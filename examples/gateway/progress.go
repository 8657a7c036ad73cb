package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// upstreamToken is what upstreams report progress under. A connection serves one
// call, so one token will do; the client's may be of a type that the SDK's
// clients do not send.
const upstreamToken = "call"

// wantsProgress reports whether the client of a call gave a progress token.
func wantsProgress(call *elicitation.Call) bool { return !call.Origin().ProgressToken.IsZero() }

// progressOptions returns the options of the connection that the call goes on: what
// the upstream reports about it is passed on to the client, by the router, which sends
// heartbeats on the same token while a person is asked. It drops what the SDK hands
// over after the call has ended. Relaying waits for the client, so that reports stay
// in order.
func progressOptions(call *elicitation.Call) *mcp.ClientOptions {
	if !wantsProgress(call) {
		return nil
	}
	relay := func(ctx context.Context, req *mcp.ProgressNotificationClientRequest) {
		if req.Params.ProgressToken == upstreamToken {
			// A client that is gone hears nothing; the end of the call shows it.
			_ = gosdk.RelayProgress(ctx, call, req.Params)
		}
	}
	return &mcp.ClientOptions{ProgressNotificationHandler: relay}
}
