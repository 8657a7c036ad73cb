package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/lineio"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	defaultMaxLineBytes = 16 << 20 // as over HTTP
	// maxQueuedNotifications limits a receiver's queue, [StreamOptions.MaxLineBytes] its size.
	maxQueuedNotifications = 1024
	// resultGrace is how long a cancelled subscription waits for its result, which comes at once or
	// never.
	resultGrace = time.Second
)

// StreamOptions configure a [Stream]. The zero value works.
type StreamOptions struct {
	// MaxLineBytes limits one message of the server. 0: 16 MiB, negative: no limit.
	MaxLineBytes int
	// ProbeTimeout is the server's time to answer server/discover, before it counts as legacy
	// ([Options.Warn]). It includes the server's start: a modern server that is downloaded first
	// (npx, uvx) needs more. 0: 5 s, negative: no limit; a legacy server must then answer.
	ProbeTimeout time.Duration
	// Violation reports messages that the server must not send or that have no receiver, and how
	// they were handled: invalid or too long lines, requests, floods, notifications (except
	// progress) of no request. A log message that may belong to several requests is dropped and
	// reported. The stream continues. Violation blocks reading, so it must return quickly.
	Violation func(error)
}

// A Stream is a server at the other end of a stream of lines, one message each
// (basic/transports/stdio): a process, a Unix socket, a TCP connection. Requests run concurrently.
//
//	Handle ─▶ lines ─▶ w
//	Handle ◀─ streamRequest ◀─ receiveLine ◀─ lines ◀─ r
//
// One goroutine writes and one reads, until the stream has ended.
type Stream struct {
	opts  StreamOptions
	lines *lineio.Stream
	life  context.Context // ended under mu, with the stream's error as cause
	end   context.CancelCauseFunc
	// explainEnd, if not nil, replaces an error of reading or writing with a more helpful error.
	explainEnd func(error) error

	mu             sync.Mutex
	requests       map[protocol.ID]*streamRequest // running requests
	session        *streamSession                 // of a legacy revision, or nil
	initialization *initialization                // nil: none sent, or the last was refused

	sessionSlot chan struct{} // holds a value while there is a session
	closeEnds   func() error  // closes w and r, once
}

var _ protocol.Peer = (*Stream)(nil)

// NewStream returns the server that reads w and writes r. Nil opts mean defaults. [Stream.Close]
// closes r and w if they implement [io.Closer]. If r does not, one goroutine stays until r ends.
func NewStream(r io.Reader, w io.Writer, opts *StreamOptions) *Stream {
	return newStream(r, w, opts, nil)
}

func newStream(r io.Reader, w io.Writer, opts *StreamOptions, explain func(error) error) *Stream {
	s := &Stream{
		explainEnd: explain, lines: lineio.NewStream(),
		requests: map[protocol.ID]*streamRequest{}, sessionSlot: make(chan struct{}, 1),
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.closeEnds = sync.OnceValue(func() error { // w first: servers exit when their input ends
		return errors.Join(closeIfCloser(w), closeIfCloser(r))
	})
	if opts != nil {
		s.opts = *opts
	}
	s.opts.MaxLineBytes = quota.LimitOr(s.opts.MaxLineBytes, defaultMaxLineBytes)
	s.opts.ProbeTimeout = cmp.Or(s.opts.ProbeTimeout, defaultProbeTimeout)
	go func() {
		if err := s.lines.Write(w); err != nil {
			s.failStream(err)
		}
	}()
	go func() { s.failStream(s.lines.Read(r, s.opts.MaxLineBytes, s.receiveLine)) }()
	return s
}

// Handle implements [protocol.Peer]. If ctx ends first, it returns at once and cancels the request
// on the server. The request's id must differ from those of running requests.
//
// Errors are the cause of ctx, [ErrClosed], [ErrStreamEnded], a [*ResponseError], and the error of
// back, which abandons the request. A message that is too long fails all running requests. A
// subscription ends if notifications arrive faster than back handles them.
func (s *Stream) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	line, err := encodeLine(req)
	if err != nil {
		return nil, err
	}
	e, err := s.addRequest(req, back)
	if err != nil {
		return nil, err
	}
	if err := s.sendLine(ctx, line); err != nil {
		s.abandonRequest(e)
		return nil, err
	}
	s.markSent(e)
	for {
		select {
		case <-e.queue.wake:
			if err := e.deliverQueued(ctx); err != nil {
				s.abandonRequest(e)
				return nil, err
			}
		case <-e.answered:
			if err := e.deliverQueued(ctx); err != nil {
				return nil, err
			}
			return e.response, e.err
		case <-ctx.Done():
			s.abandonRequest(e)
			return nil, context.Cause(ctx)
		}
	}
}

// Notify implements [protocol.Peer].
func (s *Stream) Notify(ctx context.Context, n *protocol.Notification) error {
	line, err := encodeLine(n)
	if err != nil {
		return err
	}
	return s.sendLine(ctx, line)
}

// Close ends the stream and returns the error of closing r and w. Running requests fail with
// [ErrClosed]. Further calls return the same error.
func (s *Stream) Close() error {
	s.endStream(ErrClosed)
	return s.closeEnds()
}

// Done is closed when the stream has ended.
func (s *Stream) Done() <-chan struct{} { return s.life.Done() }

// Err returns why the stream has ended. It is nil before the end.
func (s *Stream) Err() error { return context.Cause(s.life) }

func encodeLine(m protocol.Message) ([]byte, error) {
	line, err := lineio.Encode(m)
	if err != nil {
		return nil, errPrefix.Errorf("message cannot be sent: %w", err)
	}
	return line, nil
}

func (s *Stream) sendLine(ctx context.Context, line []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.lines.Send(ctx, line, nil); err == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.life.Done(): // immediately, or when explainEnd has returned
		return s.Err()
	}
}

func (s *Stream) failStream(err error) {
	if s.Err() != nil {
		return
	}
	if err == nil {
		err = ErrStreamEnded
	} else {
		err = errPrefix.Errorf("%w: %w", ErrStreamEnded, err)
	}
	if s.explainEnd != nil {
		err = s.explainEnd(err)
	}
	s.endStream(err)
}

func (s *Stream) endStream(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Err() != nil {
		return
	}
	s.end(err)
	for id := range s.requests {
		s.finishRequestLocked(id, nil, err)
	}
	s.lines.End()
}

func closeIfCloser(end any) error {
	if c, ok := end.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// A streamRequest is a running request. Its outcome is set when it is removed from Stream.requests.
type streamRequest struct {
	id        protocol.ID
	method    string
	token     protocol.ID           // zero: no progress wanted
	level     protocol.LoggingLevel // empty: no log messages wanted
	back      protocol.Back         // nil: no notifications wanted
	queue     *notificationQueue
	sent      bool          // the server may have read it
	cancelled bool          // abandoned; once it is sent, the server is told
	timer     *time.Timer   // ends a subscription that the server cancelled
	answered  chan struct{} // closed once response and err are set
	response  *protocol.Response
	err       error
}

func (s *Stream) addRequest(req *protocol.Request, back protocol.Back) (*streamRequest, error) {
	e := &streamRequest{
		id: req.ID, method: req.Method, back: back,
		queue: newNotificationQueue(s.opts.MaxLineBytes), answered: make(chan struct{}),
	}
	if back != nil {
		e.token, e.level = readWanted(req.Params)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, protocol.ErrNotRun)
	}
	if _, taken := s.requests[e.id]; taken {
		return nil, errPrefix.Errorf("a request with id %s is running", e.id)
	}
	s.requests[e.id] = e
	return e, nil
}

func readWanted(params []byte) (token protocol.ID, level protocol.LoggingLevel) {
	meta := metadataOf(params)
	if raw, ok := meta.Get(protocol.MetaProgressToken); ok {
		token, _ = protocol.ParseID(raw)
	}
	if raw, ok := meta.Get(protocol.MetaLogLevel); ok {
		text, _ := jsonx.Text(raw)
		level = protocol.LoggingLevel(text)
	}
	return token, level
}

func metadataOf(params []byte) (meta protocol.Meta) {
	if params == nil {
		return nil
	}
	_ = jsonx.Members(params, func(key, value []byte) error {
		if string(key) == "_meta" {
			meta = protocol.Meta(value)
		}
		return nil
	})
	return meta
}

func (e *streamRequest) deliverQueued(ctx context.Context) error {
	for n := e.queue.dequeue(); n != nil; n = e.queue.dequeue() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := e.back.Notify(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) finishRequestLocked(id protocol.ID, response *protocol.Response, err error) {
	e := s.requests[id]
	if e == nil {
		return
	}
	delete(s.requests, id)
	if e.timer != nil {
		e.timer.Stop()
	}
	e.response, e.err = response, err
	close(e.answered)
}

// markSent notes that a request has been written, and cancels it if it was abandoned.
func (s *Stream) markSent(e *streamRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.sent = true
	if e.cancelled {
		s.cancelRequestLocked(e)
	}
}

// abandonRequest ends a request and cancels it on the server (basic/patterns/cancellation).
func (s *Stream) abandonRequest(e *streamRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[e.id] != e {
		return
	}
	s.finishRequestLocked(e.id, nil, ErrClosed)
	s.cancelRequestLocked(e)
}

// cancelRequestLocked cancels a request on the server without waiting for the writer. If the
// request is not sent yet, markSent cancels it later. An initialize request cannot be cancelled.
func (s *Stream) cancelRequestLocked(e *streamRequest) {
	if e.cancelled = true; !e.sent || e.method == protocol.MethodInitialize {
		return
	}
	go func() {
		_ = s.Notify(context.Background(), &protocol.Notification{ // the wait ends with the stream
			Method: protocol.NotifyCancelled,
			Params: []byte(`{"requestId":` + e.id.String() + `}`),
		})
	}()
}
