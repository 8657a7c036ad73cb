// Package gosdk plugs gateways that are built on the official Go SDK
// (github.com/modelcontextprotocol/go-sdk) into an [elicitation.Router].
//
// A gateway has a server that clients connect to and, behind it, connections to
// upstream servers. [Downstream] is the first side:
//
//	router, err := elicitation.New(&elicitation.Options{Logger: logger, Registerer: registry})
//	clients := gosdk.NewDownstream(router, server, nil)
//
// Each call that goes upstream is begun on it, which says whose it is, and
// runs on an upstream connection whose client has the [ClientOptions] for it:
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
// The SDK does not say which call made the upstream ask: the handler's context
// comes from the connection. Give each call a connection of its own, as above,
// with a key of its own; or share one, wrapped in [elicitation.Router.Exclusive]
// so that one call is on it at a time. When neither is done and two calls are
// on a connection, the router refuses their questions: it does not guess.
//
// # Progress
//
// A client that gave its request a progress token hears on it, while a person is asked,
// that the request is alive ([elicitation.Options].Heartbeat). What the upstream reports
// about the call has to go the same way, so that values rise. Give the call upstream a
// token of the gateway's own and pass its notifications to [RelayProgress], and to
// nothing else:
//
//	relay := func(ctx context.Context, req *mcp.ProgressNotificationClientRequest) {
//		_ = gosdk.RelayProgress(ctx, call, req.Params)
//	}
//	base := &mcp.ClientOptions{ProgressNotificationHandler: relay}
//	client := mcp.NewClient(impl, gosdk.ClientOptions(router, call, key, base))
//	...
//	if !call.Origin().ProgressToken.IsZero() { // else the client wants none
//		params.SetProgressToken("call")
//	}
//
// On a connection that calls share each has a token of its own, by which the handler
// finds the call. After [elicitation.Call.End] nothing is passed on. Clients of servers
// that answer in JSON alone (mcp.StreamableHTTPOptions.JSONResponse) hear of progress
// on the standing stream of their session, if they opened it.
//
// # What the SDK's own types make impossible
//
// The SDK decodes questions and answers before this package sees them. The
// members of a form's schema reach the client in alphabetical order, numbers in
// schemas and answers beyond 2^53 lose digits, and unknown members are dropped.
// The SDK writes a question and waits for its answer in one step, so that
// "delivered" is logged when the answer proves it, not before. Clients of
// revision 2026-07-28 cannot be asked while a request runs; questions for
// them are refused as for a client without the capability.
package gosdk
