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
// and the SDK's HTTP handler is replaced by one for both eras, which takes the same:
//
//	a, err := gosdk.New(nil)
//	if err != nil {
//		return err
//	}
//	h, err := a.Handler(getServer, nil) // was: mcp.NewStreamableHTTPHandler(getServer, nil)
//
// On streams, [Adapter.Transport] takes the place of Handler. Both install the adapter on the
// servers that they serve; see [Adapter.Install] for the order of middleware. Tools, prompts
// and resources can ask; [CreateMessage], [CreateMessageWithTools] and [ListRoots] are the
// other counterparts. The whole program is examples/retrofit. The README of this package has
// a checklist for servers that exist.
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
// # Promises
//
// What worked without the adapter works with it. Each line has a test of the given name.
//
//	what asks nothing is answered as by the SDK alone, byte
//	  for byte, in both eras and on every transport           TestWhatAsksNothingIsAnsweredByteForByte
//	  except parameters of the wrong type in 2026-07-28: one
//	  short error with the SDK's code                         TestParametersOfTheWrongType
//	one adapter serves any number of servers, with one key    TestServersMadePerRequest
//	  and one self-test a process; Install costs microseconds TestInstallIsCheap
//	  and keeps no server alive                               TestServersAreForgotten
//	installing again does nothing                             TestInstallingAgainDoesNothing
//	two adapters on one server are an error that says so      TestSecondAdapterIsReported
//	a request that the adapter has not read is an error that says
//	  what is missing                                         TestServingWithoutTheAdapter
//	getServer may make a server per request, called once      TestServersMadePerRequest
//	  may return none                                         TestNoServerForARequest
//	  may panic                                               TestPanicOfGetServer
//	every option of the SDK's handler is honored              TestOptionsOfTheSDK
//	  or an error at construction that names the field        TestOptionsThatContradict
//	without sessions any replica serves any request, and a question
//	  to an older client is refused with the reason           TestStatelessReplicas
//	  a missing shared key is one line at start               TestStatelessNeedsASharedKey
//	with JSONResponse a call in a session is answered with JSON,
//	  and with a stream where it asks                         TestJSONResponsesInSessions
//	handlers that panic end the request                       TestPanicsEndTheRequest
//	  those of completions and notifications, too             TestHandlersOfOtherRequestsThatFail
//	  and a nil result is an internal error                   TestNilResults
//	  or null, for a completion in a session, as with the SDK TestHandlersOfOtherRequestsThatFail
//	errors of prompts and resources keep codes and texts      TestWhatAsksNothingIsAnsweredByteForByte
//	middleware added after Install sees the SDK's types       TestMiddlewareRunsAroundTheAdapter
//	questions take any session with the method                TestElicitTakesAnInterface
//	any replica serves the sessions of another                TestAnyReplicaTakesTheRequestsOfASession
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
//   - what a handler looks at before it asks must be the same in every round. If it is not,
//     and the handler does not come to a question that the person has refused, its result is
//     withheld: the client gets a refusal, the observer [event.DeclineIgnored]. The handler
//     has acted by then, which nothing undoes: that it will not ask is known at its end only,
//     and a call refused before it runs would never end in the handler's own words. Such a
//     handler (one that looks for a token, sends the person to a page that makes one, and
//     then acts) acts in a function given to [roundtrip.OnCommit], which does not run then;
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
// limited, by principal and session too ([roundtrip.Options].Limits.Waiting). Observers are
// told of each wait ([event.WaitBegan]); the log and the metrics of package
// server/middleware are such observers.
//
// # Limits
//
// Middleware sees requests after the SDK has decoded them. [Adapter.Handler] and
// [Adapter.Transport] read answers and states of revision 2026-07-28 before that; requests
// that come in another way are refused. What is left:
//
//   - integers beyond 2^53 in an answer are rounded in sessions, and in the maps of [Elicit]
//     and InputResponses. [roundtrip.Ask] reads them exactly in 2026-07-28;
//   - an error of a tool that was added with Server.AddTool is the failure of the tool, as for
//     tools added with mcp.AddTool, and no JSON-RPC error, unless it has a code;
//   - panics on goroutines that a handler starts, and of middleware that runs outside of the
//     adapter, are out of its reach;
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
// The first [New] of a process tests on a server of its own everything that the adapter
// relies on and the SDK does not document. It fails where something has changed, and names it.
package gosdk
