// Package mcpgo lets a server that is built on mcp-go
// (github.com/mark3labs/mcp-go, v1.2.0 or later) ask the person behind the client in
// every revision of the protocol, without moving the server.
//
// # Three lines
//
// A handler that pushes its questions works toward clients that opened a
// session, and fails toward those of revision 2026-07-28, which have none. Three
// lines change that:
//
//	a, err := mcpgo.New(nil)                         // once a process
//	http.Handle("/mcp", a.Handler(streamable))       // around what serves the server
//	answer, err := mcpgo.Elicit(ctx, "sure", request) // for s.RequestElicitation(ctx, request)
//
// Toward revision 2026-07-28 the handler then runs in every round, from its start: code
// before the call runs again, so effects belong behind it; [roundtrip.Memo],
// [roundtrip.IdempotencyKey] and [roundtrip.OnCommit] are for effects that must come
// before. While there is no answer Elicit returns an error and the handler's context
// ends. Whatever the handler returns then, the client gets the question and nothing else.
// Toward older revisions Elicit blocks until the person has answered. [CreateMessage]
// and [ListRoots] are the same for the client's model and directories.
//
// On standard input and output [Adapter.Listen] takes the place of
// (*server.StdioServer).Listen. Both install the adapter on the server that they serve; see
// [Adapter.Install] for the order of middleware, and for a server for each request. The
// README of this package has a checklist for servers that exist.
//
// # Guard style
//
// A handler may return its questions instead: [ToolInput], [PromptInput] and
// [ResourceInput] take those of package roundtrip, or in mcp-go's types ([Question],
// [SamplingQuestion]). It reads the answers with roundtrip.AcceptedContent and the other
// readers of package roundtrip, or with [Elicited], [Sampled] and [Roots].
//
// Handlers that build mcp-go's own results (server.NewInputRequestBuilder) need no
// change: their questions and their state pass the same checks, and the request's fields
// have only verified answers, those of earlier rounds included, and the state that the
// handler set.
//
// # What comes with it
//
// Every request passes a [roundtrip.Funnel]: state is sealed and bound to the caller, the
// tool and the arguments; capabilities are checked before anything is asked; an answer
// must belong to a question of this flow and be valid under its form; a refused question
// is not asked again; the rounds of a flow are limited; handlers that return questions
// serve older revisions for as many rounds as they need. See [Options] for keys, the guard
// and the observer.
//
// An error of a handler is a JSON-RPC error with the code -32603, as mcp-go has it, unless
// it is a [protocol.Error], which keeps its own. An error of a question (of [Elicit],
// [CreateMessage] or [ListRoots], or a [roundtrip.DeclinedError]) that a tool's handler returns is
// a result with isError. A panic is an error -32603 as well, and reported to the observer;
// server.WithRecovery does not see it where it is outside of the adapter.
//
// # Promises
//
// What worked without the adapter works with it. Each line has a test of the given name.
//
//	what asks nothing is answered as by mcp-go alone, byte
//	  for byte                                              TestWhatAsksNothingIsAnsweredByteForByte
//	one adapter serves any number of servers, with one key  TestServerForEachRequest
//	  and one self-test a process; Install costs
//	    microseconds                                        TestInstallIsCheap
//	  and keeps no server alive                             TestServersAreForgotten
//	Handler and Listen install the adapter themselves       TestHandlerAndListenInstall
//	installing again does nothing                           TestInstallingAgainDoesNothing
//	two adapters on one server are an error that says so    TestSecondAdapterIsReported
//	a request that the adapter has not read is an error
//	  that says what is missing                             TestServingWithoutTheAdapter
//	  also where a context function has dropped its
//	    context                                             TestContextOfTheRequestIsDropped
//	a server behind the author's own handler that is not
//	  installed is an error that says so                    TestServerIsNotInstalled
//	every option of mcp-go's transports is honored          TestOptionsOfTheHost
//	  and new ones fail a test until they are looked at     TestNoOptionOfTheHostIsOverlooked
//	without sessions any replica serves any request, and a
//	  question to an older client is refused with the
//	  reason                                                TestStatelessReplicas
//	the session of an open call is not swept as idle        TestOpenCallsKeepTheirSession
//	handlers that panic or return nil get an error
//	  answered, and so do hooks, filters and completions    TestPanicsAndNilResultsAreAnswered
//	  and what the host gives to mcp-go for its sessions    TestHostsCodeThatPanics
//	errors have mcp-go's codes and texts, byte for byte     TestWhatAsksNothingIsAnsweredByteForByte
//	  and their type, for middleware outside                TestErrorsKeepTheirType
//	the last notifications of a call precede its response   TestLastNotificationsOfACallAreWritten
//	  and the end of a visit is announced                   TestFinishedVisitsAreAnnounced
//	middleware inside counts calls, and not rounds          TestMiddlewareKnowsTheRound
//	what notifies nobody stays a response of JSON           TestNoStreamWithoutNotifications
//	the old SSE transport serves as it did, and asks
//	  nobody                                                TestSSEServer
//	any replica serves the sessions of another              TestAnyReplicaTakesTheRequestsOfASession
//
// # Unmodified handlers
//
// With [Options].UnmodifiedHandlers the server's own RequestElicitation,
// RequestSampling and RequestRoots ask in rounds too. The handler's context then has a
// shadow of the client's session. The price:
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
//   - an assertion of the session to a type of the host's fails; see [Session];
//   - questions have no keys, and are identified by their content and place. The same
//     question twice is two questions, a refusal of either is the handler's to handle, and
//     equal ones must not be asked concurrently. A handler that asks something else when it
//     runs again, such as a visit to a URL with a new nonce, ends the flow with an error
//     that names [roundtrip.Nonce];
//   - once a question is pending no other is asked in that run;
//   - toward older revisions answers are not validated: mcp-go checks neither
//     capabilities nor answers there. Handler and Listen do not send questions with URLs
//     that must not be opened; the call returns an error.
//
// Where a client has not declared that it can be asked, the handler gets mcp-go's error
// and decides; [Options].MustAsk refuses the call instead. Any other question without an
// answer ends the call in every revision, even if the handler ignores the error. The
// observer is told of both ([event.PushFailed]).
//
// # Calls that wait
//
// While a call of an older revision waits for a person, its client gets progress on the
// call's token; see [roundtrip.Options].Heartbeat. Values always increase: what a handler
// reports is raised where heartbeats have gone further. Observers are told of each wait
// ([event.WaitBegan]); the log and the metrics of package server/middleware are such
// observers.
//
// # Limits
//
// Requests over HTTP and on standard input must come through Handler or Listen. Within the
// process, over the old SSE transport and over sessions of other packages they cannot, and
// do without:
//
//   - Error codes. mcp-go sends every error of a handler with the code -32603. Handler
//     and Listen rewrite those of the adapter (-32602 for a refused state; -32021, over
//     HTTP with the status 400, for a missing capability). In the event store of resumable
//     streams they stay -32603.
//   - Questions of resources and templates, the order of questions, and results without
//     an empty "content", toward revision 2026-07-28.
//   - Strict decoding of member names, repeated members and types around the answers. The
//     answers themselves are decoded strictly everywhere.
//   - Progress while a call waits; over HTTP from when the response has become an event
//     stream. The first form or visit makes it one; sampling and roots, which are sent on
//     the standing stream, do not.
//
// Everywhere:
//
//   - A panic while mcp-go encodes a result, in a MarshalJSON of the author's, is answered
//     over HTTP, and ends the process on lines. So does a panic on a goroutine that a
//     handler starts. After a panic in StoreEvent of an event store mcp-go keeps the stream
//     locked: its requests wait for ever, as with mcp-go alone.
//   - What Handler itself refuses (messages that are too long or ambiguous) has no CORS
//     headers of mcp-go's.
//   - An empty requestState counts as absent; mcp-go decodes both alike.
//   - Handlers of task tools cannot ask, since middleware does not see them. Other tools
//     that run as a task cannot ask in revision 2026-07-28, which has no response to ask
//     in.
//   - Answers in mcp-go's types are map[string]any, in which integers beyond 2^53 lose
//     digits. Typed questions keep them.
//   - Toward older revisions a question that nobody answers within HumanTimeout is not
//     withdrawn from the client, and the client's progress does not extend the time. Over
//     HTTP sampling and roots are sent on the client's standing stream; where a client has
//     none, the call waits until the timeout.
//   - Servers without sessions (server.WithStateLess) do not know the capabilities of
//     clients of older revisions, and refuse their calls where they need to ask.
//
// # Versions of mcp-go
//
// The first [New] of a process tests on servers of its own everything that the adapter
// relies on and mcp-go does not document. It fails where something has changed, and names
// it.
package mcpgo
