// Package mcpgo lets a server that is built on mcp-go
// (github.com/mark3labs/mcp-go, v1.2.1) ask the person behind the client in
// every revision of the protocol, without moving the server.
//
// # Three lines
//
// A handler that pushes its questions works toward clients that opened a
// session, and fails toward those of revision 2026-07-28, which have none. Three
// lines change that:
//
//	a, err := mcpgo.Install(s, nil)                  // after the server is built
//	http.Handle("/mcp", a.Handler(streamable))       // around what serves it
//	answer, err := mcpgo.Elicit(ctx, "sure", request) // for s.RequestElicitation(ctx, request)
//
// Toward revision 2026-07-28 the handler then runs once a round, from its start:
// code before the call runs again, so effects belong behind it, and
// [roundtrip.Memo], [roundtrip.IdempotencyKey] and [roundtrip.OnCommit] help
// with those that cannot wait. While the answer is not there Elicit returns an
// error and the handler's context ends. Whatever the handler makes of that, the
// client gets the question and nothing else. Toward older revisions Elicit waits
// for the person. [Sample] and [ListRoots] are the same for the client's model
// and directories.
//
// On standard input and output [Adapter.Listen] takes the place of
// (*server.StdioServer).Listen. Without Handler or Listen everything works but
// what "What cannot be had" says of them.
//
// # Guard style
//
// A handler may return what it lacks instead: [ToolInput], [PromptInput] and
// [ResourceInput], with questions of package roundtrip or in mcp-go's words
// ([Question], [SamplingQuestion]). It reads the answers with
// roundtrip.AcceptedContent and its kin, or with [Elicitation], [Sampling] and
// [Roots].
//
// Handlers that build mcp-go's own results (server.NewInputRequestBuilder) need
// no change: their questions and their state go through the same checks, and
// the fields of the request hold only answers that were verified, those of
// earlier rounds included, and the state as the handler set it.
//
// # What comes with it
//
// The path of every request is that of [roundtrip.Funnel]: state is sealed and
// bound to the caller, the tool and the arguments; capabilities are looked at
// before anything is asked; answers must be to a question of this flow and fit
// its form; a refused question is not asked again; a flow has a cap on its
// rounds; handlers that return questions serve older revisions for as many
// rounds as they need. See [Options] for keys, the guard and the observer.
//
// An error of a handler stays what mcp-go makes of it, a JSON-RPC error with the
// code -32603. An error of a question (of [Elicit] and its kin, or a
// [roundtrip.DeclinedError]) that a tool's handler returns is a result with
// isError. A panic is -32603 as well, reported to the observer;
// server.WithRecovery no longer sees it where the adapter is inside.
//
// # Handlers that are not changed
//
// With [Options].UnmodifiedHandlers the server's own RequestElicitation,
// RequestSampling and RequestRoots ask in rounds too. The handler's context then
// holds a session that stands in for the client's. What that costs:
//
//   - handlers written to run once run once a round, and nobody has looked at
//     what they do before they ask;
//   - an assertion of the session to a type of one's own fails; see [Session];
//   - questions have no keys, so they are told apart by what they ask for and
//     their order. Those with the same form must not be put concurrently, and one
//     whose wording changes from run to run ends the flow;
//   - once a question is pending no other is asked in that run;
//   - toward older revisions answers stay unchecked: mcp-go looks neither at
//     capabilities nor at answers there. Handler and Listen let no URL out that nobody
//     may be sent to; the call returns an error.
//
// A client that declared no way to be asked gets what the handler makes of
// mcp-go's error; [Options].MustAsk refuses its call instead. Any other question
// that nobody answers ends the call in every revision, although the handler may
// drop the error. The observer hears of both ([roundtrip.PushFailed]).
//
// # Calls that wait
//
// While a call of an older revision waits for a person, its client gets progress
// on the call's token, see [roundtrip.Options].Heartbeat. Values rise whoever
// reports them: what a handler reports is raised where heartbeats have gone
// further. Observers hear of each wait ([roundtrip.WaitBegan]); the log and the
// metrics of package server/middleware are such observers.
//
// # What cannot be had
//
//   - Error codes. mcp-go gives every error of a handler the code -32603. Handler
//     and Listen put the right one in its place (-32602 for a refused state;
//     -32021, over HTTP with the status 400, for a missing capability). In
//     process, over the SSE transport of old, and in the event store of resumable
//     streams it stays -32603.
//   - Asking from resources and templates, the order of questions, and results
//     free of an empty "content", toward revision 2026-07-28: likewise only
//     through Handler or Listen.
//   - Strictness about members in the wrong case, repeated members and wrong
//     types around the answers: likewise. The answers themselves are read
//     strictly everywhere.
//   - An empty requestState is taken for an absent one; mcp-go does not tell.
//   - Progress while a call waits: likewise, and over HTTP from when the response
//     has become an event stream. That is with the first form or visit; sampling
//     and roots alone, which go out on the standing stream, do not make it one.
//   - Questions from tasks: handlers of task tools are out of reach of
//     middleware, and other tools that run as a task cannot ask in revision
//     2026-07-28, which has no response to ask in.
//   - Answers in mcp-go's types are map[string]any, in which integers beyond
//     2^53 lose digits. Typed questions keep them.
//   - Toward older revisions a question that is given up, because nobody answers
//     within HumanTimeout, is not withdrawn from the client, and its progress
//     does not extend the time. Over HTTP sampling and roots go out on the
//     client's standing stream; a client without one is waited for in vain.
//   - Servers without sessions (server.WithStateLess) know nothing of clients of
//     older revisions, which are refused where something is to be asked of them.
//
// # Versions of mcp-go
//
// [New] tries on a server of its own whatever the adapter relies on and mcp-go
// does not promise, and fails, naming it, where it has changed.
package mcpgo
