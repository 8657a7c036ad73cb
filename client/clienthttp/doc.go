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
