// Package telemetry traces flows with OpenTelemetry: requests of servers, clients and gateways,
// questions, answers, and the links between a flow's rounds. It is a separate module, so that only
// its users compile OpenTelemetry.
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
// A gateway has it in its server options and around the result of Upstream.Connect, a hosted server
// in its front's options. An elicitation.Router passes a question's context on unchanged.
//
// # Spans
//
// Names and attributes follow the semantic conventions for MCP. The README shows a flow.
//
//   - Each round of a flow of revision 2026-07-28 is a request, linked to the previous round, at
//     any replica, if that was sampled. In a session each question is a span.
//   - A run of a task is a trace of its own, linked to the call that began the task.
//   - Observer events are span events, with the fields of their log entries: rondo.waited_ms of
//     mcp.answered is the time that a person took.
//
// Spans have keys of questions, but no arguments, answers, state, texts of questions and errors, or
// session ids.
//
// # Trust
//
// A request brings its trace context in _meta (basic/index, "OpenTelemetry trace context"), where
// callers can write anything. A malformed context is ignored. Unless [Options].TrustCaller trusts
// it, a caller's span is a link, not a parent, so that callers can neither force recording by
// marking requests as sampled nor write into other traces.
//
// # Metrics
//
// [Metrics] is a sink for package middleware, beside prom or in its place, with the same table:
// rondo.human_wait is the histogram of people's time. [Options].MeterProvider gets
// mcp.server.operation.duration and mcp.client.operation.duration as well.
package telemetry
