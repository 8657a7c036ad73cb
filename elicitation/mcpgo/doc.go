// Package mcpgo plugs gateways that are built on mcp-go
// (github.com/mark3labs/mcp-go) into an [elicitation.Router].
//
// A gateway has a server that clients connect to and, behind it, connections to
// upstream servers. [Downstream] is the first side:
//
//	router, err := elicitation.New(&elicitation.Options{Logger: logger, Registerer: registry})
//	clients := mcpgo.NewDownstream(router, s, nil)
//
// [Connect] makes the second, a client of mcp-go on a transport of mcp-go, whose
// questions the router takes:
//
//	upstream := mcpgo.Connect(router, key, transport)
//
// A tool of the gateway says whose call it is and calls upstream in a context
// that knows:
//
//	call, err := clients.Begin(ctx, key)
//	if err != nil {
//		return nil, err
//	}
//	defer call.End()
//	return upstream.CallTool(mcpgo.WithCall(ctx, call), request)
//
// # Connections that calls share
//
// A question that comes on the stream of a call's own HTTP request, or in a
// result of revision 2026-07-28, belongs to that call, and any number of calls
// may share the connection. On standard input and output, and on the standing
// stream of a session, mcp-go does not say which call made the upstream ask:
// let one call at a time use such a connection ([elicitation.Router.Exclusive])
// or give each its own, with a key of its own. When neither is done and two
// calls are on it, the router refuses their questions: it does not guess.
//
// # Progress of a call
//
// A client that gave its request a progress token hears on it, while a person is asked,
// that the request is alive ([elicitation.Options].Heartbeat). What the upstream reports
// about the call has to go the same way, so that values rise. Give the call upstream a
// token of the gateway's own and pass its notifications to [RelayProgress], and to
// nothing else:
//
//	upstream.OnNotification(func(n mcp.JSONRPCNotification) {
//		_ = mcpgo.RelayProgress(ctx, call, n)
//	})
//	...
//	if !call.Origin().ProgressToken.IsZero() { // else the client wants none
//		request.Params.Meta = &mcp.Meta{ProgressToken: "call"}
//	}
//
// On a connection that calls share each has a token of its own, by which the handler
// finds the call: mcp-go keeps handlers as long as the connection. The token is found
// in the context of handlers of tools, prompts and resources, by middleware that
// [NewDownstream] adds. After [elicitation.Call.End] nothing is passed on.
//
// mcp-go queues notifications. Each waits until mcp-go is about to write it, a second at
// most, so that the answer to the call, which does not pass the queue, comes after. Three
// things limit this:
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
// A client that reports progress on a question is waited for. The token is the
// one that came with the question; the upstream hears of it with its own, if it
// gave one. While a report is on its way upstream only the last of those that
// follow is kept, and what does not arrive within a second is dropped. mcp-go keeps
// one handler of notifications/progress, which [NewDownstream] sets: the host's own
// is [Options].Progress. Three things limit this:
//
//   - Sessions that mcp-go does not register, those of stateless HTTP servers,
//     are not found again when they report.
//   - In a process, and to upstreams of revision 2026-07-28, which put their
//     questions into results, nothing is reported upstream; the question is
//     extended.
//   - The 30 seconds below are not extended.
//
// # Errors
//
// What an upstream is told is either the error of the client, as the client sent
// it, or a text of the router's. mcp-go hands the client's error on as text, which
// is taken for the client's only from the sessions of its own HTTP server and of
// standard input and output, each in its own form. From a session in the process
// or of the host's make it must be a protocol.Error; any other is a client that
// could not be asked, and its text stays here.
//
// # What mcp-go makes impossible
//
//   - Its HTTP transport gives the handler of a question 30 seconds, and so the
//     person has no more, whatever the router's timeout is. Standard input and
//     output have no such limit.
//   - It decodes questions and answers before this package sees them: the members
//     of a form reach the client in alphabetical order, numbers beyond 2^53 lose
//     digits.
//   - It writes a question and waits for its answer in one step, so that
//     "delivered" is logged when the answer proves it, not before; and it does not
//     tell the client of a question that is withdrawn.
//   - A notification that is sent just before a response, such as the news that a
//     visit is over, may be lost on its way through mcp-go's HTTP server.
//   - Of a client's own error the data is lost, and on standard input and output
//     the code, too: it goes upstream as -32603.
//   - An answer that it cannot read ends the question as one that could not be
//     delivered, not as one that is not valid.
//   - Clients of revision 2026-07-28 cannot be asked while a request runs;
//     questions for them are refused as for a client without the capability.
package mcpgo
