// Package clienthttp carries a client's messages to a server over Streamable
// HTTP (basic/transports/streamable-http).
//
//	transport, err := clienthttp.New("https://example.com/mcp", &clienthttp.Options{
//		Header: http.Header{"Authorization": {"Bearer " + token}},
//	})
//	c := client.New(transport, nil)
//
// Every message is a POST of its own; the response is a JSON body or an event
// stream, whichever the server likes. Ending the context of a request closes
// its stream, and a server takes that for a cancellation.
//
// # Sessions of older revisions
//
// A [Transport] is a [protocol.LegacyPeer]: package client opens sessions over
// it with servers that know no other way. It then sends Mcp-Session-Id and the
// revision with every request, keeps a stream open for what the server says by
// itself (GET; 405 is fine), and ends the session (DELETE) when the client is
// closed. A stream that breaks is taken up where it broke if the server numbers
// its events: after the time that the server asks for, else after [DefaultRetry]
// and more each time. A request gives up after [MaxResumptions] attempts in a
// row that bring nothing; the stream of the session goes on trying. When the
// context of a request ends the server is told so in words, since to such a
// server a closed connection means nothing.
//
// The older transport of two endpoints (HTTP+SSE, revision 2024-11-05) is not
// spoken.
//
// # Limits
//
// Redirects are not followed: arguments and credentials go to the endpoint
// that was configured and nowhere else. Messages larger than
// [Options.MaxResponseBytes] are errors, be it after decompression. How long a
// server may take is for the context to say.
//
// # Failure
//
// An error message of the protocol is a response, whatever HTTP status it came
// with. Other statuses are a [*StatusError]. So are 401 and 403 with a
// challenge, because the caller needs their header. No error repeats the
// endpoint's URL.
package clienthttp
