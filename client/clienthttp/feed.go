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
type feed struct {
	session *session
	ctx     context.Context // what the server asks on the stream ends with it
	want    protocol.ID     // the request, zero for the stream of a session
	back    protocol.Back   // may be nil

	lastID  string // of the last event that had one
	retry   time.Duration
	told    bool // the server said how long to wait
	barren  int  // attempts in a row that brought nothing
	brought bool // the present one brought something
}

// follow reads the stream of a request, taking it up again where it broke
// (basic/transports of revision 2025-11-25, "Resumability and Redelivery").
func (f *feed) follow(x *exchange) (*protocol.Response, error) {
	for {
		resp, err := f.read(x)
		if err = x.finish(err); err == nil {
			return resp, nil
		}
		for x = nil; x == nil; {
			switch {
			case f.ctx.Err() != nil:
				return nil, errPrefix.Errorf("%w", context.Cause(f.ctx))
			case !errors.Is(err, errBroken):
				return nil, err
			case f.lastID == "" || !f.again():
				return nil, errPrefix.Errorf("%w: %w", ErrNoResponse, err)
			}
			if err := f.pause(); err != nil {
				return nil, err
			}
			x, err = f.connect()
		}
	}
}

// again reports whether to try once more.
func (f *feed) again() bool {
	if f.brought {
		f.barren = 0
	}
	f.barren++
	f.brought = false
	return f.barren <= MaxResumptions
}

// pause waits as long as the server said, or as long as seems right.
func (f *feed) pause() error {
	timer := time.NewTimer(f.delay())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.ctx.Done():
		return errPrefix.Errorf("%w", context.Cause(f.ctx))
	case <-f.session.t.life.Done():
		return ErrClosed
	}
}

// delay never is less than the server asked for, within the bounds. The random
// part keeps the clients of a server that was started anew from coming back all
// at once.
func (f *feed) delay() time.Duration {
	if f.told && f.barren <= 1 {
		d := min(max(f.retry, MinRetry), MaxRetry)
		return d + rand.N(d/10+1)
	}
	d := DefaultRetry
	for range min(f.barren-1, 10) {
		d *= 2
	}
	d = min(d, MaxBackoff)
	if f.told {
		d = max(d, min(f.retry, MaxRetry))
		return d + rand.N(d/10+1)
	}
	return d/2 + rand.N(d/2+1)
}

// connect opens the stream, or opens it again after the last event. An error is
// an errBroken if trying once more may help.
func (f *feed) connect() (*exchange, error) {
	s := f.session
	h, err := s.header(f.ctx, mediaSSE)
	if err != nil {
		return nil, err
	}
	if f.lastID != "" {
		h[headerLastEvent] = []string{f.lastID}
	}
	x, err := s.t.do(f.ctx, http.MethodGet, h, nil)
	if errors.Is(err, ErrClosed) {
		return nil, err // by whoever made the transport; it stays so
	}
	if err != nil {
		return nil, errPrefix.Errorf("%w: %w", errBroken, err)
	}
	status := x.http.StatusCode
	switch {
	case status == http.StatusOK && x.media() == mediaSSE:
		return x, nil
	case status == http.StatusNotFound && s.id != "":
		err = s.gone(&StatusError{Status: status, Header: x.http.Header})
	default:
		err = &StatusError{Status: status, Header: x.http.Header, Excerpt: x.excerpt()}
		if status >= 400 && !aboutRequest(status) {
			err = errPrefix.Errorf("%w: %w", errBroken, err)
		} else if !f.want.IsZero() {
			err = errPrefix.Errorf("%w: %w", ErrNoResponse, err)
		}
	}
	return nil, x.finish(err)
}

// read hands on what comes over one connection. It returns the response if the
// stream is that of a request and it comes, else an error, errBroken when it is
// just the connection that has ended.
func (f *feed) read(x *exchange) (*protocol.Response, error) {
	events := sse.NewReader(x.http.Body, int(min(x.t.limit, 1<<30))+framing)
	defer f.note(events)
	for {
		event, err := events.Next()
		f.note(events)
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, x.tooLarge("event")
		case err != nil:
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return nil, errBroken
			}
			return nil, errPrefix.Errorf("%w: %w", errBroken, err)
		}
		f.brought = true
		if f.ctx.Err() != nil {
			return nil, errPrefix.Errorf("%w", context.Cause(f.ctx))
		}
		if event.Type != "" && event.Type != "message" {
			continue // no event of the protocol
		}
		if resp, err := f.take(event.Data); resp != nil || err != nil {
			return resp, err
		}
	}
}

// note remembers where to go on. Ids that cannot stand in a header are as good
// as none.
func (f *feed) note(events *sse.Reader) {
	if id := events.LastEventID(); id != "" && id != f.lastID && len(id) <= maxEventID && printable(id) {
		f.lastID, f.brought = id, true
	}
	if d, told := events.Retry(); told {
		f.retry, f.told = d, true
	}
}

func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return false
		}
	}
	return true
}

// take handles the data of one event: a message, or in revision 2025-03-26
// several.
func (f *feed) take(data []byte) (*protocol.Response, error) {
	messages := [][]byte{data}
	if batch, is, err := protocol.DecodeBatch(data); is && f.session.version == protocol.V20250326 {
		if err != nil {
			return nil, f.bad(err)
		}
		messages = batch
	}
	var found *protocol.Response
	for _, data := range messages {
		resp, err := f.message(data)
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
func (f *feed) message(data []byte) (*protocol.Response, error) {
	m, err := protocol.DecodeMessage(data)
	if err != nil {
		said, _ := protocol.AsError(err)
		if r, ok := m.(*protocol.Request); ok && said != nil && namesMethod(data) {
			f.refuse(r.ID, said)
			return nil, nil
		}
		return nil, f.bad(err)
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
		f.ask(m)
	case *protocol.Response:
		if f.want.IsZero() {
			return nil, nil // to nothing that was asked here
		}
		return m, answers(m, f.want)
	}
	return nil, nil
}

// bad is what becomes of a message that is none: the end of a request, for it
// may have been the response; nothing to the stream of a session.
func (f *feed) bad(err error) error {
	if f.want.IsZero() {
		return nil
	}
	return errPrefix.Errorf("stream: %w", plain(err))
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
func (f *feed) ask(req *protocol.Request) {
	caller, ok := f.back.(protocol.BackCaller)
	if !ok {
		caller = f.session.back
	}
	f.occupy(func() {
		if resp, err := caller.Call(f.ctx, req); err == nil && resp != nil {
			f.session.answer(f.ctx, resp)
		}
	})
}

// refuse answers what was meant as a request.
func (f *feed) refuse(id protocol.ID, said *protocol.Error) {
	f.occupy(func() { f.session.answer(f.ctx, &protocol.Response{ID: id, Error: said}) })
}

// occupy runs what takes its time beside the reading.
func (f *feed) occupy(run func()) {
	calls := f.session.calls
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

// startHearing opens the stream for what the server says by itself, and waits a little
// for it to be there.
func (s *session) startHearing(ctx context.Context) {
	opened := make(chan struct{})
	go s.hear(opened)
	timer := time.NewTimer(listenGrace)
	defer timer.Stop()
	select {
	case <-opened:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hear reads the stream of the session until that ends, or the server says that
// it has none.
func (s *session) hear(opened chan struct{}) {
	f := &feed{session: s, ctx: s.life, back: s.back}
	for first := true; ; first = false {
		x, err := f.connect()
		if first {
			close(opened)
		}
		if err == nil {
			_, err = f.read(x)
			err = x.finish(err)
		}
		if !errors.Is(err, errBroken) || s.Err() != nil {
			return // an event that is too large would only come again
		}
		f.again()
		if f.pause() != nil {
			return
		}
	}
}
