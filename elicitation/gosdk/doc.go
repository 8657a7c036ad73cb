// Package gosdk plugs gateways that are built on the official Go SDK
// (github.com/modelcontextprotocol/go-sdk) into an [elicitation.Router].
//
// A gateway has a server that clients connect to and, behind it, connections to
// upstream servers. [Downstream] is the first side:
//
//	router, err := elicitation.New(&elicitation.Options{Log: zaplog.New(logger)})
//	clients, err := gosdk.NewDownstream(router, server, nil)
//	handler := clients.Handler(mcp.NewStreamableHTTPHandler(getServer, nil))
//
// An [Upstream] is a server on the other side, with the connections to it:
//
//	up, err := clients.NewUpstream(gosdk.UpstreamOptions{
//		Name: "files", Implementation: impl,
//		Transport: func(string) mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: url} },
//	})
//	defer up.Close()
//	err = up.Publish(ctx, server)
//
// Its tools are tools of the gateway then, the tool "deploy" as "files_deploy", and so are its
// prompts and resources. What the upstream asks while it serves one reaches the client whose call
// it serves; so do progress and log messages. Completion and subscriptions are not passed on. The
// example of the package is this as a program.
//
// # Connections of the host's own
//
// A host that has more to do for a call begins and ends it itself, on a connection whose
// client is one of [NewSharedClient] or [NewClient]:
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
// These clients pass questions to the router before the SDK looks at them: it refuses, logs
// and counts those that the client of the call has not declared, and passes on schemas and
// answers that the SDK would refuse. Errors of the router in what a handler of the gateway
// returns reach the client with their code and data.
//
// Use [UpstreamContext] for all requests upstream. The SDK keeps the revision of the client
// in the context of a handler, and would speak it with the upstream.
//
// # Which call asks
//
// The SDK does not report which call caused a question of the upstream: the context of the
// handler comes from the connection. Over HTTP the stream says it: an upstream asks on the
// response to the request that it serves. [HTTPClient] marks the questions on such a response
// with the call of [WithCall], and any number of calls of any number of users may share one
// connection. A call that is cancelled disturbs no other. All questions of a connection
// count against [elicitation.Options].Limits.PerUpstream.
//
// On standard input and output, and on the standing stream of a connection, nothing says it.
// Where all calls in flight on the connection are of one client the question is put to it,
// on the standing stream of its session; where they are not, it is refused. To avoid that,
// let one call use such a connection at a time, as [Upstream] does and
// [elicitation.Router.AcquireUpstream] does for connections of the host's own, or give each
// call its own, with a key of its own. After a call that was given up open another
// connection: [elicitation.Router.HasAbandonedCalls].
//
// # Progress
//
// While a person is asked, a client that gave its request a progress token gets progress
// on it ([elicitation.Options].Heartbeat). Progress of the upstream on the call must be
// sent through the router as well, so that values increase. An [Upstream] does that. On a
// connection of the host's own give the upstream call a token of the gateway's own and pass
// its notifications to [RelayProgress], and to nothing else:
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
// beyond 2^53 lose digits, and unknown members are dropped. Ids on the wire are the SDK's, and
// it drops late, repeated and foreign answers by itself, so that the router does not count
// them. The SDK sends a question and
// waits for its answer in one step, so that "delivered" is logged when the answer arrives. It tells
// a client in the background that a question is withdrawn: where the result of the call follows at
// once, the client may not be told.
// Whether the upstream got an answer is known of an [Upstream] over HTTP alone. Elsewhere an
// answer counts when it arrives: on standard input and output, where nothing confirms a line,
// before it is written. Content without members is left out. Parameters of a
// question that the SDK cannot decode, such as a message that is a number, are refused
// without the router. Clients of revision 2026-07-28 cannot be asked while a request runs;
// questions for them are refused as for a client without the capability.
package gosdk
