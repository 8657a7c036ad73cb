// Package linestream serves one client over a stream of lines, one message each
// (basic/transports/stdio). It reads lines, runs requests concurrently, cancels them,
// orders what they send, and drains when the input ends. A [protocol.Peer] answers the
// requests; package server builds ServeStdio and ServeStream on it.
//
// Its errors begin with "server: ", since package server returns them as they are.
package linestream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/wire/lineio"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Options configure a [Stream].
type Options struct {
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

// A SessionPeer is a [protocol.Peer] that keeps a session of an older revision on the
// stream beside the modern requests. Its Handle is not called.
type SessionPeer interface {
	protocol.Peer
	// Admit is called with each request in the order of the stream, so that those behind
	// initialize find the session open. The function that it returns serves the request
	// as Handle would, on a goroutine of its own.
	Admit(req *protocol.Request, back protocol.Back) ServeFunc
	// Deliver receives an answer of the client. One that answers nothing is ignored:
	// an answer to an answer helps nobody.
	Deliver(r *protocol.Response)
	// AllowsBatches reports whether a line may hold several messages now.
	AllowsBatches() bool
	// FailQuestions fails what the client has been asked: the input has ended, so no
	// answer can arrive.
	FailQuestions()
}

// A ServeFunc serves one request as [protocol.Peer].Handle does.
type ServeFunc func(ctx context.Context) (*protocol.Response, error)

var errStuck = errors.New("server: the stream ended with requests that do not stop or " +
	"output that nobody reads")

// stopGrace is how long the end of a stream waits for handlers that have been
// told to stop, and for a client that reads slowly. Who stops at all does so
// well within it.
const stopGrace = time.Second

// A Stream is one client on a stream of lines. [New] makes one, for one call of Serve.
//
//	in ─▶ receiveLine ─▶ startRequest ─▶ a goroutine a request ─▶ lines ─▶ out
type Stream struct {
	opts    Options
	in      io.Reader
	out     io.Writer
	peer    protocol.Peer
	session SessionPeer // peer, if it is one
	lines   *lineio.Stream

	requests     inflight.Set[protocol.ID]
	mu           sync.Mutex
	waitingCount int // how many requests wait for a person
}

// New returns a stream that reads in and writes out.
func New(in io.Reader, out io.Writer, opts Options) *Stream {
	return &Stream{opts: opts, in: in, out: out, lines: lineio.NewStream()}
}

// Serve serves the client with peer, which it closes in the end. It returns nil when in
// ends and an error when in or out fails or ctx ends. Nothing is written after it has
// returned, and no request runs any more, unless a handler ignores the end of its
// context: it is waited for a second and then given up, which is an error too. A read of
// in or a write to out that is blocked is not waited for either.
func (st *Stream) Serve(ctx context.Context, peer protocol.Peer) error {
	st.peer = peer
	st.session, _ = peer.(SessionPeer)
	defer peer.Close() // whose error would come too late to matter
	// Requests outlive ctx for as long as it takes to end them in good order.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	go func() { _ = st.lines.Write(st.out) }() // Err has the error
	read := make(chan error, 1)
	go func() {
		read <- st.lines.Read(st.in, st.opts.MaxLineBytes, func(line []byte) error {
			st.receiveLine(life, line)
			return context.Cause(life)
		})
	}()

	var err error
	select {
	case err = <-read:
		err = withPrefix("read", err)
	case <-ctx.Done():
		err = context.Cause(ctx)
		st.requests.Drain(false) // people are not waited for
	case <-st.lines.Done():
	}
	idle := st.requests.Drain(true)
	if ctx.Err() == nil && st.session != nil {
		st.session.FailQuestions()
	}
	if err == nil {
		err = st.waitForGrace(ctx, idle)
	}
	end(cmp.Or(err, withPrefix("send", lineio.ErrEnded)))
	stuck := st.waitForEnd(idle)
	return cmp.Or(withPrefix("write", st.lines.Err()), err, stuck)
}

// waitForGrace gives requests that run at the end of input time to be answered.
func (st *Stream) waitForGrace(ctx context.Context, idle <-chan struct{}) error {
	timer := time.NewTimer(max(st.opts.Grace, 0))
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-st.lines.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// waitForEnd waits for the requests, which have been cancelled, and then for the
// writer, each for at most stopGrace.
func (st *Stream) waitForEnd(idle <-chan struct{}) error {
	err := waitAtMost(stopGrace, idle)
	st.lines.End()
	return cmp.Or(err, waitAtMost(stopGrace, st.lines.Done()))
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
func (st *Stream) receiveLine(ctx context.Context, line []byte) {
	if line == nil {
		st.sendResponse(st.refuseLine(ctx, event.RefusedTooLarge, protocol.ID{},
			protocol.Errorf(protocol.CodeInvalidRequest,
				"invalid request: message is longer than %d bytes; send less",
				st.opts.MaxLineBytes)))
		return
	}
	if st.receiveBatch(ctx, line) {
		return
	}
	message, err := protocol.DecodeMessage(line)
	if err != nil {
		response := newUnreadableResponse(message, err)
		st.sendResponse(st.refuseLine(ctx, event.RefusedMalformed, response.ID, response.Error))
		return
	}
	st.receiveMessage(ctx, message, func(response *protocol.Response) {
		if response != nil {
			st.sendResponse(response)
		}
	})
}

// newUnreadableResponse returns the response to a line that is no message. message
// holds the part that could be read.
func newUnreadableResponse(message protocol.Message, err error) *protocol.Response {
	response := &protocol.Response{Error: rules.PublicError(err)}
	if req, ok := message.(*protocol.Request); ok {
		response.ID = req.ID
	}
	return response
}

// receiveMessage handles one message. For a request reply is called once, with nil
// when the request is not to be answered.
func (st *Stream) receiveMessage(ctx context.Context, message protocol.Message,
	reply func(*protocol.Response)) {
	switch m := message.(type) {
	case *protocol.Request:
		st.startRequest(ctx, m, reply)
	case *protocol.Notification:
		if m.Method == protocol.NotifyCancelled {
			st.cancelRequest(m.Params)
		} else {
			_ = st.peer.Notify(ctx, m) // of which the client would hear nothing
		}
	case *protocol.Response:
		if st.session != nil {
			st.session.Deliver(m)
		}
	}
}

// refuseLine reports a line that is refused, and returns the response to it.
func (st *Stream) refuseLine(ctx context.Context, why event.RefusalReason, id protocol.ID,
	e *protocol.Error) *protocol.Response {
	if st.opts.Refused != nil {
		st.opts.Refused(ctx, why, id, e)
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
func (st *Stream) Send(ctx context.Context, m protocol.Message) error {
	line, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return st.sendLine(ctx, line, nil)
}

func (st *Stream) sendResponse(response *protocol.Response) {
	_ = st.sendLine(context.Background(), lineio.AppendResponse(nil, response), nil)
}

// sendLine hands a line to the writer, unless ctx or the stream ends first. The line is
// dropped when unless, if it is not nil, is cancelled before it is written.
func (st *Stream) sendLine(ctx context.Context, line []byte, unless *request) error {
	var task lineio.Cancellable
	if unless != nil {
		task = &unless.task
	}
	err := st.lines.Send(ctx, line, task)
	if err == nil || ctx.Err() != nil && err == context.Cause(ctx) {
		return err
	}
	return withPrefix("send", err)
}
