// Package serverhttp serves a [server.Server] over Streamable HTTP
// (basic/transports/streamable-http).
//
//	srv, err := server.New(nil)
//	...
//	handler, err := serverhttp.New(srv, nil)
//	if err != nil {
//		return err
//	}
//	http.Handle("/mcp", handler)
//
// One URL accepts every message, each as its own POST. The response is one JSON object on one line,
// or, once the handler has notified the client, an event stream whose last event is the response.
// The form is decided as late as possible, so that refusals keep their HTTP status.
//
// The Accept header restricts the form. With only application/json just the response is sent: in a
// session, notifications and questions use the client's open GET stream; without one, notifications
// are dropped, and a call that asks is refused before its question. Requests that the form cannot
// answer (subscriptions/listen as JSON) get 406 before a handler runs.
//
// # Checks
//
// A request passes these checks in order; the first that fails answers it. No refusal reveals
// anything to a page without permission.
//
//	Host, Origin                                            403
//	a preflight of a listed origin                          204
//	Authenticate, or Authority                              401, 403; 400, 503
//	method                                                  405
//	Content-Type, Content-Encoding                          415
//	Accept                                                  406
//	size and time of the body                               413, 408
//	strict JSON, one message                                400 -32700, -32600
//	_meta names a version                                   400 -32602
//	MCP-Protocol-Version is present and agrees with _meta   400 -32020
//	the version is supported                                400 -32022
//	Mcp-Method is present and agrees with the body          400 -32020
//	_meta is complete, the parameters can be read           400 -32602
//	the method exists                                       404 -32601
//	Mcp-Name is present and agrees with the body            400 -32020
//	Mcp-Param-* agree with the arguments they mirror        400 -32020
//
// After these checks the status is 200 for any response, with two exceptions: a missing client
// capability (-32021) is 400, and missing scopes (23226) are 403 with a challenge, or as the
// [Authority] decides. From the version check on, refusals pass the server's middleware. For other
// refusals its observer gets an [event.RequestRefused], which package middleware logs and counts.
//
// # Credentials
//
// [Options].Authenticate identifies the sender of a request. An [Authority] also returns the scopes
// of its credentials, and [server.Tool].Scopes and similar fields are checked before a handler
// runs. A request that lacks scopes is refused with the authority's challenge; the client gets
// better credentials and retries, also within a session or a flow. In a session each request has
// its own scopes, but the principal must not change. Without an authority nothing that has scopes
// is served. A handler may also return a [server.ScopeError]; once the response is a stream, the
// error is the last event, without a challenge.
//
// # Web pages
//
// The endpoint may be used by pages of its own origin and of the origins in
// [Options].AllowedOrigins, which are compared exactly. For listed origins the handler answers
// preflights, and sends the CORS headers in every response, refusals included. A page may send the
// headers of the protocol, Mcp-Param-* and Authorization. Cookies and other credentials that
// browsers add are never allowed (Access-Control-Allow-Credentials): a page sends its own token.
//
// A page that rebinds its name to the endpoint's address (DNS rebinding) appears to have the same
// origin. On loopback addresses its name in Host reveals it. On private addresses (RFC 1918, 4193,
// 6598, link-local) an internal site may have any name. There a same-origin page is refused if its
// host is neither an address nor in [Options].AllowedHosts, unless the browser loaded it over
// https, for which a rebound name has no certificate. Sites behind a proxy that terminates TLS
// work; a plain http site on a private address needs AllowedHosts.
//
// # Two eras
//
// Clients of revisions 2024-11-05 to 2025-11-25 use the same URL. A message is legacy if its _meta
// names no version, and its header names a legacy version or none. Legacy requests belong to a
// session, whose id is in the response to initialize (basic/transports of those revisions):
//
//	POST initialize      200, opens a session
//	POST anything else   200; 202 if there is nothing to answer
//	GET                  200, a stream for messages that relate to no request,
//	                     or with Last-Event-ID the rest of any stream
//	DELETE               204, ends the session
//
// A missing session id is refused with 400. For a session that has ended, is unknown, or belongs to
// another principal the status is 404 with code -32001, and the client initializes again, even with
// the lost id in its header. These revisions have no Mcp-Method, Mcp-Name and Mcp-Param-*, but a
// proxy may authorize by them: if sent, they must agree with each message of the body, else the
// status is 400, or for Mcp-Param-* the call fails with -32602. Errors of requests have status 200,
// as legacy clients expect. Batches are accepted in sessions of revision 2025-03-26. The older
// transport of 2024-11-05, HTTP with SSE, is not served.
//
// Questions are sent on the stream of their request, and need no GET stream. Broken connections
// lose nothing: events have ids and are kept, within limits, until the client resumes with
// Last-Event-ID. Evicted events are refused with 400, because 404 would end the session. A handler
// can close the connection, see [server.Call.CloseStream].
//
// With [Options].StatelessLegacy there are no sessions. With [server.Options].ModernOnly legacy
// clients are refused with the supported versions.
//
// # Several replicas
//
// With [Options].Replicas any replica accepts the requests of a legacy session, see package
// replicas. If the owner of the session does not respond, the other replica answers:
//
//	404  the owner is gone, and cannot have received the request
//	502  the owner may have received it, and died or hangs: "outcome unknown"
//	503  Replicas.Locate failed, or the owner hangs; the request was not delivered
//	508  it was already forwarded, to a replica that does not own the session
//
// If the owner hangs, the answer to a question gets 202 within two seconds, and its delivery is
// retried for up to five minutes.
//
// The owner sees the client's headers, and its address in RemoteAddr. Only the owner counts the
// request; the other replica reports [event.RequestForwarded].
//
// # Contexts
//
// A handler's context ends when a modern client disconnects, which is how it cancels
// (basic/patterns/cancellation), or does not read its stream; nothing more is written then. Closing
// only the sending direction counts as a disconnect, because net/http cannot distinguish it. Legacy
// requests survive a disconnect; their contexts end with notifications/cancelled or the session.
// [Handler.Shutdown] finally cancels all requests in flight.
//
// # Subscriptions
//
// The stream of subscriptions/listen begins at once with the acknowledgment, and ends with a
// response when [Handler.Shutdown] or the [server.Server] ends it. A comment after each 25 s of
// silence keeps it open. A disconnect is detected at once, a client that stops reading when the
// connection's buffers are full and the write timeout has passed. A vanished machine is detected by
// the operating system, on Linux after about 15 minutes unless TCP_USER_TIMEOUT is set; until then
// the subscription counts in [server.Options].MaxSubscriptions.
//
// # Limits
//
// Every limit is a field of [Options] with a default, or a constant. One principal may use a
// quarter of the limits on sessions; all anonymous clients are one principal. At the limit the
// session idle longest, and for at least a minute, is evicted. Limits.RequestsPerSession excludes
// calls that wait for a person, which have their own limits ([roundtrip.Options].Limits.Waiting).
// Set ReadHeaderTimeout and IdleTimeout on the [http.Server]: a handler cannot.
package serverhttp
