// Package protocol encodes and decodes the Model Context Protocol: messages, results, questions,
// capabilities and errors, each as the protocol revision in force spells it.
//
// # Two eras
//
// Revisions up to 2025-11-25 ([Legacy]) open a session and let the server push requests to the
// client. Revision 2026-07-28 ([Modern]) has no sessions: a server that needs input answers with an
// [InputRequiredResult], and the client repeats it with answers. [Version.Era] tells which.
//
// # Sealed results
//
// [Result] is a sealed interface. A handler of tools/call may return fewer: a [CallToolOutcome] is
// a [*CallToolResult] or [*InputRequiredResult]. Encode and decode results with:
//
//	data, err := protocol.EncodeResult(protocol.V20260728, protocol.MethodCallTool, outcome)
//	result, err := protocol.DecodeResult(protocol.V20260728, protocol.MethodCallTool, data)
//
// # Questions and answers
//
// An [InputRequiredResult] carries [InputRequests] in the order in which the user is to be asked.
// The answers return as [InputResponses]: raw JSON by key, because the question decides the shape
// of its answer. [RequestState] distinguishes absent from empty, as the wire does.
//
// # Strictness
//
// Decoding matches member names exactly, and refuses duplicate members, invalid UTF-8 and nesting
// deeper than 64, with the exceptions of [DecodeMessage]. Identifiers and schemas are kept as sent:
// 1, "1" and 9007199254740993 are three ids.
//
// # Concurrency
//
// Values of this package are plain data: safe for concurrent reads, but not during writes.
package protocol
