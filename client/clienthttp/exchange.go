package clienthttp

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/sse"
	"github.com/rondo-mcp/rondo/protocol"
)

// The two media types of an answer.
const (
	mediaJSON = "application/json"
	mediaSSE  = "text/event-stream"
)

// An exchange is one POST whose answer has begun to arrive.
type httpExchange struct {
	transport    *Transport
	ctx          context.Context // of this exchange only; it lives no longer than it
	cancel       context.CancelCauseFunc
	unlinkCaller func() bool // from the caller's context
	unlinkLife   func() bool // following the transport's life
	resp         *http.Response
}

// response reads the answer to the request with the given id.
func (x *httpExchange) readResponse(id protocol.ID, back protocol.Back) (*protocol.Response, error) {
	media := x.mediaType()
	switch {
	case x.resp.StatusCode != http.StatusOK:
		return x.readRefusal(id, media)
	case media == mediaJSON:
		body, err := x.readBody()
		if err != nil {
			return nil, err
		}
		m, err := protocol.DecodeMessage(body)
		if err != nil {
			return nil, errPrefix.Errorf("response: %w", withoutCode(err))
		}
		resp, ok := m.(*protocol.Response)
		if !ok {
			return nil, errors.New("clienthttp: response: body is not a response message")
		}
		return resp, checkResponseID(resp, id)
	case media == mediaSSE:
		return x.readStream(id, back)
	}
	return nil, errPrefix.Errorf("response: content type %.64q is neither %s nor %s",
		x.resp.Header.Get("Content-Type"), mediaJSON, mediaSSE)
}

// errAsked says that a server does what modern ones may not.
var errServerRequest = errors.New("no modern server may")

// stream hands on notifications until the response comes
// (basic/transports/streamable-http, "Receiving Messages").
func (x *httpExchange) readStream(id protocol.ID, back protocol.Back) (*protocol.Response, error) {
	events := sse.NewReader(x.resp.Body, int(min(x.transport.maxBytes, 1<<30))+eventFraming)
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, x.newTooLargeError("event")
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, errPrefix.Errorf("%w", ErrNoResponse)
		case err != nil:
			return nil, errPrefix.Errorf("stream: %w", err)
		}
		if x.ctx.Err() != nil { // what is buffered may be much, and the server may send without end
			return nil, errPrefix.Errorf("%w", context.Cause(x.ctx))
		}
		if event.Type != "" && event.Type != "message" {
			continue // no event of the protocol
		}
		m, err := protocol.DecodeMessage(event.Data)
		if err != nil {
			return nil, errPrefix.Errorf("stream: %w", withoutCode(err))
		}
		switch m := m.(type) {
		case *protocol.Notification:
			if back != nil {
				if err := back.Notify(x.ctx, m); err != nil {
					return nil, err
				}
			}
		case *protocol.Response:
			return m, checkResponseID(m, id)
		case *protocol.Request:
			return nil, errPrefix.Errorf("stream: server sent a request (%.64q): %w", m.Method, errServerRequest)
		}
	}
}

// refusal reads the answer to a request that has an error status.
func (x *httpExchange) readRefusal(id protocol.ID, media string) (*protocol.Response, error) {
	failed := &StatusError{Status: x.resp.StatusCode, Header: x.resp.Header}
	if media != mediaJSON {
		failed.Excerpt = x.readExcerpt()
		return nil, failed
	}
	body, err := x.readBody()
	if err != nil {
		return nil, errPrefix.Errorf("%w: %w", failed, err)
	}
	m, err := protocol.DecodeMessage(body)
	resp, ok := m.(*protocol.Response)
	if err != nil || !ok || resp.Error == nil {
		failed.Excerpt = clipBody(body)
		return nil, failed
	}
	if err := checkResponseID(resp, id); err != nil {
		return nil, errPrefix.Errorf("%w: %w", failed, err)
	}
	failed.Response = resp.Error
	if s := failed.Status; (s == http.StatusUnauthorized || s == http.StatusForbidden) && failed.Header.Get("WWW-Authenticate") != "" {
		return nil, failed
	}
	return resp, nil
}

// accepted checks the answer to a notification.
func (x *httpExchange) checkAccepted() error {
	if x.resp.StatusCode >= 200 && x.resp.StatusCode < 300 {
		return nil
	}
	_, err := x.readRefusal(protocol.ID{}, x.mediaType())
	if err == nil {
		err = &StatusError{Status: x.resp.StatusCode, Header: x.resp.Header}
	}
	return err
}

// answers checks that a response is for the one request of its exchange. An
// error without id is: there is nothing else that it could be about.
func checkResponseID(resp *protocol.Response, id protocol.ID) error {
	if resp.ID == id || (resp.Error != nil && resp.ID.IsZero()) {
		return nil
	}
	return errPrefix.Errorf("response has id %.64s, the request %s", resp.ID, id)
}

// media returns the media type of the answer without parameters.
func (x *httpExchange) mediaType() string {
	value := x.resp.Header.Get("Content-Type")
	if value == mediaJSON || value == mediaSSE {
		return value
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return media
}

// body reads a whole body within the limit. The caller owns the memory:
// messages alias it.
func (x *httpExchange) readBody() ([]byte, error) {
	limit, size := x.transport.maxBytes, x.resp.ContentLength
	if size > limit {
		return nil, x.newTooLargeError("body")
	}
	// A server may claim any length: only so much is believed beforehand.
	const believed = 64 << 10
	const unknown = 512
	if size < 0 {
		size = unknown
	}
	buf := make([]byte, 0, min(size+1, believed, limit+1))
	for {
		n, err := x.resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, x.newTooLargeError("body")
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, errPrefix.Errorf("response body: %w", err)
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

func (x *httpExchange) newTooLargeError(what string) error {
	return errPrefix.Errorf("%s: %w: more than %d bytes", what, ErrResponseTooLarge, x.transport.maxBytes)
}

// excerpt reads the start of a body that is no message.
func (x *httpExchange) readExcerpt() string {
	body, _ := io.ReadAll(io.LimitReader(x.resp.Body, maxExcerpt))
	return clipBody(body)
}

func clipBody(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxExcerpt)]), "")
}

// plain turns the refusal that DecodeMessage has for a peer into an error of
// ours: nobody said it to us.
func withoutCode(err error) error {
	if e, ok := protocol.AsError(err); ok {
		return errors.New(e.Message)
	}
	return err
}

// blame names what ended the exchange where that was not the network: the
// caller's context or Close.
func (x *httpExchange) explainError(err error) error {
	if err == nil || x.ctx.Err() == nil {
		return err
	}
	return errPrefix.Errorf("%w", context.Cause(x.ctx))
}

// framing is what an event may need beside its message: field names, a type
// and an id.
const eventFraming = 512

// tail is how long, at most, a server has to end a stream after the response.
const streamTail = time.Second

// finish lets go of the answer and returns err, by its right name. After a failure the connection is closed,
// which tells the server to stop. After a success a stream is about to end;
// waiting for that, behind the caller's back, keeps the connection for reuse.
func (x *httpExchange) closeWith(err error) error {
	err = x.explainError(err)
	x.unlinkCaller()
	if err != nil || x.mediaType() != mediaSSE {
		x.releaseAll()
		return err
	}
	go func() {
		timer := time.AfterFunc(streamTail, func() { x.cancel(nil) })
		defer timer.Stop()
		_, _ = io.CopyN(io.Discard, x.resp.Body, maxExcerpt)
		x.releaseAll()
	}()
	return nil
}

// release gives everything back. The exchange must not be used afterwards.
func (x *httpExchange) releaseAll() {
	if x.resp != nil {
		_ = x.resp.Body.Close()
	}
	x.unlinkCaller()
	x.unlinkLife()
	x.cancel(nil)
	x.transport.running.Done()
}
