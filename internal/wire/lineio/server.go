package lineio

// This file serves one client: it reads lines, runs requests concurrently, cancels them, orders
// their output, and drains when the input ends. A [Peer] answers the requests; package server
// builds ServeStdio and ServeStream on it, and so errors begin with "server: ".

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// ServerOptions configure a [Server].
type ServerOptions struct {
	MaxLineBytes int           // per message
	MaxInFlight  int           // concurrent requests, without those that wait for people
	Grace        time.Duration // for requests in flight when the input ends; none if not positive
	// SubscriptionEnd is the cause with which subscriptions are cancelled at the end of input; the
	// peer then answers them with a result.
	SubscriptionEnd error
	// Refused is called with each refused request or line and the client's error. It may be nil.
	Refused func(ctx context.Context, why event.RefusalReason, id protocol.ID, e *protocol.Error)
}

// A Peer answers the client of a [Server].
type Peer interface {
	// Admit is called with each request in stream order, so that requests after initialize find the
	// session open. The returned function serves the request on its own goroutine.
	Admit(req *protocol.Request, back protocol.Back) ServeFunc
	// Notify receives notifications, except those that cancel requests.
	Notify(ctx context.Context, n *protocol.Notification)
	// Deliver receives a client's response. It must ignore a response without a matching question.
	Deliver(r *protocol.Response)
	// AllowsBatches reports whether a line may now hold several messages.
	AllowsBatches() bool
	// FailQuestions fails all pending questions at the end of input.
	FailQuestions()
	// Close ends the client's session.
	Close()
}

// A ServeFunc serves one request. For an error the client gets an internal error.
type ServeFunc func(ctx context.Context) (*protocol.Response, error)

var errStuck = errors.New("server: the stream ended with requests that did not stop or " +
	"output that was not read")

// stopGrace is how long Serve waits at the end for cancelled handlers, and for a slow client.
const stopGrace = time.Second

// A Server serves one client over a stream of lines, in one call of Serve.
//
//	in ─▶ receiveLine ─▶ startRequest ─▶ a goroutine a request ─▶ lines ─▶ out
type Server struct {
	opts  ServerOptions
	in    io.Reader
	out   io.Writer
	peer  Peer
	lines *Stream

	requests     inflight.Set[protocol.ID]
	mu           sync.Mutex
	waitingCount int // requests that wait for a person
}

// NewServer returns a server that reads in and writes out.
func NewServer(in io.Reader, out io.Writer, opts ServerOptions) *Server {
	return &Server{opts: opts, in: in, out: out, lines: NewStream()}
}

// Serve serves the client with peer, and finally closes peer. It returns nil at the end of input,
// and an error when a read or write fails or ctx ends. After it returns, nothing is written and no
// request runs, unless a handler ignores its cancelled context: Serve waits a second for it, then
// returns an error. It does not wait for a blocked read of in or write to out.
func (s *Server) Serve(ctx context.Context, peer Peer) error {
	s.peer = peer
	defer peer.Close()
	// Requests outlive ctx for an orderly end.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	go func() { _ = s.lines.Write(s.out) }() // Err returns the error
	read := make(chan error, 1)
	go func() {
		read <- s.lines.Read(s.in, s.opts.MaxLineBytes, func(line []byte) error {
			s.receiveLine(life, line)
			return context.Cause(life)
		})
	}()

	var err error
	select {
	case err = <-read:
		err = withPrefix("read", err)
	case <-ctx.Done():
		err = context.Cause(ctx)
		s.requests.Drain(false) // do not wait for people
	case <-s.lines.Done():
	}
	idle := s.requests.Drain(true)
	if ctx.Err() == nil {
		s.peer.FailQuestions()
	}
	if err == nil {
		err = s.waitForGrace(ctx, idle)
	}
	end(cmp.Or(err, withPrefix("send", ErrEnded)))
	stuck := s.waitForEnd(idle)
	return cmp.Or(withPrefix("write", s.lines.Err()), err, stuck)
}

// waitForGrace lets requests in flight finish after the end of input.
func (s *Server) waitForGrace(ctx context.Context, idle <-chan struct{}) error {
	timer := time.NewTimer(max(s.opts.Grace, 0))
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-s.lines.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// waitForEnd waits for the cancelled requests, then for the writer, at most stopGrace each.
func (s *Server) waitForEnd(idle <-chan struct{}) error {
	err := waitAtMost(stopGrace, idle)
	s.lines.End()
	return cmp.Or(err, waitAtMost(stopGrace, s.lines.Done()))
}

func waitAtMost(limit time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errStuck
	}
}

// receiveLine handles a line; nil stands for a line that was too long.
func (s *Server) receiveLine(ctx context.Context, line []byte) {
	if line == nil {
		s.sendResponse(s.refuseLine(ctx, words.RefusedTooLarge, protocol.ID{},
			protocol.Errorf(protocol.CodeInvalidRequest,
				"invalid request: message is longer than %d bytes; send less",
				s.opts.MaxLineBytes)))
		return
	}
	if s.receiveBatch(ctx, line) {
		return
	}
	message, err := protocol.DecodeMessage(line)
	if err != nil {
		response, answers := s.newUnreadableResponse(message, err)
		s.refuseLine(ctx, words.RefusedMalformed, response.ID, response.Error)
		if answers {
			s.sendResponse(response)
		}
		return
	}
	s.receiveMessage(ctx, message, func(response *protocol.Response) {
		if response != nil {
			s.sendResponse(response)
		}
	})
}

// newUnreadableResponse returns the response to an invalid line, and whether to send it. message
// holds the readable part of the line. An unreadable answer fails its question.
func (s *Server) newUnreadableResponse(message protocol.Message, err error) (
	response *protocol.Response, answers bool) {
	response = &protocol.Response{Error: rules.PublicError(err)}
	switch m := message.(type) {
	case *protocol.Request:
		response.ID = m.ID
	case *protocol.Response:
		s.peer.Deliver(&protocol.Response{ID: m.ID, Error: response.Error})
		return response, false
	case *protocol.Notification:
		return response, false
	}
	return response, true
}

// receiveMessage handles one message. For a request, reply is called once; nil means no answer.
func (s *Server) receiveMessage(ctx context.Context, message protocol.Message,
	reply func(*protocol.Response)) {
	switch m := message.(type) {
	case *protocol.Request:
		s.startRequest(ctx, m, reply)
	case *protocol.Notification:
		if m.Method == protocol.NotifyCancelled {
			s.cancelRequest(m.Params)
		} else {
			s.peer.Notify(ctx, m)
		}
	case *protocol.Response:
		s.peer.Deliver(m)
	}
}

// refuseLine reports a refused line and returns its response.
func (s *Server) refuseLine(ctx context.Context, why event.RefusalReason, id protocol.ID,
	e *protocol.Error) *protocol.Response {
	if s.opts.Refused != nil {
		s.opts.Refused(ctx, why, id, e)
	}
	return &protocol.Response{ID: id, Error: e}
}

func withPrefix(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("server: %s: %w", doing, err)
}

// Send sends a message outside of requests, which cannot be cancelled.
func (s *Server) Send(ctx context.Context, m protocol.Message) error {
	line, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return s.sendLine(ctx, line, nil)
}

func (s *Server) sendResponse(response *protocol.Response) {
	_ = s.sendLine(context.Background(), rules.AppendResponse(nil, response), nil)
}

// sendLine passes a line to the writer, unless ctx or the stream ends first. The line is dropped if
// unless, which may be nil, is cancelled before it is written.
func (s *Server) sendLine(ctx context.Context, line []byte, unless *request) error {
	var task Cancellable
	if unless != nil {
		task = &unless.task
	}
	err := s.lines.Send(ctx, line, task)
	if err == nil || ctx.Err() != nil && err == context.Cause(ctx) {
		return err
	}
	return withPrefix("send", err)
}
