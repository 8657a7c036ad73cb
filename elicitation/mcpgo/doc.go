// Package mcpgo plugs gateways that are built on mcp-go
// (github.com/mark3labs/mcp-go) into an [elicitation.Router].
//
// A gateway has a server that clients connect to and, behind it, connections to
// upstream servers. [Downstream] is the first side:
//
//	router, err := elicitation.New(&elicitation.Options{Log: zaplog.New(logger)})
//	clients, err := mcpgo.NewDownstream(router, s, nil)
//	handler := clients.Handler(server.NewStreamableHTTPServer(s))
//
// An [Upstream] is a server on the other side, with the connections to it:
//
//	up, err := clients.NewUpstream(mcpgo.UpstreamOptions{
//		Name: "files",
//		Transport: func(string) (transport.Interface, error) {
//			return transport.NewStreamableHTTP(url,
//				transport.WithHTTPBasicClient(mcpgo.HTTPClient(nil)))
//		},
//	})
//	defer up.Close()
//	err = up.Publish(ctx)
//
// Its tools are tools of the gateway then, the tool "deploy" as "files_deploy", and so are its
// prompts and resources. A tool of the host's own passes its calls on by [Upstream.CallTool]. What
// the upstream asks while it runs a call reaches the client whose call it is; so does progress.
// Completion and subscriptions are not passed on. The example of the package is this as a program.
//
// # Connections of the host's own
//
// [NewSharedClient] makes a client of mcp-go on a transport of mcp-go, which passes questions
// to the router, before mcp-go looks at them: it refuses, logs and counts those that the
// client of the call has not declared, and those that mcp-go cannot read.
//
//	upstream := mcpgo.NewSharedClient(router, key, transport)
//
// A tool of the gateway begins a call, and calls upstream with a context that has it:
//
//	call, err := clients.Begin(ctx, key)
//	if err != nil {
//		return nil, err
//	}
//	defer call.End()
//	return upstream.CallTool(mcpgo.WithCall(mcpgo.UpstreamContext(ctx), call), request)
//
// # Connections that calls share
//
// A question that comes on the stream of a call's own HTTP request, or in a
// result of revision 2026-07-28, belongs to that call, and any number of calls
// may share the connection. A call that is cancelled disturbs no other, and the upstream is told,
// which mcp-go leaves out over HTTP. All questions of a
// connection count against [elicitation.Options].Limits.PerUpstream.
//
// On standard input and output, and on the standing stream of a session, mcp-go does not
// report which call caused a question. Where all calls in flight on the connection are of one
// client the question is put to it, on the standing stream of its session; where they are
// not, it is refused. To avoid that, let one call use such a connection at a time, as
// [Upstream] does and [elicitation.Router.AcquireUpstream] does for connections of the host's
// own, or give each call its own, with a key of its own. After a call that was given up
// open another connection: [elicitation.Router.HasAbandonedCalls].
//
// # Progress of a call
//
// While a person is asked, a client that gave its request a progress token gets progress
// on it ([elicitation.Options].Heartbeat). Progress of the upstream on the call must be
// sent through the router as well, so that values increase. An [Upstream] does that. On a
// connection of the host's own give the upstream call a token of the gateway's own and pass
// its notifications to [RelayProgress], and to nothing else:
//
//	upstream.OnNotification(func(n mcp.JSONRPCNotification) {
//		_ = mcpgo.RelayProgress(ctx, call, n)
//	})
//	...
//	if !call.Origin().ProgressToken.IsZero() { // else the client asked for none
//		request.Params.Meta = &mcp.Meta{ProgressToken: "call"}
//	}
//
// On a connection that calls share each call has a token of its own, by which the handler
// finds the call: mcp-go keeps handlers as long as the connection. Middleware that
// [NewDownstream] adds puts the client's token into the context of handlers of tools,
// prompts and resources. After [elicitation.Call.End] nothing is relayed.
//
// mcp-go queues notifications, while responses do not pass the queue. Delivery of progress
// therefore blocks until mcp-go is about to write it, a second at most, so that the
// response follows it. Three things limit this:
//
//   - On standard input and output mcp-go encodes a message before it takes its turn to
//     write. An answer that follows within that instant may be written first.
//   - All HTTP streams of a session write from one queue. In a session with several
//     calls at a time, or with a standing stream, progress may come on another stream
//     than that of its call, and what follows within an instant may be read before it.
//   - In a process, and in sessions of the host's make, the queue is read by others, and
//     progress may come after the answer.
//
// # Progress on a question
//
// Progress of a client on the token of a question extends the question's timeout. The
// upstream gets it on the token that it gave with the question, if any. While one report
// is being sent upstream only the last of those that follow is kept, and one that is not
// sent within a second is dropped. mcp-go has one handler of notifications/progress, which
// [NewDownstream] sets: the host's own is [Options].HandleProgress. Three things limit this:
//
//   - The progress of sessions that mcp-go does not register, those of stateless HTTP
//     servers, is ignored.
//   - Upstreams within a process, and those of revision 2026-07-28, which return their
//     questions, get no progress; the timeout is extended.
//   - The 30 seconds below are not extended.
//
// # Errors
//
// An upstream gets either the error of the client, as the client sent it, or a text of the
// router's. mcp-go returns the client's error as text. The adapter recognizes that text
// only from sessions of mcp-go's own HTTP server and of standard input and output. From a
// session within the process, or of the host's, the error must be a protocol.Error; any
// other counts as a failure to ask, and the upstream does not get its text.
//
// # Limits
//
//   - mcp-go's HTTP transport gives the handler of a question 30 seconds, which therefore
//     bounds the router's timeout. Standard input and output have no such limit.
//   - mcp-go decodes questions and answers before this package sees them: the members of a
//     form reach the client in alphabetical order, integers beyond 2^53 lose digits.
//   - mcp-go sends a question and waits for its answer in one step, so that "delivered" is
//     logged when the answer arrives. That a question is withdrawn the client is told where
//     [Downstream.Handler] or [Downstream.Listen] serves it, unless the result of the call
//     follows at once.
//   - Ids on the wire are mcp-go's, and it drops late, repeated and foreign answers by itself,
//     so that the router does not count them.
//   - Whether the upstream got an answer is known of an [Upstream] over an [HTTPClient] alone.
//     Elsewhere an answer counts when it arrives: on standard input and output, where nothing
//     confirms a line, before it is written.
//   - mcp-go sends every error of a handler as -32603 with the text alone. [Downstream.Handler]
//     and [Downstream.Listen] write the code and the data of the router's errors in their place.
//     Elsewhere, as over mcp-go's SSE server and within a process, and in a response that a
//     client fetches again from a store of events, the text alone arrives.
//   - A notification that is sent just before a response, such as the one that a visit is
//     finished, may be lost in mcp-go's HTTP server.
//   - The data of a client's own error is lost, and on standard input and output its code,
//     too: the upstream gets -32603.
//   - In a process, and in sessions of the host's make, an answer that cannot be decoded ends
//     the question as one that could not be delivered, not as one that is not valid.
//   - Clients of revision 2026-07-28 cannot be asked while a request runs. Those that know older
//     revisions fall back to a session, where they can be; those that do not are refused. With
//     [Options].ServeModern all are served, and questions for them are refused as for a client
//     without the capability.
package mcpgo
