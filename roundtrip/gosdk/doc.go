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
//	a, err := gosdk.Install(server, nil)
//	if err != nil {
//		return err
//	}
//	http.Handle("/mcp", a.Handler(nil))
//
// On streams, [Adapter.Transport] takes the place of Handler. Tools, prompts and
// resources can ask; [CreateMessage], [CreateMessageWithTools] and [ListRoots]
// are the other counterparts. The whole program is examples/retrofit.
//
// Toward clients of 2026-07-28 the handler runs in every round, from its start: code
// before a question runs more than once (see package roundtrip). The first question
// without an answer ends the handler's context and is asked whatever the handler returns,
// so that one which ignores the error does not fail open; effects that use another
// context still happen. Toward older clients the handler runs once, and blocks.
//
// # Other styles
//
// The helpers of package roundtrip work in the handlers, through their context:
// [roundtrip.Ask] and its kin as they are, [roundtrip.Answer] and
// [roundtrip.AcceptedContent] with one of the builders for what is missing:
//
//	why, ok := roundtrip.AcceptedContent[Reason](ctx, "why")
//	if !ok {
//		return gosdk.ToolInput(ctx, roundtrip.Elicit[Reason]("why", "Why?"))
//	}
//
// Handlers that return the SDK's InputRequests need no change. They get the valid answers
// to the questions that they asked, those of earlier rounds too, and the state that they
// set; all other answers are dropped, and reported to the observer. The state is sealed.
// One handler should not both return InputRequests and push with the session's methods:
// toward older clients the pushes are then refused.
//
// # What comes with it
//
// Every request passes a [roundtrip.Funnel], in both eras: state is sealed and bound to
// caller, target and arguments; all missing capabilities are named before anything is
// asked; answers are validated; a refused question is not asked again; the rounds of a
// flow are limited; states are single-use with a [store.Guard]. Errors are sent with
// defined codes; panics of handlers end the request and not the process. The SDK's own
// bridge to older clients, which is limited to one round, is stopped and replaced; a
// handler that returns InputRequests to such a client runs once more for that.
//
// # Unmodified handlers
//
// With [Options].UnmodifiedHandlers the session's own methods are enough. It is the
// recommended way to put rondo under a server that exists: toward older clients handlers do
// what they do with the SDK alone. Answers belong to questions as with [Elicit] without a
// key: the same question twice is two questions, a refusal of either is the handler's to
// handle, and a handler that asks something else when it runs again, such as a visit to a
// URL with a new nonce, ends the flow with an error that names [roundtrip.Nonce]. The handler
// of a modern request sees a shadow of the client's session for the time of the call. It
// has the client's capabilities, name and session id, and forwards logging and progress.
// The price:
//
//   - handlers that were written to run once run in every round: review what they do
//     before they ask;
//   - the shadow claims revision 2025-11-25;
//   - it is one of the server's Sessions, and appears in the server's log;
//   - a map of the host's with sessions as keys does not have it.
//
// Where a client has not declared that it can be asked, the handler gets the SDK's error
// and decides; [Options].MustAsk refuses the call with -32021 instead. Any other question
// without an answer ends the call in every revision, even if the handler ignores the
// error. The observer is told of both ([event.PushFailed]), except for a form or visit
// that the SDK itself refuses to send and whose error the handler ignores.
//
// # Calls that wait
//
// While a call of an older revision waits for a person, its client gets progress on the
// call's token; see [roundtrip.Options].Heartbeat. Values always increase: what a handler
// reports is raised where heartbeats have gone further. The number of calls that wait is
// limited, by principal and session too ([roundtrip.Options].MaxWaiting). Observers are
// told of each wait ([event.WaitBegan]); the log and the metrics of package
// server/middleware are such observers.
//
// # Limits
//
// Middleware sees requests after the SDK has decoded them. [Adapter.Handler] and
// [Adapter.Transport] read answers and states before that. Without them ([roundtrip.Call].EmptyStateIsAbsent):
//
//   - an empty requestState counts as absent;
//   - the kind of an answer is guessed from its members, the case of names is ignored,
//     and the last of repeated members counts;
//   - one answer of no known kind, or null, fails the request, over HTTP with -32020;
//   - integers beyond 2^53 in an answer are rounded. In sessions, and in the maps of
//     [Elicit] and InputResponses, they are always rounded; [roundtrip.Ask] reads them
//     exactly where Handler or Transport is used.
//
// Everywhere:
//
//   - results with questions of a tool or prompt also have an empty content or messages,
//     and the questions are in the order of their keys, because of the SDK's types.
//     [Options].ExactWire changes that. For resources it is always on, since their type
//     always has cache hints;
//   - a result of a resource with a RequestState and nothing else is an error of the SDK
//     before middleware sees it; so is one of a typed tool, if the zero value of its output
//     is not valid under the output schema. The builders have no such limit;
//   - the output of tools is validated where the SDK does so, in those added with
//     mcp.AddTool;
//   - lists and resources have ttlMs and cacheScope in older revisions, too, which do not
//     define them;
//   - HTTP statuses are the SDK's.
//
// # Versions of the SDK
//
// [Install] tests on a server of its own everything that the adapter relies on and the
// SDK does not document. It fails where something has changed, and names it.
package gosdk
