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
// whose client is one of [NewSharedClient]:
//
//	shared := gosdk.NewSharedClient(router, key, impl, nil)
//	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: gosdk.HTTPClient(nil)}
//	session, err := shared.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
//	...
//	call, err := clients.Begin(ctx, req, key)
//	if err != nil {
//		return nil, err
//	}
//	defer call.End()
//	return session.CallTool(gosdk.WithCall(gosdk.UpstreamContext(ctx), call), params)
//
// # Which call asks
//
// The SDK does not report which call caused a question of the upstream: the context of the
// handler comes from the connection. Over HTTP the stream says it: an upstream asks on the
// response to the request that it serves. [HTTPClient] marks the questions on such a response
// with the call of [WithCall], and any number of calls of any number of users may share one
// connection. Questions on the standing stream of the connection, which belongs to no call,
// are for the only call in flight, if there is one.
//
// On standard input and output nothing says it. Give each call a connection of its own, with
// a key of its own and the client of [NewClient]; or share one, and use
// [elicitation.Router.AcquireUpstream] so that one call uses it at a time. Where two calls use
// such a connection the router refuses the questions on it: it cannot know whose they are.
//
// Use [UpstreamContext] for all requests upstream. The SDK keeps the revision of the client
// in the context of a handler, and would speak it with the upstream.
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
//	client := gosdk.NewClient(router, call, key, impl, base)
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
