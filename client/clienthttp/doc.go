// Package clienthttp is the client's transport over Streamable HTTP
// (basic/transports/streamable-http).
//
//	transport, err := clienthttp.New("https://example.com/mcp", &clienthttp.Options{
//		Header: http.Header{"Authorization": {"Bearer " + token}},
//	})
//	c, err := client.New(transport, nil)
//
// Every message is one POST; the response is a JSON body or an event stream. When a request's
// context ends, its stream is closed, which cancels the request.
//
// # Sessions of older revisions
//
// A [Transport] is a [protocol.LegacyPeer]: package client opens sessions over it with servers of
// older revisions. Every request then carries Mcp-Session-Id and the revision. A GET stream stays
// open for messages that belong to no request (the server may answer 405), and closing the client
// ends the session (DELETE). If the server numbers its events, a broken stream is resumed: after
// the server's retry time or 1 s, with back-off. A request fails after 5 attempts in a row that
// receive nothing; the stream of the session is resumed without limit. When a request's context
// ends, the client sends a cancellation: in these revisions closing the connection does not cancel.
//
// The older HTTP+SSE transport (revision 2024-11-05) is not supported.
//
// # Credentials
//
// [Options.Header] is sent with every request. An [Authorizer] is called for each request and each
// refusal (401, or 403 with a challenge): it logs in or renews a token and has the same bytes sent
// again, up to 4 times, so calls and sessions outlive tokens. Package client/oauth has one.
//
// # Limits
//
// Redirects are not followed: arguments and credentials go to the configured endpoint only.
// Messages larger than [Options.MaxResponseBytes], after decompression, are errors. The context of
// a request limits its time.
//
// # Failure
//
// An error message of the protocol is a response, whatever its HTTP status. Other error statuses
// are a [*StatusError], and so are 401 and 403 with a challenge, because the caller needs their
// header. No error repeats the endpoint's URL, or the credentials of an [Authorizer].
package clienthttp
