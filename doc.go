// Package rondo is the root of a library for Model Context Protocol servers, clients and gateways
// that ask the person behind the client something in the middle of a call.
//
// A handler is written once. On revision 2026-07-28, which has no sessions, it returns its
// questions and the client comes back with the answers; package roundtrip keeps what the flow knows
// in a state that is sealed and bound to the caller and the request.
//
// # Where to start
//
// Run the quickstart and read its three files:
//
//	go run ./examples/quickstart
//
// Then read, in this order, the documentation of package [github.com/rondo-mcp/rondo/roundtrip],
// which teaches how handlers ask, its funnel.go, through which every such request goes, and package
// [github.com/rondo-mcp/rondo/server].
//
// # Packages
//
//   - protocol: the messages, results, questions and errors of the protocol,
//     spelled for each revision. Imports nothing but the standard library's
//     core and a JSON codec.
//   - roundtrip: questions, answers, sealed state and the funnel. Free of
//     transports; gateways and other SDKs can sit on it.
//   - server: tools, prompts and resources; server/serverhttp serves them over
//     Streamable HTTP; server/middleware logs, measures and protects.
//   - server/hosted: rondo's server in front of one that is built on another SDK.
//   - client: calls servers and has the person answer their questions;
//     client/clienthttp speaks Streamable HTTP.
//   - elicitation: takes the questions of a gateway's upstream servers to the
//     clients whose calls caused them. elicitation/gateway is a gateway as a whole;
//     elicitation/streamhttp is for gateways built on another SDK.
//   - roundtrip/roundtriptest: tests for handlers of your own.
//   - examples: programs to run and to copy from.
//
// Modules of their own, with the dependencies they need: server/hosted/gosdk and
// server/hosted/mcpgo put rondo in front of servers built on the official Go SDK and on mcp-go;
// roundtrip/redisstore keeps states on Redis; roundtrip/telemetry traces with OpenTelemetry.
//
// The root package itself holds nothing.
package rondo
