package gosdk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// The SDK ends a connection, and with it the calls of all who share it, when the response to
// one request is not what it expects: a status of failure, a body that breaks off or is no
// message, an event that is too large. What causes that may be in the power of one user. What
// follows turns such a response into an error of the request alone.

// messageUnreadable is the text of the error for a response that is no message.
const messageUnreadable = "The upstream's response cannot be read"

// maxErrorBody bounds what is read of the body of a response that refuses a request.
const maxErrorBody = 1 << 20

// opensConnection reports whether the SDK decides by the failure of the message how, and
// whether, it speaks with the upstream.
func opensConnection(h upstream.MessageHead) bool {
	switch h.Method {
	case protocol.MethodInitialize, protocol.NotifyInitialized, protocol.MethodDiscover,
		protocol.MethodListen:
		return true
	}
	return false
}

// isolate changes the response to a message in place, where the SDK would end the connection.
// A status that means that the session is gone stays.
func isolate(head upstream.MessageHead, response *http.Response) {
	if head.Method == "" && head.ID == nil || opensConnection(head) {
		return
	}
	failed := response.StatusCode < http.StatusOK ||
		response.StatusCode >= http.StatusMultipleChoices
	switch {
	case failed && (head.Method == protocol.NotifyCancelled ||
		head.Method == protocol.NotifyProgress):
		// Nobody waits for these, and nobody should be asked to authorize for them.
		response.Body.Close()
		response.StatusCode, response.Body = http.StatusAccepted, http.NoBody
	case response.StatusCode == http.StatusNotFound && head.IsRequest():
	case failed:
		isolateRefusal(head, response)
	case head.IsRequest():
		isolateResult(head, response)
	}
}

// isolateRefusal gives a response that refuses a message an error as body, if it has none. With
// it the SDK fails the message alone. The status stays: it may be one at which the SDK
// authorizes.
func isolateRefusal(head upstream.MessageHead, response *http.Response) {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	response.Body.Close()
	if message, failed := jsonrpc.DecodeMessage(data); err == nil && failed == nil {
		if r, ok := message.(*jsonrpc.Response); ok && r.Error != nil {
			setBody(response, data)
			return
		}
	}
	setBody(response, encodeFailure(head.ID,
		fmt.Sprintf("The upstream refused the request with status %d", response.StatusCode)))
}

// isolateResult makes the body of a response one that the SDK can read.
func isolateResult(head upstream.MessageHead, response *http.Response) {
	switch kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind {
	case "application/json":
		response.Body = &wholeBody{Closer: response.Body, from: response.Body, id: head.ID}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
	case "text/event-stream":
	default:
		response.Body.Close()
		response.Header.Set("Content-Type", "application/json")
		setBody(response, encodeFailure(head.ID, messageUnreadable))
	}
}

func setBody(response *http.Response, data []byte) {
	response.Body = io.NopCloser(bytes.NewReader(data))
	response.ContentLength = int64(len(data))
	response.Header.Del("Content-Length")
}

// encodeFailure returns the response that a request has failed. id is JSON, nil for a message
// without a response, for which the SDK looks at the error alone.
func encodeFailure(id []byte, message string) []byte {
	if id == nil {
		id = []byte("0")
	}
	out := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	out = fmt.Appendf(out, `,"error":{"code":%d,"message":`, protocol.CodeInternalError)
	return append(jsonx.AppendText(out, message), "}}"...)
}

// A wholeBody is a JSON body that is read to its end before any of it is passed on. One that
// breaks off, because its call was cancelled, say, or is no message is replaced.
type wholeBody struct {
	io.Closer
	from  io.Reader
	id    []byte
	ready *bytes.Reader // nil: nothing was read yet
}

// Read implements [io.Reader].
func (b *wholeBody) Read(p []byte) (int, error) {
	if b.ready == nil {
		data, err := io.ReadAll(b.from)
		if err == nil {
			_, err = jsonrpc.DecodeMessage(data)
		}
		if err != nil {
			data = encodeFailure(b.id, messageUnreadable)
		}
		b.ready = bytes.NewReader(data)
	}
	return b.ready.Read(p)
}

// An authorizer is the OAuthHandler of a connection that calls share. The SDK ends a connection
// when the context of a request ends while the handler authorizes it.
type authorizer struct{ auth.OAuthHandler }

// Authorize implements [auth.OAuthHandler]. After an error the SDK would look at the context.
// Without one it sends the request again, which fails alone.
func (a authorizer) Authorize(ctx context.Context, r *http.Request, response *http.Response) error {
	err := a.OAuthHandler.Authorize(ctx, r, response)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
