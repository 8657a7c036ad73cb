// Package clienthttp is the client's transport over Streamable HTTP
// (basic/transports/streamable-http).
//
//	transport, err := clienthttp.New("https://example.com/mcp", &clienthttp.Options{
//		Header: http.Header{"Authorization": {"Bearer " + token}},
//	})
//	c, err := client.New(transport, nil)
//
// Every message is a POST of its own. The response is a JSON body or an event stream, as the server
// chooses. The end of a request's context closes its stream, which cancels the request.
//
// # Sessions of older revisions
//
// A [Transport] is a [protocol.LegacyPeer]: package client opens sessions over it with servers of
// older revisions. It then sends Mcp-Session-Id and the revision with every request, keeps a stream
// open for messages that belong to no request (GET; the server may answer 405), and ends the
// session (DELETE) when the client is closed. If the server numbers its events, a broken stream is
// resumed: after the time that the server sets, else after 1 s, with back-off. A request fails
// after 5 attempts in a row that receive nothing; the stream of the session is resumed without
// limit. When the context of a request ends, the client sends a cancellation: in these revisions a
// closed connection is none.
//
// The older transport of two endpoints (HTTP+SSE, revision 2024-11-05) is not supported.
//
// # Credentials
//
// [Options.Header] sends the same credentials with every request. An [Authorizer] is called for
// each request and each refusal (401, or 403 with a challenge), logs in or renews a token, and has
// the same bytes sent again, up to 4 times, so calls and sessions outlive tokens. Package
// client/oauth has one.
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
