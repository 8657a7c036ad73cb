// Package protocol is the wire of the Model Context Protocol and nothing else: messages, results,
// questions, capabilities and errors, each spelled the way the protocol revision in force spells
// it.
//
// # Two eras
//
// Revisions up to 2025-11-25 ([Legacy]) open a session and let the server push requests to the
// client. Revision 2026-07-28 ([Modern]) has no sessions: a server that needs something from the
// person behind the client answers with an [InputRequiredResult] and the client sends the same
// request again, with answers. [Version.Era] tells the two apart.
//
// # Results that cannot be confused
//
// [Result] is a sealed interface. What a handler of tools/call may answer is narrower still: a
// [CallToolOutcome] is a [*CallToolResult] or an [*InputRequiredResult], never a mixture of both.
// [EncodeResult] and [DecodeResult] are the only functions that know how each revision spells a
// result:
//
//	data, err := protocol.EncodeResult(protocol.V20260728, protocol.MethodCallTool, outcome)
//	result, err := protocol.DecodeResult(protocol.V20260728, protocol.MethodCallTool, data)
//
// # Questions and answers
//
// An [InputRequiredResult] carries [InputRequests], in the order in which the person is to be
// asked. The answers come back as [InputResponses]: raw bytes by key, because the shape an answer
// must have is decided by the question and never guessed from the answer. [RequestState] keeps
// "absent" and "empty" apart, which the wire does too.
//
// # Strictness
//
// Decoding accepts exact-case member names only, and refuses duplicate members, invalid UTF-8 and
// nesting deeper than 64. Identifiers and schemas are kept as they were sent: 1, "1" and
// 9007199254740993 are three ids.
//
// # Concurrency
//
// Values of this package are plain data: they may be read by several goroutines at once and must
// not be changed while they are.
package protocol
