package event

import "github.com/rondo-mcp/rondo/protocol"

// RequestRefused: a transport refused a request, or something that should have
// been one, before any middleware saw it. Middleware, and the log lines and
// metrics it makes, know nothing of such a request. The exception is a request
// over HTTP that lacks the scopes of what it calls: Err has those that it has.
//
// Everything in it may be logged: it holds no credentials, cookies, session ids
// or arguments. RequestID and the text of Err may still repeat what a peer
// chose, so escape and cut them.
type RequestRefused struct {
	nowhere
	// Transport is "http", "stream" for lines on stdio and the like, or empty
	// where the server refused whatever any of them brought, since it is closing.
	Transport string
	Reason    RefusalReason
	// Status is that of the HTTP response. 0 on a stream of lines; 200 where one
	// message of a batch was refused and the others were served.
	Status int
	// Code is that of the JSON-RPC error the client got.
	Code int64
	// RequestID is the JSON text of the request's id; empty where it has none or
	// it could not be read.
	RequestID string
	// RemoteAddr is the address of the peer as the HTTP server knows it. Behind a
	// proxy it is the proxy's. Empty on a stream.
	RemoteAddr string
	// Principal is who was refused for want of room. Other refusals come before
	// or without authentication and leave it empty.
	Principal protocol.Principal
	// Err says why, for the operator, and names the option that would admit the
	// request where there is one. It is never nil, and not what the client was
	// told. What an authentication hook returned can be found in it with
	// errors.Is and errors.As; its text has the request's credentials masked.
	Err error
}

// A RefusalReason says why a request was refused before any middleware. The set
// is closed, so that it can be a label of a metric.
type RefusalReason string

// The reasons of [RequestRefused], and the HTTP status of each.
const (
	// 403: Host names no host of this endpoint
	RefusedHost RefusalReason = "host"
	// 403: a web page of this origin may not use it
	RefusedOrigin          RefusalReason = "origin"
	RefusedUnauthenticated RefusalReason = "unauthenticated" // 401
	// 403: authenticated, and not permitted
	RefusedForbidden RefusalReason = "forbidden"
	// 400: the credentials are malformed
	RefusedCredentials RefusalReason = "malformed_credentials"
	// 503: the credentials cannot be checked at the moment
	RefusedUnverified RefusalReason = "unverified"
	RefusedHTTPMethod RefusalReason = "http_method" // 405
	// 415: Content-Type or Content-Encoding
	RefusedMediaType RefusalReason = "media_type"
	RefusedAccept    RefusalReason = "accept"    // 406
	RefusedTooLarge  RefusalReason = "too_large" // 413
	RefusedTooSlow   RefusalReason = "too_slow"  // 408
	// 400: no JSON, no message, no message for a server
	RefusedMalformed RefusalReason = "malformed"
	RefusedVersion   RefusalReason = "version"         // 400: a revision that is not served
	RefusedHeaders   RefusalReason = "header_mismatch" // 400: headers and body do not agree
	RefusedNoSession RefusalReason = "no_session"      // 400: the request names no session
	// 404: unknown, ended, or another principal's
	RefusedSessionGone RefusalReason = "session_gone"
	RefusedBatch       RefusalReason = "batch" // 400: the revision has no batches
	// 400: Last-Event-ID names nothing that is kept
	RefusedEventID RefusalReason = "event_id"
	// stream: a request with this id is running
	RefusedDuplicateID RefusalReason = "duplicate_id"
	RefusedRequests    RefusalReason = "too_many_requests" // 429: too many are running
	RefusedSessions    RefusalReason = "too_many_sessions" // 503: too many are open
	RefusedClosing     RefusalReason = "closing"           // 503: the server shuts down
	// 502: the replica that owns the session may have received the request, or not
	RefusedOutcomeUnknown RefusalReason = "outcome_unknown"
	// 503: the replica that owns the session cannot be reached, and may be alive
	RefusedUnreachable RefusalReason = "unreachable"
	// 508, 400: a replica passed on what is not for this one, or changed it
	RefusedMisdirected RefusalReason = "misdirected"
)
