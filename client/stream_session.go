package client

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// DefaultProbeTimeout is how long the server at the end of a line stream may
// take to start and to say what it speaks. Servers of legacy revisions may well
// be silent, and then every start of one costs that long, unless
// [Options.Assume] or [Options.Era] spares it the question.
const DefaultProbeTimeout = 5 * time.Second

var (
	_ protocol.LegacyPeer = (*Stream)(nil)
	_ protocol.LegacyPeer = (*Process)(nil)
)

// Probe implements [protocol.LegacyPeer]. On a stream every error that is not
// one of a modern revision is a sign of a legacy server, and so is silence
// (basic/transports/stdio, "Backward Compatibility").
func (s *Stream) Probe(
	ctx context.Context, req *protocol.Request,
) (*protocol.Response, bool, error) {
	limited, cancel := context.WithTimeout(ctx, s.opts.ProbeTimeout)
	defer cancel()
	resp, err := s.Handle(limited, req, nil)
	switch {
	case err == nil:
		return resp, resp.Error != nil && !resp.Error.EraEvidence(), nil
	case limited.Err() != nil && ctx.Err() == nil:
		return nil, true, errPrefix.Errorf(
			"no answer within %v, the StreamOptions.ProbeTimeout; "+
				"a server that starts slowly needs a longer one: %w",
			s.opts.ProbeTimeout, context.DeadlineExceeded,
		)
	}
	_, garbled := errors.AsType[*ResponseError](err)
	return nil, garbled, err
}

// OpenSession implements [protocol.LegacyPeer]. A stream has one session at a
// time, and one that has not ended is waited for.
func (s *Stream) OpenSession(
	ctx context.Context, initialize *protocol.Request, back protocol.BackCaller,
) (protocol.LegacySession, *protocol.Response, error) {
	x := &streamSession{
		stream: s, back: back, done: make(chan struct{}), released: make(chan struct{}),
		slots: make(chan struct{}, protocol.MaxBackCalls),
		queue: newNotificationQueue(s.opts.MaxLineBytes),
	}
	x.life, x.cancel = context.WithCancelCause(context.Background())
	if err := s.claimSession(ctx, x); err != nil {
		return nil, nil, err
	}
	go x.deliverNotifications()
	resp, err := s.sendInitialize(ctx, initialize)
	if err != nil || resp.Error != nil {
		_ = x.Close()
		return nil, resp, err
	}
	return x, resp, nil
}

// enter makes x the session of the stream.
func (s *Stream) claimSession(ctx context.Context, x *streamSession) error {
	for {
		s.mu.Lock()
		other := s.session
		if other == nil {
			s.session = x
		}
		s.mu.Unlock()
		if other == nil {
			return nil
		}
		select {
		case <-other.released: // the one that was to use it has given up, or is about to
		case <-ctx.Done():
			return errors.New("client: stream has a session already")
		}
	}
}

// An opening is an initialize request on its way, and its outcome.
type initialization struct {
	params   []byte
	done     chan struct{} // closed once response and err are set
	response *protocol.Response
	err      error
}

// initialize delivers an initialize request, unless the same has been delivered:
// it cannot be cancelled (basic/lifecycle), so the server may have opened a
// session for somebody who did not wait for it, and it need not open two.
func (s *Stream) sendInitialize(
	ctx context.Context, req *protocol.Request,
) (*protocol.Response, error) {
	s.mu.Lock()
	o := s.initialization
	if o == nil || !bytes.Equal(o.params, req.Params) {
		o = &initialization{params: req.Params, done: make(chan struct{})}
		s.initialization = o
		go s.awaitInitialize(o, req)
	}
	s.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if o.err != nil {
		return nil, o.err
	}
	resp := *o.response
	resp.ID = req.ID
	return &resp, nil
}

// open waits for the answer as long as the stream lasts. A refusal does not
// stand: another attempt may be taken.
func (s *Stream) awaitInitialize(o *initialization, req *protocol.Request) {
	o.response, o.err = s.Handle(context.Background(), req, nil)
	if o.err != nil || o.response.Error != nil {
		s.mu.Lock()
		if s.initialization == o {
			s.initialization = nil
		}
		s.mu.Unlock()
	}
	close(o.done)
}

// A streamSession is the session of a stream. All requests of the server come to
// it: which of the client's they relate to, a stream does not say.
type streamSession struct {
	stream   *Stream
	back     protocol.BackCaller
	slots    chan struct{} // holds one for each request of the server that runs
	queue    *notificationQueue
	life     context.Context // of the session; what the server asks ends with it
	cancel   context.CancelCauseFunc
	done     chan struct{}
	released chan struct{} // closed when the stream can have another session
	once     sync.Once
}

// Handle implements [protocol.Peer].
func (x *streamSession) Handle(
	ctx context.Context, req *protocol.Request, back protocol.Back,
) (*protocol.Response, error) {
	if err := x.Err(); err != nil {
		return nil, err
	}
	return x.stream.Handle(ctx, req, back)
}

// Notify implements [protocol.Peer].
func (x *streamSession) Notify(ctx context.Context, n *protocol.Notification) error {
	if err := x.Err(); err != nil {
		return err
	}
	return x.stream.Notify(ctx, n)
}

// Close ends the session, not the stream; the server is not told. It waits for
// nobody: it may be what is being told something that closes.
func (x *streamSession) Close() error {
	x.endSession(ErrClosed)
	x.stream.mu.Lock()
	defer x.stream.mu.Unlock()
	if x.stream.session == x {
		x.stream.session = nil
		close(x.released)
	}
	return nil
}

// finish ends the session, once.
func (x *streamSession) endSession(err error) {
	x.once.Do(func() {
		x.cancel(err)
		close(x.done)
	})
}

func (x *streamSession) Done() <-chan struct{} { return x.done }

func (x *streamSession) Err() error {
	select {
	case <-x.done:
		return context.Cause(x.life)
	default:
		return nil
	}
}

// tell hands on notifications, so that whoever takes them does not hold up the
// goroutine that reads.
func (x *streamSession) deliverNotifications() {
	for {
		select {
		case <-x.queue.wake:
		case <-x.done:
			return
		case <-x.stream.ended:
			x.endSession(x.stream.Err())
			return
		}
		for n := x.queue.dequeue(); n != nil && x.Err() == nil; n = x.queue.dequeue() {
			_ = x.back.Notify(x.life, n)
		}
	}
}

// notify takes a notification that belongs to no request. The withdrawal of a
// question is not to wait behind others.
func (x *streamSession) queueNotification(n *protocol.Notification, size int) error {
	if n.Method == protocol.NotifyCancelled {
		return x.back.Notify(x.life, n)
	}
	if !x.queue.enqueue(n, size) {
		return ErrOverrun
	}
	return nil
}

// ask takes a request of the server. It blocks while too many run.
func (x *streamSession) answerRequest(req *protocol.Request) {
	select {
	case x.slots <- struct{}{}:
	case <-x.done:
		return
	case <-x.stream.ended:
		return
	}
	go func() {
		defer func() { <-x.slots }()
		if resp, err := x.back.Call(x.life, req); err == nil {
			x.sendResponse(resp)
		}
	}()
}

// answer sends a response of the client's, unless the session ends first.
func (x *streamSession) sendResponse(resp *protocol.Response) {
	line, err := protocol.AppendMessage(nil, resp)
	if err == nil {
		err = jsonx.Check(line)
	}
	if err != nil {
		line, _ = protocol.AppendMessage(nil, &protocol.Response{
			ID: resp.ID, Error: protocol.Errorf(protocol.CodeInternalError, "internal error"),
		})
	}
	_ = x.stream.sendLine(x.life, line)
}

// malformed refuses a request that is none, if line can be told to be meant as
// one: it names a method. It reports false otherwise.
func (x *streamSession) refuseMalformed(line []byte, id protocol.ID, err error) bool {
	said, ok := protocol.AsError(err)
	if !ok || !namesMethod(line) {
		return false
	}
	select {
	case x.slots <- struct{}{}:
	case <-x.done:
		return true
	case <-x.stream.ended:
		return true
	}
	go func() {
		defer func() { <-x.slots }()
		x.sendResponse(&protocol.Response{ID: id, Error: said})
	}()
	return true
}

// namesMethod reports whether a message has a method, whatever else is wrong
// with it.
func namesMethod(line []byte) (found bool) {
	_ = jsonx.Members(line, func(key, _ []byte) error {
		found = found || string(key) == "method"
		return nil
	})
	return found
}

// sessionNow returns the session of the stream, nil when there is none.
func (s *Stream) currentSession() *streamSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}
