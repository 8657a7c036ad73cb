package lineio

// This file serves one client: it reads lines, runs requests concurrently, cancels them,
// orders what they send, and drains when the input ends. A [Peer] answers the requests; package
// server builds ServeStdio and ServeStream on it.
//
// The errors begin with "server: ", since package server returns them as they are.

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
	MaxLineBytes int           // of one message
	MaxInFlight  int           // requests that run at once, without those that wait for people
	Grace        time.Duration // for requests to go on after the input has ended; at most 0: none
	// SubscriptionEnd is the cause with which subscriptions are cancelled when the input
	// has ended. The peer answers them with a result then.
	SubscriptionEnd error
	// Refused is called with each request or line that the peer does not see, and the
	// error that the client gets. It may be nil.
	Refused func(ctx context.Context, why event.RefusalReason, id protocol.ID, e *protocol.Error)
}

// A Peer answers the client of a [Server].
type Peer interface {
	// Admit is called with each request in the order of the stream, so that those behind
	// initialize find the session open. The function that it returns serves the request
	// on a goroutine of its own.
	Admit(req *protocol.Request, back protocol.Back) ServeFunc
	// Notify receives a notification other than that of a cancelled request.
	Notify(ctx context.Context, n *protocol.Notification)
	// Deliver receives an answer of the client. One that answers nothing is ignored:
	// an answer to an answer helps nobody.
	Deliver(r *protocol.Response)
	// AllowsBatches reports whether a line may hold several messages now.
	AllowsBatches() bool
	// FailQuestions fails what the client has been asked: the input has ended, so no
	// answer can arrive.
	FailQuestions()
	// Close ends the session of the client.
	Close()
}

// A ServeFunc serves one request. The client gets an internal error for an error.
type ServeFunc func(ctx context.Context) (*protocol.Response, error)

var errStuck = errors.New("server: the stream ended with requests that do not stop or " +
	"output that nobody reads")

// stopGrace is how long the end of a stream waits for handlers that have been told to stop, and for
// a client that reads slowly. Who stops at all does so well within it.
const stopGrace = time.Second

// A Server is the end of a stream of lines that serves one client. [NewServer] makes one, for one
// call of Serve.
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
	waitingCount int // how many requests wait for a person
}

// NewServer returns a server that reads in and writes out.
func NewServer(in io.Reader, out io.Writer, opts ServerOptions) *Server {
	return &Server{opts: opts, in: in, out: out, lines: NewStream()}
}

// Serve serves the client with peer, which it closes in the end. It returns nil when in
// ends and an error when in or out fails or ctx ends. Nothing is written after it has
// returned, and no request runs any more, unless a handler ignores the end of its
// context: it is waited for a second and then given up, which is an error too. A read of
// in or a write to out that is blocked is not waited for either.
func (s *Server) Serve(ctx context.Context, peer Peer) error {
	s.peer = peer
	defer peer.Close()
	// Requests outlive ctx for as long as it takes to end them in good order.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	go func() { _ = s.lines.Write(s.out) }() // Err has the error
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
		s.requests.Drain(false) // people are not waited for
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

// waitForGrace gives requests that run at the end of input time to be answered.
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

// waitForEnd waits for the requests, which have been cancelled, and then for the
// writer, each for at most stopGrace.
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

// receiveLine handles a line, nil for one that was too long.
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

// newUnreadableResponse returns the response to a line that is no message, and whether it is to be
// sent. message holds the part that could be read. An unreadable answer fails its question.
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

// receiveMessage handles one message. For a request reply is called once, with nil
// when the request is not to be answered.
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

// refuseLine reports a line that is refused, and returns the response to it.
func (s *Server) refuseLine(ctx context.Context, why event.RefusalReason, id protocol.ID,
	e *protocol.Error) *protocol.Response {
	if s.opts.Refused != nil {
		s.opts.Refused(ctx, why, id, e)
	}
	return &protocol.Response{ID: id, Error: e}
}

// withPrefix says that an error of the lines, nil for none, is one of the server.
func withPrefix(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("server: %s: %w", doing, err)
}

// Send sends a message that belongs to no request, so that no cancellation can stop it.
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

// sendLine hands a line to the writer, unless ctx or the stream ends first. The line is
// dropped when unless, if it is not nil, is cancelled before it is written.
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
