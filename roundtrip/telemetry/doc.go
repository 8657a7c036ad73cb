// Package telemetry traces flows with OpenTelemetry: requests of servers, clients and gateways,
// what they ask, who answers, and how the rounds of a flow belong together. It is a module of
// its own, so that only those who trace compile OpenTelemetry.
//
// A server has one [Telemetry] in three places:
//
//	srv, err := server.New(&server.Options{
//		Observer:   event.Observers(tel, observer),
//		Middleware: append([]server.Middleware{tel.Wrap}, chain...),
//		Roundtrip:  roundtrip.Options{Tracer: tel},
//	})
//
// A client has it around its connection and its handlers:
//
//	c, err := client.New(tel.Peer(transport), tel.Questions(&client.Options{ElicitForm: ask}))
//
// A gateway has it in its server options, and around what Upstream.Connect returns. The adapters
// for other SDKs take a Tracer and an Observer in their options; a request is a span there if
// something else makes one. An elicitation.Router passes the context of a question on as it came.
//
// # What is traced
//
// Spans have the names and attributes of the semantic conventions for MCP: "tools/call deploy"
// of kind server for a request, of kind client where it is sent. mcp.session.id is left out,
// since it admits to the session. The names of tools and prompts are part of the name of a span
// where there was a result: peers make up others.
//
//   - Each round of a flow of revision 2026-07-28 is a request. It is linked to the round
//     before, on whichever replica that was, and has the attributes rondo.flow and rondo.round.
//     The link is there where the round before was sampled.
//   - In a session a question is a span of the server's, "elicitation/create", which lasts until
//     the answer.
//   - A question is a span of the client's while its handler has it, in both eras.
//   - A run of a task is a trace of its own, linked to the call that began the task.
//   - What an observer is told, such as mcp.input_required and mcp.answered with
//     rondo.waited_ms, the time that a person took, is an event of the span, with the fields of
//     its log entry.
//
// Arguments, answers, the author's state, the texts of questions and those of errors are in no
// span. Keys of questions are.
//
// # Whom to trust
//
// The trace context of a request travels in its _meta (basic/index, "OpenTelemetry trace
// context"). A caller can write anything there. Unless [Options].TrustCaller says that it is
// trusted, its span is a link and not the parent: then it can neither have every request
// recorded by marking it as sampled, nor write into the traces of others. A malformed context is
// ignored. For one trace of a client, a gateway and its upstreams, each must trust the one
// before.
//
// # Metrics
//
// [Metrics] is a sink for package middleware, beside prom or in its place, with the same table:
// rondo.human_wait is the histogram of the time that people take. [Options].MeterProvider gets
// mcp.server.operation.duration and mcp.client.operation.duration as well.
package telemetry
