package event

import "github.com/rondo-mcp/rondo/protocol"

// RequestRefused: a transport refused a request, or malformed input, before any middleware saw it.
// The logs and metrics of middleware do not have such a request. The exception is a request over
// HTTP that lacks the scopes of what it calls: Err has those that it has.
//
// Everything in it may be logged: it holds no credentials, cookies, session ids or arguments.
// RequestID and the text of Err may repeat what a peer chose, so escape and truncate them.
type RequestRefused struct {
	nowhere
	// Transport is "http", "stream" for lines on stdio and the like, or empty if the server refuses
	// requests of all transports because it is closing.
	Transport string
	Reason    RefusalReason
	// Status is that of the HTTP response. 0 on a stream of lines; 200 if one message of a batch
	// was refused and the others were served.
	Status int
	// Code is that of the JSON-RPC error the client got.
	Code int64
	// RequestID is the JSON text of the request's id; empty if it has none or is unreadable.
	RequestID string
	// RemoteAddr is the address of the peer of the HTTP connection, which may be a proxy. Empty on
	// a stream.
	RemoteAddr string
	// Principal is set if a limit was reached. Other refusals come before or without
	// authentication and leave it empty.
	Principal protocol.Principal
	// Err says why, for the operator, and names the option that would admit the request, if any. It
	// is never nil, and not what the client was told. It wraps the error of an authentication hook;
	// its text has the request's credentials masked.
	Err error
}

// A RefusalReason says why a request was refused before any middleware. The set is closed, so that
// it can be a label of a metric. The HTTP status of each is in parentheses.
//
//   - host (403): Host names no host of this endpoint
//   - origin (403): a web page of this origin may not use it
//   - unauthenticated (401)
//   - forbidden (403): authenticated, and not permitted
//   - malformed_credentials (400)
//   - unverified (503): the credentials cannot be checked at the moment
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
//   - duplicate_id (line streams only): a request with this id is running
//   - too_many_requests (429): too many are running
//   - too_many_sessions (503): too many are open
//   - closing (503): the server shuts down
//   - outcome_unknown (502): the replica that owns the session may have received the request
//   - unreachable (503): the replica that owns the session cannot be reached, and may be alive
//   - misdirected (508, 421, 400): a replica forwarded a request that is not for this one, or
//     changed it
type RefusalReason string
