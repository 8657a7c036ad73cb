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
type exchange struct {
	t      *Transport
	ctx    context.Context // of this exchange only; it lives no longer than it
	cancel context.CancelCauseFunc
	unlink func() bool // from the caller's context
	stop   func() bool // following the transport's life
	http   *http.Response
}

// response reads the answer to the request with the given id.
func (x *exchange) response(id protocol.ID, back protocol.Back) (*protocol.Response, error) {
	media := x.media()
	switch {
	case x.http.StatusCode != http.StatusOK:
		return x.refusal(id, media)
	case media == mediaJSON:
		body, err := x.body()
		if err != nil {
			return nil, err
		}
		m, err := protocol.DecodeMessage(body)
		if err != nil {
			return nil, errPrefix.Errorf("response: %w", plain(err))
		}
		resp, ok := m.(*protocol.Response)
		if !ok {
			return nil, errors.New("clienthttp: response: body is not a response message")
		}
		return resp, answers(resp, id)
	case media == mediaSSE:
		return x.stream(id, back)
	}
	return nil, errPrefix.Errorf("response: content type %.64q is neither %s nor %s",
		x.http.Header.Get("Content-Type"), mediaJSON, mediaSSE)
}

// errAsked says that a server does what modern ones may not.
var errAsked = errors.New("no modern server may")

// stream hands on notifications until the response comes
// (basic/transports/streamable-http, "Receiving Messages").
func (x *exchange) stream(id protocol.ID, back protocol.Back) (*protocol.Response, error) {
	events := sse.NewReader(x.http.Body, int(min(x.t.limit, 1<<30))+framing)
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, x.tooLarge("event")
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
			return nil, errPrefix.Errorf("stream: %w", plain(err))
		}
		switch m := m.(type) {
		case *protocol.Notification:
			if back != nil {
				if err := back.Notify(x.ctx, m); err != nil {
					return nil, err
				}
			}
		case *protocol.Response:
			return m, answers(m, id)
		case *protocol.Request:
			return nil, errPrefix.Errorf("stream: server sent a request (%.64q): %w", m.Method, errAsked)
		}
	}
}

// refusal reads the answer to a request that has an error status.
func (x *exchange) refusal(id protocol.ID, media string) (*protocol.Response, error) {
	failed := &StatusError{Status: x.http.StatusCode, Header: x.http.Header}
	if media != mediaJSON {
		failed.Excerpt = x.excerpt()
		return nil, failed
	}
	body, err := x.body()
	if err != nil {
		return nil, errPrefix.Errorf("%w: %w", failed, err)
	}
	m, err := protocol.DecodeMessage(body)
	resp, ok := m.(*protocol.Response)
	if err != nil || !ok || resp.Error == nil {
		failed.Excerpt = clip(body)
		return nil, failed
	}
	if err := answers(resp, id); err != nil {
		return nil, errPrefix.Errorf("%w: %w", failed, err)
	}
	failed.Response = resp.Error
	if s := failed.Status; (s == http.StatusUnauthorized || s == http.StatusForbidden) && failed.Header.Get("WWW-Authenticate") != "" {
		return nil, failed
	}
	return resp, nil
}

// accepted checks the answer to a notification.
func (x *exchange) accepted() error {
	if x.http.StatusCode >= 200 && x.http.StatusCode < 300 {
		return nil
	}
	_, err := x.refusal(protocol.ID{}, x.media())
	if err == nil {
		err = &StatusError{Status: x.http.StatusCode, Header: x.http.Header}
	}
	return err
}

// answers checks that a response is for the one request of its exchange. An
// error without id is: there is nothing else that it could be about.
func answers(resp *protocol.Response, id protocol.ID) error {
	if resp.ID == id || (resp.Error != nil && resp.ID.IsZero()) {
		return nil
	}
	return errPrefix.Errorf("response has id %.64s, the request %s", resp.ID, id)
}

// media returns the media type of the answer without parameters.
func (x *exchange) media() string {
	value := x.http.Header.Get("Content-Type")
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
func (x *exchange) body() ([]byte, error) {
	limit, size := x.t.limit, x.http.ContentLength
	if size > limit {
		return nil, x.tooLarge("body")
	}
	// A server may claim any length: only so much is believed beforehand.
	const believed = 64 << 10
	const unknown = 512
	if size < 0 {
		size = unknown
	}
	buf := make([]byte, 0, min(size+1, believed, limit+1))
	for {
		n, err := x.http.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, x.tooLarge("body")
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

func (x *exchange) tooLarge(what string) error {
	return errPrefix.Errorf("%s: %w: more than %d bytes", what, ErrResponseTooLarge, x.t.limit)
}

// excerpt reads the start of a body that is no message.
func (x *exchange) excerpt() string {
	body, _ := io.ReadAll(io.LimitReader(x.http.Body, maxExcerpt))
	return clip(body)
}

func clip(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxExcerpt)]), "")
}

// plain turns the refusal that DecodeMessage has for a peer into an error of
// ours: nobody said it to us.
func plain(err error) error {
	if e, ok := protocol.AsError(err); ok {
		return errors.New(e.Message)
	}
	return err
}

// blame names what ended the exchange where that was not the network: the
// caller's context or Close.
func (x *exchange) blame(err error) error {
	if err == nil || x.ctx.Err() == nil {
		return err
	}
	return errPrefix.Errorf("%w", context.Cause(x.ctx))
}

// framing is what an event may need beside its message: field names, a type
// and an id.
const framing = 512

// tail is how long, at most, a server has to end a stream after the response.
const tail = time.Second

// finish lets go of the answer and returns err, by its right name. After a failure the connection is closed,
// which tells the server to stop. After a success a stream is about to end;
// waiting for that, behind the caller's back, keeps the connection for reuse.
func (x *exchange) finish(err error) error {
	err = x.blame(err)
	x.unlink()
	if err != nil || x.media() != mediaSSE {
		x.release()
		return err
	}
	go func() {
		timer := time.AfterFunc(tail, func() { x.cancel(nil) })
		defer timer.Stop()
		_, _ = io.CopyN(io.Discard, x.http.Body, maxExcerpt)
		x.release()
	}()
	return nil
}

// release gives everything back. The exchange must not be used afterwards.
func (x *exchange) release() {
	if x.http != nil {
		_ = x.http.Body.Close()
	}
	x.unlink()
	x.stop()
	x.cancel(nil)
	x.t.running.Done()
}
