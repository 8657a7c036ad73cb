package hophttp

// This file sends the answers of an MCP client over HTTP to their end.
//
// A client's answer to a question is a POST whose response has no body. mcp-go's client
// cancels it when the call that asked is over, which may be before the 202 has come:
// net/http has put the connection back into its pool by then, closes it for the
// cancellation, and so breaks the next request on it, which may be the answer to another
// question. That answer is lost, and its call waits for ever.

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

const (
	// sendTimeout bounds the sending of an answer, whose own context does not end it.
	sendTimeout = 30 * time.Second
	// maxPeek is the largest body that is looked at. A larger message is sent as it is.
	maxPeek = 1 << 20
)

// Transport sends requests by Next. The context of a request does not end the sending of
// an answer that has begun, which takes 30 s at most.
type Transport struct{ Next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isAnswer(r) {
		return t.Next.RoundTrip(r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err // the call is over, and so is its question
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), sendTimeout)
	response, err := t.Next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &body{response.Body, cancel}
	return response, nil
}

// CloseIdleConnections passes the call of an [http.Client] on.
func (t Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// isAnswer reports whether r carries a JSON-RPC response.
func isAnswer(r *http.Request) bool {
	if r.Method != http.MethodPost || r.GetBody == nil || r.ContentLength > maxPeek {
		return false
	}
	copied, err := r.GetBody()
	if err != nil {
		return false
	}
	defer copied.Close()
	var message struct {
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(copied, maxPeek)).Decode(&message) != nil {
		return false
	}
	return message.Method == nil && (message.Result != nil || message.Error != nil)
}

// body releases the context of a request when its response is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body.
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
