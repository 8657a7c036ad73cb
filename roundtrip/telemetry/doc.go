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
// A gateway has it in its server options, and around what Upstream.Connect returns, and a hosted
// server in those of its front. An elicitation.Router passes the context of a question on as it
// came.
//
// # Spans
//
// Spans have the names and attributes of the semantic conventions for MCP. The README shows a flow.
//
//   - Each round of a flow of revision 2026-07-28 is a request, linked to the round before if that
//     was sampled, at whichever replica. In a session each question is a span.
//   - A run of a task is a trace of its own, linked to the call that began the task.
//   - Events for observers are events of the span, with the fields of their log entries:
//     rondo.waited_ms of mcp.answered is the time that a person took.
//
// Spans have no arguments, answers, state, texts of questions and errors, or ids of sessions. They
// have keys of questions.
//
// # Trust
//
// A request brings its trace context in _meta (basic/index, "OpenTelemetry trace context"), and a
// caller can write anything there. A malformed context is ignored. Unless [Options].TrustCaller
// says otherwise the span of a caller is a link and no parent, so that nobody can force recording
// by marking requests as sampled, or write into the traces of others.
//
// # Metrics
//
// [Metrics] is a sink for package middleware, beside prom or in its place, with the same table:
// rondo.human_wait is the histogram of the time that people take. [Options].MeterProvider gets
// mcp.server.operation.duration and mcp.client.operation.duration as well.
package telemetry
