// Package gosdk plugs gateways that are built on the official Go SDK
// (github.com/modelcontextprotocol/go-sdk) into an [elicitation.Router].
//
// A gateway has a server that clients connect to and, behind it, connections to
// upstream servers. [Downstream] is the first side:
//
//	router, err := elicitation.New(&elicitation.Options{Logger: logger, Registerer: registry})
//	clients, err := gosdk.NewDownstream(router, server, nil)
//
// A handler begins a call on it for each request that it passes upstream, on a connection
// whose client has the [ClientOptions] of the call:
//
//	call, err := clients.Begin(ctx, req, key)
//	if err != nil {
//		return nil, err
//	}
//	defer call.End()
//	client := mcp.NewClient(impl, gosdk.ClientOptions(router, call, key, nil))
//	session, err := client.Connect(ctx, transport, nil)
//	...
//	return session.CallTool(ctx, params)
//
// # One connection, one call
//
// The SDK does not report which call caused a question of the upstream: the context of the
// handler comes from the connection. Give each call a connection of its own, as above,
// with a key of its own; or share one, and use [elicitation.Router.AcquireUpstream] so that one
// call uses it at a time. Where two calls use a connection the router refuses the
// questions on it: it cannot know whose they are.
//
// # Progress
//
// While a person is asked, a client that gave its request a progress token gets progress
// on it ([elicitation.Options].Heartbeat). Progress of the upstream on the call must be
// sent through the router as well, so that values increase. Give the upstream call a token
// of the gateway's own and pass its notifications to [RelayProgress], and to nothing else:
//
//	relay := func(ctx context.Context, req *mcp.ProgressNotificationClientRequest) {
//		_ = gosdk.RelayProgress(ctx, call, req.Params)
//	}
//	base := &mcp.ClientOptions{ProgressNotificationHandler: relay}
//	client := mcp.NewClient(impl, gosdk.ClientOptions(router, call, key, base))
//	...
//	if !call.Origin().ProgressToken.IsZero() { // else the client asked for none
//		params.SetProgressToken("call")
//	}
//
// On a connection that calls share each call has a token of its own, by which the handler
// finds the call. After [elicitation.Call.End] nothing is relayed. Clients of servers that
// respond with JSON (mcp.StreamableHTTPOptions.JSONResponse) get progress on the standing
// stream of their session, if they opened it.
//
// # Limits
//
// The SDK decodes questions and answers before this package sees them. The members of a
// form's schema reach the client in alphabetical order, integers in schemas and answers
// beyond 2^53 lose digits, and unknown members are dropped. The SDK sends a question and
// waits for its answer in one step, so that "delivered" is logged when the answer arrives.
// Clients of revision 2026-07-28 cannot be asked while a request runs; questions for them
// are refused as for a client without the capability.
package gosdk
