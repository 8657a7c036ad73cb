package event

import "github.com/rondo-mcp/rondo/protocol"

// RequestRefused: a transport refused a request or malformed input before any middleware; or
// middleware saw an HTTP request that lacks scopes; Err names its scopes.
//
// All of it may be logged: it has no credentials, cookies, session ids or arguments. RequestID and
// the text of Err may repeat a peer's text: escape and truncate them.
type RequestRefused struct {
	nowhere
	// Transport is "http", "stream" (lines, such as on stdio), or empty if the server is closing.
	Transport string
	Reason    RefusalReason
	// Status is the HTTP status; 0 for a stream of lines, 200 for one refused message of a batch.
	Status     int
	Code       int64  // of the client's JSON-RPC error
	RequestID  string // JSON text of the id; empty: none or unreadable
	RemoteAddr string // of the HTTP connection's peer, perhaps a proxy; empty on a stream
	// Principal is set if a limit was reached, otherwise empty.
	Principal protocol.Principal
	// Err says why, for the operator, and names an option that would admit the request. It is not
	// the client's error, never nil, and wraps an authentication hook's; credentials are masked.
	Err error
}

// A RefusalReason says why a request was refused before any middleware: a closed set, usable as a
// metric label. The HTTP status is in parentheses.
//
//   - host (403): Host names no host of this endpoint
//   - origin (403): web pages of this origin are not allowed
//   - unauthenticated (401)
//   - forbidden (403): authenticated, but not permitted
//   - malformed_credentials (400)
//   - unverified (503): the credentials cannot be checked now
//   - http_method (405)
//   - media_type (415): Content-Type or Content-Encoding
//   - accept (406)
//   - too_large (413)
//   - too_slow (408)
//   - malformed (400): no JSON, no message, or no message for a server
//   - version (400): a revision that is not served
//   - header_mismatch (400): headers and body do not agree
//   - no_session (400): the request names no session
//   - session_gone (404): unknown, ended, or another principal's
//   - batch (400): the revision has no batches
//   - event_id (400): Last-Event-ID names nothing that is kept
//   - duplicate_id (line streams only): a request with this id is in flight
//   - too_many_requests (429): too many are in flight
//   - too_many_sessions (503): too many are open
//   - closing (503): the server shuts down
//   - outcome_unknown (502): the replica that owns the session may have received the request
//   - unreachable (503): the replica that owns the session cannot be reached, and may be alive
//   - misdirected (508, 421, 400): a replica changed a request or forwarded it to the wrong one
type RefusalReason string
