package mcpgo

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/upstream"
)

// HTTPClient returns an HTTP client for the transport of an [Upstream]:
//
//	transport.NewStreamableHTTP(url, transport.WithHTTPBasicClient(mcpgo.HTTPClient(nil)))
//
// mcp-go does not report whether an answer arrived. With this client the router counts an answer
// when the upstream has taken it, and one that it refuses, or that cannot be sent, as
// [elicitation.ReasonAnswerLost]. base does the requests, nil: [http.DefaultClient]. It is not
// modified.
//
// Nor does it lose answers when calls end: mcp-go cancels the request that carries an answer as
// soon as the result of the call is there, and net/http may have given its connection to the next
// one by then. With this client the sending of an answer that has begun goes on, for 30 s at most.
func HTTPClient(base *http.Client) *http.Client {
	if base == nil {
		base = http.DefaultClient
	}
	client := *base
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = answerWatcher{hophttp.Transport{Next: next}}
	return &client
}

type answersKey struct{}

// callAnswers are the answers to questions of one call. mcp-go derives the context of the request
// that sends an answer from that of the call.
type callAnswers struct {
	book    upstream.Book
	watched atomic.Bool // by an answerWatcher
}

// expectAnswer returns the receipt of a question whose handler has ctx, nil where nobody sees what
// becomes of the answer, and what forgets it.
func expectAnswer(ctx context.Context, id mcp.RequestId) (
	r *elicitation.Receipt, forget func(error)) {
	answers, ok := ctx.Value(answersKey{}).(*callAnswers)
	if !ok || !answers.watched.Load() {
		return nil, func(error) {}
	}
	raw, err := json.Marshal(id)
	key := upstream.Key(raw)
	if err != nil || key == "" {
		return nil, func(error) {}
	}
	r = &elicitation.Receipt{}
	answers.book.Add("", key, r)
	return r, func(err error) { answers.book.Settle(key, err) }
}

// An answerWatcher sees what upstreams say to answers.
type answerWatcher struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (w answerWatcher) RoundTrip(r *http.Request) (*http.Response, error) {
	answers, ok := r.Context().Value(answersKey{}).(*callAnswers)
	if !ok {
		return w.base.RoundTrip(r)
	}
	answers.watched.Store(true) // the first request is that of the call
	key := ""
	if head := upstream.ReadHead(r.GetBody); head.IsResponse() {
		key = upstream.Key(head.ID)
	}
	response, err := w.base.RoundTrip(r)
	switch {
	case key == "":
	case err != nil:
		answers.book.Settle(key, err)
	case response.StatusCode >= http.StatusMultipleChoices:
		answers.book.Settle(key, upstream.StatusError(response.StatusCode))
	default:
		answers.book.Settle(key, nil)
	}
	return response, err
}
