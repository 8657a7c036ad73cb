package clienthttp

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/sse"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// DefaultRetry is how long a broken stream waits before it is taken up
	// again when the server does not say (the retry field). It doubles with
	// every attempt that brings nothing, up to MaxBackoff.
	DefaultRetry = time.Second
	// MaxBackoff is the longest wait of this side's own choice.
	MaxBackoff = 30 * time.Second
	// MaxRetry is the longest wait that a server may ask for: it could as well
	// have kept the stream open.
	MaxRetry = time.Minute
	// MinRetry is the shortest: a server that asks for none must not keep both
	// sides busy.
	MinRetry = 10 * time.Millisecond
	// MaxResumptions is how often in a row the stream of a request is taken up
	// again without anything coming of it.
	MaxResumptions = 5
	// maxEventID is how long an event id may be that is sent back in a header.
	maxEventID = 1 << 10
)

// errBroken says that a connection ended, though what it carried may go on.
var errBroken = errors.New("connection has ended")

// A feed is one stream of the server, over as many connections as it takes:
// that of a request, which ends with its response, or that of a session.
type eventStream struct {
	session *session
	ctx     context.Context // what the server asks on the stream ends with it
	want    protocol.ID     // the request, zero for the stream of a session
	back    protocol.Back   // may be nil

	lastID       string // of the last event that had one
	retry        time.Duration
	hasRetry     bool // the server said how long to wait
	idleAttempts int  // attempts in a row that brought nothing
	receivedAny  bool // the present one brought something
}

// follow reads the stream of a request, taking it up again where it broke
// (basic/transports of revision 2025-11-25, "Resumability and Redelivery").
func (f *eventStream) readToResponse(x *httpExchange) (*protocol.Response, error) {
	for {
		resp, err := f.readConnection(x)
		if err = x.closeWith(err); err == nil {
			return resp, nil
		}
		for x = nil; x == nil; {
			switch {
			case f.ctx.Err() != nil:
				return nil, errPrefix.Errorf("%w", context.Cause(f.ctx))
			case !errors.Is(err, errBroken):
				return nil, err
			case f.lastID == "" || !f.countAttempt():
				return nil, errPrefix.Errorf("%w: %w", ErrNoResponse, err)
			}
			if err := f.awaitRetry(); err != nil {
				return nil, err
			}
			x, err = f.openConnection()
		}
	}
}

// again reports whether to try once more.
func (f *eventStream) countAttempt() bool {
	if f.receivedAny {
		f.idleAttempts = 0
	}
	f.idleAttempts++
	f.receivedAny = false
	return f.idleAttempts <= MaxResumptions
}

// pause waits as long as the server said, or as long as seems right.
func (f *eventStream) awaitRetry() error {
	timer := time.NewTimer(f.retryDelay())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.ctx.Done():
		return errPrefix.Errorf("%w", context.Cause(f.ctx))
	case <-f.session.transport.life.Done():
		return ErrClosed
	}
}

// delay never is less than the server asked for, within the bounds. The random
// part keeps the clients of a server that was started anew from coming back all
// at once.
func (f *eventStream) retryDelay() time.Duration {
	if f.hasRetry && f.idleAttempts <= 1 {
		d := min(max(f.retry, MinRetry), MaxRetry)
		return d + rand.N(d/10+1)
	}
	d := DefaultRetry
	for range min(f.idleAttempts-1, 10) {
		d *= 2
	}
	d = min(d, MaxBackoff)
	if f.hasRetry {
		d = max(d, min(f.retry, MaxRetry))
		return d + rand.N(d/10+1)
	}
	return d/2 + rand.N(d/2+1)
}

// connect opens the stream, or opens it again after the last event. An error is
// an errBroken if trying once more may help.
func (f *eventStream) openConnection() (*httpExchange, error) {
	s := f.session
	h, err := s.buildHeader(f.ctx, mediaSSE)
	if err != nil {
		return nil, err
	}
	if f.lastID != "" {
		h[headerLastEvent] = []string{f.lastID}
	}
	x, err := s.transport.sendHTTP(f.ctx, http.MethodGet, h, nil)
	if errors.Is(err, ErrClosed) {
		return nil, err // by whoever made the transport; it stays so
	}
	if err != nil {
		return nil, errPrefix.Errorf("%w: %w", errBroken, err)
	}
	status := x.resp.StatusCode
	switch {
	case status == http.StatusOK && x.mediaType() == mediaSSE:
		return x, nil
	case status == http.StatusNotFound && s.id != "":
		err = s.markGone(&StatusError{Status: status, Header: x.resp.Header})
	default:
		err = &StatusError{Status: status, Header: x.resp.Header, Excerpt: x.readExcerpt()}
		if status >= 400 && !isRequestFault(status) {
			err = errPrefix.Errorf("%w: %w", errBroken, err)
		} else if !f.want.IsZero() {
			err = errPrefix.Errorf("%w: %w", ErrNoResponse, err)
		}
	}
	return nil, x.closeWith(err)
}

// read hands on what comes over one connection. It returns the response if the
// stream is that of a request and it comes, else an error, errBroken when it is
// just the connection that has ended.
func (f *eventStream) readConnection(x *httpExchange) (*protocol.Response, error) {
	events := sse.NewReader(x.resp.Body, int(min(x.transport.maxBytes, 1<<30))+eventFraming)
	defer f.noteResumePoint(events)
	for {
		event, err := events.Next()
		f.noteResumePoint(events)
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, x.newTooLargeError("event")
		case err != nil:
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil, errBroken
			}
			return nil, errPrefix.Errorf("%w: %w", errBroken, err)
		}
		f.receivedAny = true
		if f.ctx.Err() != nil {
			return nil, errPrefix.Errorf("%w", context.Cause(f.ctx))
		}
		if event.Type != "" && event.Type != "message" {
			continue // no event of the protocol
		}
		if resp, err := f.handleEvent(event.Data); resp != nil || err != nil {
			return resp, err
		}
	}
}

// note remembers where to go on. Ids that cannot stand in a header are as good
// as none.
func (f *eventStream) noteResumePoint(events *sse.Reader) {
	if id := events.LastEventID(); id != "" && id != f.lastID && len(id) <= maxEventID && isPrintable(id) {
		f.lastID, f.receivedAny = id, true
	}
	if d, told := events.Retry(); told {
		f.retry, f.hasRetry = d, true
	}
}

func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

// take handles the data of one event: a message, or in revision 2025-03-26
// several.
func (f *eventStream) handleEvent(data []byte) (*protocol.Response, error) {
	messages := [][]byte{data}
	if batch, is, err := protocol.DecodeBatch(data); is && f.session.version == protocol.V20250326 {
		if err != nil {
			return nil, f.badMessageError(err)
		}
		messages = batch
	}
	var found *protocol.Response
	for _, data := range messages {
		resp, err := f.handleMessage(data)
		if err != nil {
			return nil, err
		}
		if resp != nil {
			found = resp
		}
	}
	return found, nil
}

// message handles one message. It returns the response to the request.
func (f *eventStream) handleMessage(data []byte) (*protocol.Response, error) {
	m, err := protocol.DecodeMessage(data)
	if err != nil {
		said, _ := protocol.AsError(err)
		if r, ok := m.(*protocol.Request); ok && said != nil && namesMethod(data) {
			f.refuseRequest(r.ID, said)
			return nil, nil
		}
		return nil, f.badMessageError(err)
	}
	switch m := m.(type) {
	case *protocol.Notification:
		if f.back == nil {
			return nil, nil
		}
		if err := f.back.Notify(f.ctx, m); err != nil && !f.want.IsZero() {
			return nil, err
		}
	case *protocol.Request:
		f.answerRequest(m)
	case *protocol.Response:
		if f.want.IsZero() {
			return nil, nil // to nothing that was asked here
		}
		return m, checkResponseID(m, f.want)
	}
	return nil, nil
}

// bad is what becomes of a message that is none: the end of a request, for it
// may have been the response; nothing to the stream of a session.
func (f *eventStream) badMessageError(err error) error {
	if f.want.IsZero() {
		return nil
	}
	return errPrefix.Errorf("stream: %w", withoutCode(err))
}

// namesMethod reports whether a message has a method, whatever else is wrong
// with it.
func namesMethod(data []byte) (found bool) {
	_ = jsonx.Members(data, func(key, _ []byte) error {
		found = found || string(key) == "method"
		return nil
	})
	return found
}

// ask hands on a request of the server and sends the response, meanwhile reading
// on unless too many are under way.
func (f *eventStream) answerRequest(req *protocol.Request) {
	caller, ok := f.back.(protocol.BackCaller)
	if !ok {
		caller = f.session.back
	}
	f.runInSlot(func() {
		if resp, err := caller.Call(f.ctx, req); err == nil && resp != nil {
			f.session.sendAnswer(f.ctx, resp)
		}
	})
}

// refuse answers what was meant as a request.
func (f *eventStream) refuseRequest(id protocol.ID, said *protocol.Error) {
	f.runInSlot(func() { f.session.sendAnswer(f.ctx, &protocol.Response{ID: id, Error: said}) })
}

// occupy runs what takes its time beside the reading.
func (f *eventStream) runInSlot(run func()) {
	calls := f.session.slots
	select {
	case calls <- struct{}{}:
	case <-f.ctx.Done():
		return
	}
	go func() {
		defer func() { <-calls }()
		run()
	}()
}
