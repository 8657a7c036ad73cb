package clienthttp

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/sse"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// defaultRetry is the first wait before a broken stream is resumed, if the server sets no retry
	// time. The wait doubles with every attempt that receives nothing, up to maxBackoff.
	defaultRetry   = time.Second
	maxBackoff     = 30 * time.Second
	maxRetry       = time.Minute           // longest retry time that a server may set
	minRetry       = 10 * time.Millisecond // shortest retry time, to prevent a tight loop
	maxResumptions = 5                     // attempts in a row that receive nothing, for a request
	maxEventID     = 1 << 10               // longest event id sent back in a header
)

var errBroken = errors.New("connection has ended") // the stream may be resumed

// An eventStream is a request's (until its response) or a session's. It may span connections.
type eventStream struct {
	session *session
	ctx     context.Context // answers to the server's requests end with it too
	want    protocol.ID     // id of the request, zero for a session's stream
	back    protocol.Back   // may be nil

	lastID       string        // of the last event with an id
	retry        time.Duration // set by the server
	hasRetry     bool
	idleAttempts int  // attempts in a row that received nothing
	receivedAny  bool // in the current attempt
}

// readToResponse reads a request's stream until the response, and resumes it when it breaks
// (basic/transports of revision 2025-11-25, "Resumability and Redelivery").
func (e *eventStream) readToResponse(x *httpExchange) (*protocol.Response, error) {
	for {
		resp, err := e.readConnection(x)
		if err = x.closeWith(err); err == nil {
			return resp, nil
		}
		for x = nil; x == nil; {
			switch {
			case e.ctx.Err() != nil:
				return nil, errPrefix.Errorf("%w", context.Cause(e.ctx))
			case !errors.Is(err, errBroken):
				return nil, err
			case e.lastID == "" || !e.countAttempt():
				return nil, errPrefix.Errorf("%w: %w", errNoResponse, err)
			}
			if err := e.awaitRetry(); err != nil {
				return nil, err
			}
			x, err = e.openConnection()
		}
	}
}

func (e *eventStream) countAttempt() bool {
	if e.receivedAny {
		e.idleAttempts = 0
	}
	e.idleAttempts++
	e.receivedAny = false
	return e.idleAttempts <= maxResumptions
}

func (e *eventStream) awaitRetry() error {
	timer := time.NewTimer(e.retryDelay())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-e.ctx.Done():
		return errPrefix.Errorf("%w", context.Cause(e.ctx))
	case <-e.session.transport.life.Done():
		return errClosed
	}
}

// retryDelay returns the wait before the next attempt: at least the server's retry time, within the
// bounds. Jitter spreads the clients of a restarted server.
func (e *eventStream) retryDelay() time.Duration {
	if e.hasRetry && e.idleAttempts <= 1 {
		d := min(max(e.retry, minRetry), maxRetry)
		return d + rand.N(d/10+1)
	}
	d := min(defaultRetry<<min(max(e.idleAttempts-1, 0), 10), maxBackoff)
	if e.hasRetry {
		d = max(d, min(e.retry, maxRetry))
		return d + rand.N(d/10+1)
	}
	return d/2 + rand.N(d/2+1)
}

// openConnection opens or resumes the stream. After errBroken another attempt may succeed.
func (e *eventStream) openConnection() (*httpExchange, error) {
	s := e.session
	h := s.buildHeader(mediaSSE)
	if e.lastID != "" {
		h[headerLastEvent] = []string{e.lastID}
	}
	x, err := s.transport.sendRequest(e.ctx, Outgoing{Method: http.MethodGet}, h, nil)
	switch {
	case errors.Is(err, errClosed):
		return nil, err // transport closed: no attempt can succeed
	case isUnauthorized(err):
		return nil, e.explainLoss(err)
	case err != nil:
		return nil, errPrefix.Errorf("%w: %w", errBroken, err)
	}
	status := x.resp.StatusCode
	switch {
	case status == http.StatusOK && x.mediaType() == mediaSSE:
		return x, nil
	case status == http.StatusNotFound && s.id != "":
		err = s.markGone(&StatusError{Status: status, Header: x.resp.Header})
	default:
		err = &StatusError{Status: status, Header: x.resp.Header, excerpt: x.readExcerpt()}
		if x.isRefused {
			err = e.explainLoss(errPrefix.Errorf("%w: %w", errUnauthorized, err))
		} else if status >= 400 && !isRequestFault(status) {
			err = errPrefix.Errorf("%w: %w", errBroken, err)
		} else if !e.want.IsZero() { // the status of a resumption, not of the request
			err = errPrefix.Errorf("%w, and it cannot be resumed: %v", errNoResponse, err)
		}
	}
	return nil, x.closeWith(err)
}

// explainLoss adds to err that a request's response is lost.
func (e *eventStream) explainLoss(err error) error {
	if e.want.IsZero() {
		return err
	}
	return errPrefix.Errorf("%w: %w", errNoResponse, err)
}

// readConnection handles one connection's events until the response or an error, such as errBroken.
func (e *eventStream) readConnection(x *httpExchange) (*protocol.Response, error) {
	events := x.newEventReader()
	defer e.noteResumePoint(events)
	for {
		event, err := events.Next()
		e.noteResumePoint(events)
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, x.newTooLargeError("event")
		case err != nil:
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				if resp := cutResponse(event, e.want); resp != nil {
					return resp, nil
				}
				return nil, errBroken
			}
			return nil, errPrefix.Errorf("%w: %w", errBroken, err)
		}
		e.receivedAny = true
		if e.ctx.Err() != nil {
			return nil, errPrefix.Errorf("%w", context.Cause(e.ctx))
		}
		if event.Type != "" && event.Type != "message" {
			continue // not an event of the protocol
		}
		if resp, err := e.handleEvent(event.Data); resp != nil || err != nil {
			return resp, err
		}
	}
}

// noteResumePoint stores the retry time, and the last event id if it is valid in a header.
func (e *eventStream) noteResumePoint(events *sse.Reader) {
	id := events.LastEventID()
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	if id != "" && id != e.lastID && len(id) <= maxEventID &&
		!strings.ContainsFunc(id, isControl) {
		e.lastID, e.receivedAny = id, true
	}
	if d, told := events.Retry(); told {
		e.retry, e.hasRetry = d, true
	}
}

// handleEvent handles one message or, in revision 2025-03-26, a batch.
func (e *eventStream) handleEvent(data []byte) (*protocol.Response, error) {
	messages := [][]byte{data}
	if batch, is, err := protocol.DecodeBatch(data); is && e.session.version == protocol.V20250326 {
		if err != nil {
			return nil, e.badMessageError(data, err)
		}
		messages = batch
	}
	var found *protocol.Response
	for _, data := range messages {
		resp, err := e.handleMessage(data)
		if err != nil {
			return nil, err
		}
		if resp != nil {
			found = resp
		}
	}
	return found, nil
}

func (e *eventStream) handleMessage(data []byte) (*protocol.Response, error) {
	m, err := protocol.DecodeMessage(data)
	if _, oneWay := m.(*protocol.Notification); oneWay && err != nil {
		return nil, nil // a malformed notification
	}
	if err != nil {
		said, _ := protocol.AsError(err)
		if r, ok := m.(*protocol.Request); ok && said != nil && jsonx.HasMember(data, "method") {
			e.runInSlot(func() {
				e.session.sendAnswer(e.ctx, &protocol.Response{ID: r.ID, Error: said})
			})
			return nil, nil
		}
		return nil, e.badMessageError(data, err)
	}
	switch m := m.(type) {
	case *protocol.Notification:
		if e.back == nil {
			return nil, nil
		}
		if err := e.back.Notify(e.ctx, m); err != nil && !e.want.IsZero() {
			return nil, err
		}
	case *protocol.Request:
		e.answerRequest(m)
	case *protocol.Response:
		if e.want.IsZero() {
			return nil, nil // no request was sent on this stream
		}
		return m, checkResponseID(m, e.want)
	}
	return nil, nil
}

// badMessageError returns the error of a message that may be the response; nil for a session.
func (e *eventStream) badMessageError(data []byte, err error) error {
	if e.want.IsZero() {
		return nil
	}
	return newMalformedError(data, errPrefix.Errorf("stream: %w", withoutCode(err)))
}

func (e *eventStream) answerRequest(req *protocol.Request) {
	caller, ok := e.back.(protocol.BackCaller)
	if !ok {
		caller = e.session.back
	}
	e.runInSlot(func() {
		if resp, err := caller.Call(e.ctx, req); err == nil && resp != nil {
			e.session.sendAnswer(e.ctx, resp)
		}
	})
}

// runInSlot calls run on another goroutine. It blocks while protocol.MaxBackCalls calls run.
func (e *eventStream) runInSlot(run func()) {
	slots := e.session.slots
	select {
	case slots <- struct{}{}:
	case <-e.ctx.Done():
		return
	}
	go func() {
		defer func() { <-slots }()
		run()
	}()
}
