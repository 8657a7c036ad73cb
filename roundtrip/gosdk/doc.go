// Package gosdk puts rondo under servers that are built on the official Go SDK
// (github.com/modelcontextprotocol/go-sdk, release 1.8), so that handlers which
// ask the person behind the client work for clients of revision 2026-07-28 and
// of those before, without the server being rewritten.
//
// # Three lines
//
// A handler that pushes its questions down the session changes the call:
//
//	answer, err := gosdk.Elicit(ctx, req.Session, params) // was: req.Session.Elicit(ctx, params)
//
// and the server is given the middleware, and a handler for both eras:
//
//	if err := gosdk.Install(server); err != nil {
//		return err
//	}
//	http.Handle("/mcp", gosdk.Handler(server, nil))
//
// On streams, [Transport] takes the place of Handler. Tools, prompts and
// resources can ask; [CreateMessage], [CreateMessageWithTools] and [ListRoots]
// are the other counterparts. The whole program is examples/retrofit.
//
// Toward clients of 2026-07-28 the handler runs again from its start in every
// round, as package roundtrip says: code before a question runs more than once.
// The first question that is not answered ends the handler's context and is
// asked whatever the handler returns, so that one which swallows the error does
// not fail open; what it does with a context of its own before it returns is
// done, though. Toward older clients it runs once, and waits.
//
// # Other styles
//
// The helpers of package roundtrip work in the handlers, through their context:
// [roundtrip.Ask] and its kin as they are, [roundtrip.Answer] and
// [roundtrip.AcceptedContent] with one of the builders for what is missing:
//
//	why, ok := roundtrip.AcceptedContent[Reason](ctx, "why")
//	if !ok {
//		return gosdk.CallToolResult(ctx, roundtrip.InputRequired(roundtrip.Elicit[Reason]("why", "Why?")))
//	}
//
// Handlers that return the SDK's InputRequests go on as they are. They see
// answers to questions that they asked, of the right kind, that fit the form,
// those of earlier rounds too, and the state that they set; all else is dropped,
// and reported to the observer. The state is sealed. One handler should not do
// both, return InputRequests and push with the session's methods: toward older
// clients the pushes are then refused.
//
// # What comes with it
//
// Everything a [roundtrip.Funnel] does, in both eras: sealed state that is bound
// to caller, target and arguments, a gate that names all missing capabilities
// before anybody is asked, validation of answers, an end to nagging and to flows
// that do not converge, single use with a [roundtrip.Guard]. Errors leave with
// codes that exist; panics of handlers end the request and not the process.
// The SDK's own bridge to older clients, which knows one round, is stopped and
// replaced; a handler that returns InputRequests to such a client runs once more
// for that.
//
// # Unmodified handlers
//
// With [WithUnmodifiedHandlers] the session's own methods are enough. The
// handler of a modern request then sees another session in place of the
// client's, for the time of the call. It tells the client's capabilities, name
// and session id, and passes logging and progress on. But:
//
//   - it says that it is of revision 2025-11-25;
//   - it is among the server's Sessions, and the server's logger is told of it;
//   - what is kept by session, such as in a map of the author's, does not find it;
//   - handlers do not bear to be run again just because they were not changed:
//     look at what they do before they ask.
//
// A client that declares no capability to be asked gets what the handler makes
// of the SDK's error, not -32021; [WithMustAsk] refuses its call instead. Any other
// question that nobody answers ends the call in every revision, although the
// handler may drop the error. The observer hears of both ([roundtrip.PushFailed]),
// but for a form or visit that the SDK refuses to put and whose error the handler
// drops: of that nobody is told but the handler.
//
// # Calls that wait
//
// While a call of an older revision waits for a person, its client gets progress
// on the call's token, see [roundtrip.Options].Heartbeat. Values rise whoever
// reports them: what a handler reports is raised where heartbeats have gone
// further. How many calls may wait is bounded, by principal and session too
// ([roundtrip.Options].MaxWaiting). Observers hear of each wait
// ([roundtrip.WaitBegan]); the log and the metrics of package server/middleware
// are such observers.
//
// # What the SDK makes impossible
//
// Middleware sees requests after the SDK has decoded them. [Handler] and
// [Transport] read answers and states before that. With Install alone
// ([roundtrip.Call].Lossy):
//
//   - a state that is empty counts as absent;
//   - the kind of an answer is guessed from its members, the last of two members
//     of one name counts, whatever their case;
//   - one answer of no known kind, or null, fails the request, over HTTP with
//     -32020;
//   - integers beyond 2^53 in an answer are rounded. They are in sessions, and in
//     the maps of [Elicit] and InputResponses, in any case; [roundtrip.Ask] reads
//     them exactly where Handler or Transport is in place.
//
// And with all of them:
//
//   - beside the questions of a tool or prompt there is an empty content or
//     messages, and the questions are in the order of their keys, because the
//     SDK's result types have it so. [WithExactWire] mends that. For resources it
//     is always on: their type cannot be without a time to be kept;
//   - a result of a resource that is a RequestState and nothing else is an error
//     of the SDK before middleware sees it, and of a typed tool if the zero value
//     of its output does not fit the output schema. The builders have no such
//     limit;
//   - the output of tools is checked where the SDK does so, in those added with
//     mcp.AddTool;
//   - lists and resources carry ttlMs and cacheScope in older revisions, which do
//     not know them;
//   - statuses of HTTP are the SDK's.
//
// # When the SDK changes
//
// Some of this rests on what the SDK does and does not promise. [Install] tries
// each such thing on a server of its own, which takes some milliseconds, and
// fails when one is not as it was: by then, and not when a person is asked.
package gosdk
