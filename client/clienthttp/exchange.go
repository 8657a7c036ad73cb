package clienthttp

import (
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	mediaJSON = "application/json"
	mediaSSE  = "text/event-stream"
)

// An httpExchange is an HTTP request whose response has begun to arrive. closeWith ends it.
type httpExchange struct {
	transport    *Transport
	ctx          context.Context // context of this exchange
	cancel       context.CancelCauseFunc
	unlinkCaller func() bool // cuts the link to the caller's context
	unlinkLife   func() bool // cuts the link to the transport's life
	resp         *http.Response

	credentials http.Header // from the authorizer, or nil
	isRefused   bool        // the server refused the credentials
}

func (x *httpExchange) readResponse(id protocol.ID,
	back protocol.Back) (*protocol.Response, error) {
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
			return nil, newMalformedError(body, errPrefix.Errorf("response: %w", withoutCode(err)))
		}
		resp, ok := m.(*protocol.Response)
		if !ok {
			return nil, newMalformedError(nil,
				errors.New("clienthttp: response: body is not a response message"))
		}
		return resp, checkResponseID(resp, id)
	case media == mediaSSE:
		return x.readStream(id, back)
	}
	return nil, newMalformedError(nil, errPrefix.Errorf(
		"response: content type %.64q is neither %s nor %s",
		x.resp.Header.Get("Content-Type"), mediaJSON, mediaSSE))
}

var errServerRequest = errors.New("no modern server may")

// readStream passes notifications to back until the response arrives, and returns the response.
func (x *httpExchange) readStream(id protocol.ID, back protocol.Back) (*protocol.Response, error) {
	events := x.newEventReader()
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, x.newTooLargeError("event")
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			if resp := cutResponse(event, id); resp != nil {
				return resp, nil
			}
			return nil, errPrefix.Errorf("%w", errNoResponse)
		case err != nil:
			return nil, errPrefix.Errorf("stream: %w", err)
		}
		// Checked per event: events may be buffered, or never stop.
		if x.ctx.Err() != nil {
			return nil, errPrefix.Errorf("%w", context.Cause(x.ctx))
		}
		if event.Type != "" && event.Type != "message" {
			continue // not an event of the protocol
		}
		m, err := protocol.DecodeMessage(event.Data)
		if _, oneWay := m.(*protocol.Notification); oneWay && err != nil {
			continue // a malformed notification
		}
		if err != nil {
			return nil, newMalformedError(event.Data,
				errPrefix.Errorf("stream: %w", withoutCode(err)))
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
			return nil, errPrefix.Errorf("stream: server sent a request (%.64q): %w", m.Method,
				errServerRequest)
		}
	}
}

// cutResponse returns a response that only lacks the stream's last blank line, or nil.
func cutResponse(event sse.Event, id protocol.ID) *protocol.Response {
	m, err := protocol.DecodeMessage(event.Data)
	resp, ok := m.(*protocol.Response)
	if err != nil || !ok || id.IsZero() || resp.ID != id {
		return nil
	}
	return resp
}

func (x *httpExchange) newEventReader() *sse.Reader {
	return sse.NewReader(x.resp.Body, int(min(x.transport.maxBytes, math.MaxInt/2))+eventFraming)
}

// readRefusal reads an error status: as a message of the protocol, or else a [*StatusError].
func (x *httpExchange) readRefusal(id protocol.ID, media string) (*protocol.Response, error) {
	failed := &StatusError{Status: x.resp.StatusCode, Header: x.resp.Header}
	if media != mediaJSON {
		failed.excerpt = x.readExcerpt()
		return nil, failed
	}
	body, err := x.readBody()
	if err != nil {
		return nil, errPrefix.Errorf("%w: %w", failed, err)
	}
	m, err := protocol.DecodeMessage(body)
	resp, ok := m.(*protocol.Response)
	if err != nil || !ok || resp.Error == nil {
		failed.excerpt = x.maskCredentials(clipBody(body))
		return nil, failed
	}
	if err := checkResponseID(resp, id); err != nil {
		return nil, errPrefix.Errorf("%w: %w", failed, err)
	}
	if len(x.credentials) > 0 {
		masked := *resp.Error
		masked.Message = x.maskCredentials(masked.Message)
		resp.Error = &masked
	}
	failed.response = resp.Error
	s := failed.Status
	isAuth := s == http.StatusUnauthorized || s == http.StatusForbidden
	if isAuth && failed.Header.Get("WWW-Authenticate") != "" {
		return nil, failed
	}
	return resp, nil
}

func (x *httpExchange) checkAccepted() error {
	if x.resp.StatusCode >= 200 && x.resp.StatusCode < 300 {
		return nil
	}
	resp, err := x.readRefusal(protocol.ID{}, x.mediaType())
	if err == nil {
		err = &StatusError{Status: x.resp.StatusCode, Header: x.resp.Header, response: resp.Error}
	}
	return err
}

// checkResponseID checks a response's id. An error may lack it: the exchange has only one request.
func checkResponseID(resp *protocol.Response, id protocol.ID) error {
	if resp.ID == id || (resp.Error != nil && resp.ID.IsZero()) {
		return nil
	}
	return newMalformedError(nil,
		errPrefix.Errorf("response has id %.64s, the request %s", resp.ID, id))
}

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

// readBody reads a body within the limit. Decoded messages alias the memory.
func (x *httpExchange) readBody() ([]byte, error) {
	limit, size := x.transport.maxBytes, x.resp.ContentLength
	if size > limit {
		return nil, x.newTooLargeError("body")
	}
	const believed = 64 << 10 // a server may claim any length
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
	return &malformedError{errPrefix.Errorf("%s: %w: more than %d bytes", what,
		errResponseTooLarge, x.transport.maxBytes), -1, x.resp.StatusCode == http.StatusOK}
}

func (x *httpExchange) readExcerpt() string {
	body, _ := io.ReadAll(io.LimitReader(x.resp.Body, maxExcerpt))
	return x.maskCredentials(clipBody(body))
}

func clipBody(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), maxExcerpt)]), "")
}

// withoutCode turns a decoder's protocol error into a plain error, because no peer has sent it.
func withoutCode(err error) error {
	if e, ok := protocol.AsError(err); ok {
		return errors.New(e.Message)
	}
	return err
}

func (x *httpExchange) explainError(err error) error {
	if err == nil || x.ctx.Err() == nil {
		return err
	}
	return errPrefix.Errorf("%w", context.Cause(x.ctx))
}

const eventFraming = 512 // field names, type and id

const streamTail = time.Second // longest wait for the stream's end after the response

// closeWith ends the exchange and returns explainError(err). After an error it closes the
// connection, which tells the server to stop. After a response it reads the rest of the stream in
// the background, so that the connection can be reused.
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

func (x *httpExchange) releaseAll() {
	if x.resp != nil {
		_ = x.resp.Body.Close()
	}
	x.unlinkCaller()
	x.unlinkLife()
	x.cancel(nil)
	x.transport.running.Done()
}
