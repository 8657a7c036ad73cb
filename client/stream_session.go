package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/lineio"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// defaultProbeTimeout limits a server's start and its answer to server/discover. Every connection
// to a legacy server that does not answer takes that long, unless [Options.Era] is set.
const defaultProbeTimeout = 5 * time.Second

var (
	_ protocol.LegacyPeer = (*Stream)(nil)
	_ protocol.LegacyPeer = (*Process)(nil)
)

// Probe implements [protocol.LegacyPeer]. On a stream, silence and every error that no modern
// revision defines indicate a legacy server (basic/transports/stdio, "Backward Compatibility").
func (s *Stream) Probe(ctx context.Context,
	req *protocol.Request) (*protocol.Response, bool, error) {
	limited := ctx
	if limit := s.opts.ProbeTimeout; limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	resp, err := s.Handle(limited, req, nil)
	switch {
	case err == nil:
		return resp, resp.Error != nil && !rules.ProvesModern(resp.Error), nil
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

// OpenSession implements [protocol.LegacyPeer]. It waits until the stream's last session has ended.
func (s *Stream) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (protocol.LegacySession, *protocol.Response, error) {
	x := &streamSession{
		stream: s, back: back, slots: make(chan struct{}, protocol.MaxBackCalls),
		queue: newNotificationQueue(s.opts.MaxLineBytes),
	}
	x.life, x.end = context.WithCancelCause(context.Background())
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	select {
	case s.sessionSlot <- struct{}{}: // if another session is open, its user is about to give up
	case <-ctx.Done():
		return nil, nil, errors.New("client: stream has a session already")
	}
	s.mu.Lock()
	s.session = x
	s.mu.Unlock()
	go x.deliverNotifications()
	resp, err := s.sendInitialize(ctx, initialize)
	if err != nil || resp.Error != nil {
		_ = x.Close()
		return nil, resp, err
	}
	return x, resp, nil
}

type initialization struct {
	params   []byte
	done     chan struct{} // closed once response and err are set
	response *protocol.Response
	err      error
}

// sendInitialize returns the response to an initialize request, or to an earlier one with the same
// parameters: initialize cannot be cancelled (basic/lifecycle), so the server may already have
// opened the session for an earlier caller, which has given up.
func (s *Stream) sendInitialize(ctx context.Context,
	req *protocol.Request) (*protocol.Response, error) {
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

// awaitInitialize waits for the response. After an error sendInitialize can start over.
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

// A streamSession is the session of a stream. It gets all server requests: they name no origin.
type streamSession struct {
	stream *Stream
	back   protocol.BackCaller
	slots  chan struct{} // one per running request of the server
	queue  *notificationQueue
	life   context.Context // ends with the session, and ends answers to the server
	end    context.CancelCauseFunc
}

func (x *streamSession) Handle(ctx context.Context, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	if err := x.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, protocol.ErrNotRun)
	}
	return x.stream.Handle(ctx, req, back)
}

func (x *streamSession) Notify(ctx context.Context, n *protocol.Notification) error {
	if err := x.Err(); err != nil {
		return err
	}
	return x.stream.Notify(ctx, n)
}

// Close ends the session but not the stream. It sends nothing, and does not wait for handlers.
func (x *streamSession) Close() error {
	x.end(ErrClosed)
	x.stream.mu.Lock()
	defer x.stream.mu.Unlock()
	if x.stream.session == x {
		x.stream.session = nil
		<-x.stream.sessionSlot
	}
	return nil
}

func (x *streamSession) Done() <-chan struct{} { return x.life.Done() }

func (x *streamSession) Err() error { return context.Cause(x.life) }

// deliverNotifications passes queued notifications to back, so that back does not block the reader.
func (x *streamSession) deliverNotifications() {
	for {
		select {
		case <-x.queue.wake:
		case <-x.Done():
			return
		case <-x.stream.Done():
			x.end(x.stream.Err())
			return
		}
		for n := x.queue.dequeue(); n != nil && x.Err() == nil; n = x.queue.dequeue() {
			_ = x.back.Notify(x.life, n)
		}
	}
}

// queueNotification queues a notification for back. Cancellations skip the queue.
func (x *streamSession) queueNotification(n *protocol.Notification, size int) error {
	if n.Method == protocol.NotifyCancelled {
		return x.back.Notify(x.life, n)
	}
	if !x.queue.enqueue(n, size) {
		return errOverrun
	}
	return nil
}

func (x *streamSession) answerRequest(req *protocol.Request) {
	x.runInSlot(func() {
		if resp, err := x.back.Call(x.life, req); err == nil {
			x.sendResponse(resp)
		}
	})
}

// runInSlot calls run on another goroutine. It blocks the reader while MaxBackCalls calls run.
func (x *streamSession) runInSlot(run func()) {
	select {
	case x.slots <- struct{}{}:
	case <-x.Done():
		return
	case <-x.stream.Done():
		return
	}
	go func() {
		defer func() { <-x.slots }()
		run()
	}()
}

func (x *streamSession) sendResponse(resp *protocol.Response) {
	line, err := lineio.Encode(resp)
	if err != nil { // an internal error replaces it
		line = rules.AppendResponse(nil, &protocol.Response{ID: resp.ID})
	}
	_ = x.stream.sendLine(x.life, line)
}

// refuseMalformed refuses an invalid request in a slot. It returns false if line is no request.
func (x *streamSession) refuseMalformed(line []byte, id protocol.ID, err error) bool {
	said, ok := protocol.AsError(err)
	if !ok || !jsonx.HasMember(line, "method") {
		return false
	}
	x.runInSlot(func() { x.sendResponse(&protocol.Response{ID: id, Error: said}) })
	return true
}

func (s *Stream) currentSession() *streamSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}
