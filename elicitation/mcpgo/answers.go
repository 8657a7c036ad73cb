package mcpgo

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/answerhttp"
)

// CompleteAnswers returns a transport, over next, for the HTTP client of an upstream
// connection: once the sending of an answer to a question has begun it is not cancelled with
// the call to which the question belongs, and takes 30 s at most. A nil next means
// [http.DefaultTransport].
//
// mcp-go's client cancels the request that carries an answer as soon as the result of the
// call is there. The connection may be back in the pool of net/http by then, with the next
// request on it. Where many calls ask at once the answer to another question is so lost, and
// its call waits until it times out. Use it with
//
//	transport.WithHTTPBasicClient(&http.Client{Transport: mcpgo.CompleteAnswers(nil)})
func CompleteAnswers(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return answerhttp.Transport{Next: next}
}
