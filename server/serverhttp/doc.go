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
// One URL takes every message, each as a POST of its own. The answer is one
// JSON object on one line; when a handler notifies the client while it works,
// it becomes a stream of events whose last one is the response. Which of the
// two is decided as late as possible, so that refusals keep their HTTP status.
//
// Accept chooses the form, since many hosts admit one alone. With application/json
// alone nothing goes out but the response. In a session notifications and questions
// then go to the GET stream that the client has open; where there is none the first
// are dropped, and a call that asks is refused before its question. Status 406 is for
// what the form cannot carry (subscriptions/listen as JSON), before a handler runs.
//
// # What is checked
//
// A request passes these checks in this order, and the first that fails
// answers it. None of them reveals anything to a page that may not ask.
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
//	MCP-Protocol-Version is there and agrees with _meta     400 -32020
//	the version is supported                                400 -32022
//	Mcp-Method is there and agrees with the body            400 -32020
//	_meta is complete, the parameters can be read           400 -32602
//	the method exists                                       404 -32601
//	Mcp-Name is there and agrees with the body              400 -32020
//	Mcp-Param-* agree with the arguments they mirror        400 -32020
//
// After these checks the status is 200, whatever the response says, except for a missing client
// capability (-32021), which is 400, and for scopes that the credentials lack (23226), which is 403
// with a challenge, or what the [Authority] says. Requests that are refused from the version on
// pass the middleware of the server; what cannot be read as a request does not. All that does not
// pass it is an event for the observer of the server, [event.RequestRefused], which the log and the
// metrics of package middleware know.
//
// # Credentials
//
// [Options].Authenticate tells who sends a request. An [Authority] also tells what the request may
// do: the scopes of its credentials, against which [server.Tool].Scopes and their like are checked
// before a handler runs. A request that lacks some is refused with the authority's challenge, by
// which a client gets better credentials and sends the request again, in the middle of a session or
// of a flow, too. In a session each request has its own scopes, and all have the principal that
// opened it. Where there is no authority nothing that has scopes is served. A handler may return a
// [server.ScopeError] itself; once its response is a stream, the error is the last event and there
// is no challenge.
//
// # Web pages
//
// Pages of the endpoint's own origin may use it, and those of [Options].AllowedOrigins. Browsers
// ask before they let a page of another origin send a request, and keep the response from it unless
// that permits them. For listed origins, compared to the letter, the handler does both: it answers
// the preflight, and names the origin, and the headers that a page may read, in every response,
// refusals included. A page may send the headers of the protocol, Mcp-Param-* and Authorization.
// Cookies and other credentials that a browser adds by itself are never admitted
// (Access-Control-Allow-Credentials): a page sends its own token. No other origin gets any such
// header.
//
// A page that has rebound its name to the address of the endpoint (DNS rebinding) passes for one of
// the same origin. On loopback addresses its name in Host gives it away. On private addresses (RFC
// 1918, 4193, 6598, link-local) an internal site may have any name, so there a page of the same
// origin that is named by neither an address nor [Options].AllowedHosts is refused, unless it came
// over https: a page that has rebound its name has no certificate to show for it. That is as the
// browser sees it, so a site behind a proxy that ends TLS is served. A plain http site on a private
// address needs AllowedHosts.
//
// # Two eras
//
// Clients of revisions 2024-11-05 to 2025-11-25 are served at the same URL. What names no version
// in _meta, and a legacy one or none in the header, is of their era. Their requests belong to a
// session, whose id initialize is answered with (basic/transports of those revisions):
//
//	POST initialize      200, opens a session
//	POST anything else   200; 202 where there is nothing to answer
//	GET                  200, a stream for what relates to no request,
//	                     or with Last-Event-ID the rest of any stream
//	DELETE               204, ends the session
//
// Without a session id the answer is 400, with that of a session which has ended, is unknown, or is
// another principal's it is 404 with code -32001, and the client starts over; its initialize may
// still name the lost session. Their revisions have no Mcp-Method, Mcp-Name and Mcp-Param-*; where
// a client sends them all the same they must agree with the body, with each message of a batch, for
// a proxy may authorize by them: the answer is 400 otherwise, for Mcp-Param-* the error -32602 of
// the call. Errors of requests have status 200, as their clients expect. A batch is taken in
// sessions of revision 2025-03-26, which alone has them. The transport of 2024-11-05 that preceded
// this one, HTTP with SSE, is not served; clients of that revision are, if they use this one.
//
// Questions are put to the client on the stream of the request that they belong to, and need no GET
// stream. A connection that breaks loses nothing: events have ids, and are kept, within limits,
// until the client comes back for them with Last-Event-ID. What is not kept any more is refused
// with 400, for 404 would end the session. A handler can hang up by itself, see
// [server.Call.CloseStream].
//
// With [Options].StatelessLegacy there are no sessions, with [server.Options].ModernOnly no legacy
// clients: they are told which versions are supported.
//
// # Several replicas
//
// With [Options].Replicas any replica takes the requests of a legacy session, see package
// replicas. One that does not own the session answers for the owner where that does not:
//
//	404  the owner is gone, and has surely not received the request
//	502  the owner may have received it, and died or hangs: "outcome unknown"
//	503  Replicas.Locate failed, or the owner hangs; the request was not delivered
//	508  it was passed on already, to who does not own the session
//
// The answer to a question gets 202 within two seconds where the owner hangs, and is sent until the
// owner has it, for five minutes at most.
//
// The owner sees the headers of the client and its address in RemoteAddr. It alone counts the
// request; the other replica reports [event.RequestForwarded].
//
// # Contexts
//
// The context of a handler ends when a modern client goes away, which is how it cancels
// (basic/patterns/cancellation); nothing more is written then. A client that closes only its
// sending direction counts as gone: net/http cannot tell. Requests of legacy clients go on without
// them; their contexts end with notifications/cancelled or with the session. All of them end when
// [Handler.Shutdown] runs out of patience, those of modern clients also when what is written to a
// stream is not taken.
//
// # Subscriptions
//
// The stream of subscriptions/listen begins at once, with the acknowledgment, and ends with a
// response when [Handler.Shutdown] or the [server.Server] ends it. In between a comment now and
// then keeps it from being closed as idle (after 25 s). A client that leaves is noticed at once,
// one that is there and no longer reads when what is written to it has filled the buffers of the
// connection and the write timeout has passed. A machine that vanished without a word is found by
// the operating system, which on Linux takes about a quarter of an hour unless TCP_USER_TIMEOUT is
// set on the connection; until then the subscription holds its place among
// [server.Options].MaxSubscriptions.
//
// # Limits
//
// Every limit is a field of [Options] with a default, or a constant. One principal has a share of
// those on sessions, a quarter, and anonymous clients are one account. At the cap on
// sessions the one that was idle longest, and for a minute at least, makes room.
// Limits.RequestsPerSession leaves out calls that wait for a person, which have limits of
// their own ([roundtrip.Options].Limits.Waiting). Set ReadHeaderTimeout and IdleTimeout
// on the [http.Server]: no handler can do that for it.
package serverhttp
