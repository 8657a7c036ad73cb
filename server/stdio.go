package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/inflight"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/lineio"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/internal/stack"
	"github.com/rondo-mcp/rondo/internal/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	// DefaultMaxLineBytes is the longest message on a line stream, the same as
	// the longest body over HTTP.
	DefaultMaxLineBytes = 4 << 20
	// DefaultMaxInFlight is how many requests of one line stream run at once.
	// One more is refused rather than queued: a queue would hide that the
	// client asks for more than the server can do.
	DefaultMaxInFlight = 256
	// DefaultStreamGrace is how long requests may go on after the input has
	// ended. It lets a script that writes its requests and closes its end see
	// the responses, and is short enough to end promptly.
	DefaultStreamGrace = 2 * time.Second
)

// StreamOptions configure one line stream. The zero value works.
type StreamOptions struct {
	// Principal is who is at the other end; zero: [protocol.LocalPrincipal], for a
	// stream belongs to whoever started the process.
	Principal protocol.Principal
	// MaxLineBytes bounds one message, 0: DefaultMaxLineBytes, negative: no limit.
	MaxLineBytes int
	// MaxInFlight bounds the requests that run at once, subscriptions
	// included, 0: DefaultMaxInFlight, negative: no limit. Calls that wait for a
	// person do not run; those have a limit of their own, see
	// [roundtrip.Options].MaxWaitingPerSession.
	MaxInFlight int
	// Grace is how long requests may go on after the end of input, 0:
	// DefaultStreamGrace, negative: not at all.
	Grace time.Duration
}

// ServeStdio serves one client over standard input and output
// (basic/transports/stdio), until the input ends or ctx does. While it runs
// nothing else may write to standard output; log to standard error.
func (s *Server) ServeStdio(ctx context.Context) error {
	return s.ServeStream(ctx, os.Stdin, os.Stdout, nil)
}

// ServeStream serves one client over any stream of lines: pipes, a Unix socket,
// a TCP connection. It returns nil when in ends and an error when in or out
// fails or ctx ends. Nothing is written after it has returned, and no request
// runs any more, unless a handler ignores the end of its context: it is waited
// for a second and then given up, which is an error too. A read of in or a
// write to out that is blocked is not waited for either: close both to free
// their goroutines.
//
// Requests run concurrently. A request is cancelled by notifications/cancelled
// and then not answered. A line over the limit and a line that is not a message
// are refused without losing the stream.
//
// A client that sends initialize gets a [Session] on the stream. Requests whose
// _meta names their revision are served without it all the same.
func (s *Server) ServeStream(ctx context.Context, in io.Reader, out io.Writer,
	opts *StreamOptions) error {
	st := newStream(s, opts)
	defer st.closeSession()
	// Requests outlive ctx for as long as it takes to end them in good order.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	go st.writeLines(lineio.NewWriter(out))
	read := make(chan error, 1)
	go func() { read <- st.readLines(life, lineio.NewReader(in, st.opts.MaxLineBytes)) }()

	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
		err = context.Cause(ctx)
		st.requests.Drain(false) // people are not waited for
	case <-st.writerDone:
	}
	idle := st.requests.Drain(true)
	if ctx.Err() == nil {
		st.failPushes()
	}
	if err == nil {
		err = st.waitForGrace(ctx, idle)
	}
	end(cmp.Or(err, errStreamEnded))
	stuck := st.waitForEnd(idle)
	return cmp.Or(st.writeFailure(), err, stuck)
}

var (
	errStreamEnded = errors.New("server: the stream has ended")
	errCancelled   = errors.New("server: the client cancelled the request")
	errStuck       = errors.New("server: the stream ended with requests that do not stop or " +
		"output that nobody reads")
)

// stopGrace is how long the end of a stream waits for handlers that have been
// told to stop, and for a client that reads slowly. Who stops at all does so
// well within it.
const stopGrace = time.Second

// A lineStream is one client on a line stream.
//
//	in ─▶ readLines ─▶ startRequest ─▶ a goroutine a request ─▶ outbox ─▶ writeLines ─▶ out
type lineStream struct {
	server     *Server
	opts       StreamOptions
	session    *Session          // nil when the server is modern only
	outbox     chan outgoingLine // to writeLines; unbuffered, for back-pressure
	ended      chan struct{}     // closed when writeLines takes no more lines
	writerDone chan struct{}     // closed when writeLines has returned
	writeError error             // set by writeLines before it returns

	requests     inflight.Set[protocol.ID]
	mu           sync.Mutex
	waitingCount int // how many requests wait for a person
}

// A lineRequest is a request of a stream that is being served. It is told when the
// request waits for a person.
type lineRequest struct {
	stream *lineStream
	task   inflight.Request

	// Guarded by stream.mu.
	waiting  bool // for a person, and is counted in stream.waitingCount
	answered bool // a goroutine that its handler left behind may wait on
}

// SetWaiting implements [waiting.Listener].
func (r *lineRequest) SetWaiting(waiting bool) {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	if !r.answered {
		r.stream.setWaitingLocked(r, waiting)
	}
}

func (st *lineStream) setWaitingLocked(r *lineRequest, waiting bool) {
	switch {
	case waiting && !r.waiting:
		st.waitingCount++
	case !waiting && r.waiting:
		st.waitingCount--
	}
	r.waiting = waiting
}

// An outgoingLine is a line for the writer. It is dropped when its request, if it
// has one, is cancelled before the line is written.
type outgoingLine struct {
	line    []byte
	request *lineRequest
}

func newStream(s *Server, opts *StreamOptions) *lineStream {
	st := &lineStream{
		server:     s,
		outbox:     make(chan outgoingLine),
		ended:      make(chan struct{}),
		writerDone: make(chan struct{}),
	}
	if opts != nil {
		st.opts = *opts
	}
	if st.opts.Principal.Anonymous() {
		st.opts.Principal = protocol.LocalPrincipal()
	}
	switch {
	case st.opts.MaxLineBytes == 0:
		st.opts.MaxLineBytes = DefaultMaxLineBytes
	case st.opts.MaxLineBytes < 0:
		st.opts.MaxLineBytes = math.MaxInt / 2 // sums of two do not overflow
	}
	switch {
	case st.opts.MaxInFlight == 0:
		st.opts.MaxInFlight = DefaultMaxInFlight
	case st.opts.MaxInFlight < 0:
		st.opts.MaxInFlight = math.MaxInt
	}
	if st.opts.Grace == 0 {
		st.opts.Grace = DefaultStreamGrace
	}
	if !s.opts.ModernOnly {
		st.session = s.NewSession(st.opts.Principal, st.sendUnrelated)
		st.session.idsElsewhere = true
	}
	return st
}

// readLines reads until the input ends, which is no error.
func (st *lineStream) readLines(ctx context.Context, lines *lineio.Reader) error {
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, lineio.ErrTooLong):
			st.sendResponse(st.refuseLine(ctx, event.RefusedTooLarge, protocol.ID{},
				protocol.Errorf(protocol.CodeInvalidRequest,
					"invalid request: message is longer than %d bytes; send less",
					st.opts.MaxLineBytes)))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("server: read: %w", err)
		default:
			st.receiveLine(ctx, line)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (st *lineStream) receiveLine(ctx context.Context, line []byte) {
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
	response := &protocol.Response{Error: asError(err)}
	if req, ok := message.(*protocol.Request); ok {
		response.ID = req.ID
	}
	return response
}

// receiveMessage handles one message. For a request reply is called once, with nil
// when the request is not to be answered.
func (st *lineStream) receiveMessage(ctx context.Context, message protocol.Message,
	reply func(*protocol.Response)) {
	switch m := message.(type) {
	case *protocol.Request:
		st.startRequest(ctx, m, reply)
	case *protocol.Notification:
		if m.Method == protocol.NotifyCancelled {
			st.cancelRequest(m.Params)
		} else if st.session != nil {
			st.session.Notify(ctx, m)
		}
	case *protocol.Response:
		// One that answers nothing is not answered, for an answer to an answer
		// helps nobody.
		if st.session != nil {
			_ = st.session.Deliver(m)
		}
	}
}

// startRequest serves a request on a goroutine of its own, or refuses it.
func (st *lineStream) startRequest(ctx context.Context, req *protocol.Request,
	reply func(*protocol.Response)) {
	r := &lineRequest{stream: st}
	r.task.Uncancellable = req.Method == protocol.MethodInitialize
	if req.Method == protocol.MethodListen {
		r.task.DrainCause = ErrClosed
	}
	ctx = r.task.Start(ctx, r)
	if reason, refusal := st.addRequest(req.ID, r); refusal != nil {
		r.task.Cancel(nil)
		reply(st.refuseLine(ctx, reason, req.ID, refusal))
		return
	}
	var admitted *Admission
	back := &lineChannel{st, r}
	if st.belongsToSession(req) {
		// Here, for what follows depends on initialize.
		admitted = st.session.Admit(req, Delivery{Back: back})
	}
	id := req.ID
	go func() {
		stack.Grow()
		defer st.requests.End(id, &r.task)
		defer r.task.Cancel(nil)
		// The request is answered even if a handler ends its goroutine, as
		// testing.T.FailNow does: nobody else would tell the client.
		response := &protocol.Response{ID: id, Error: internalError()}
		defer func() { st.answerRequest(id, r, response, reply) }()
		if admitted == nil {
			admitted = st.server.Admit(req,
				Delivery{Principal: st.opts.Principal, Back: back})
		}
		req = nil // its line need not be kept for as long as the handler runs
		response = st.server.Serve(ctx, admitted)
	}()
}

// answerRequest ends a request with the response, unless the client cancelled it. The
// id is free again before the response is out, for the client may use it at
// once.
func (st *lineStream) answerRequest(id protocol.ID, r *lineRequest, response *protocol.Response,
	reply func(*protocol.Response)) {
	if !st.freeRequest(id, r) {
		response = nil
	} else if r.task.DrainCause != nil && response.Error == nil {
		st.announceEnd(response)
	}
	reply(response)
}

// addRequest adds a request to those in flight, or says why not. It is called by the
// goroutine that reads, and by no other.
func (st *lineStream) addRequest(
	id protocol.ID, r *lineRequest,
) (event.RefusalReason, *protocol.Error) {
	switch err := st.requests.Begin(id, &r.task); {
	case errors.Is(err, inflight.ErrDraining):
		return event.RefusedClosing, waiting.RefuseClosing()
	case errors.Is(err, inflight.ErrDuplicate):
		return event.RefusedDuplicateID, protocol.Errorf(protocol.CodeInvalidRequest,
			"invalid request: a request with this id is running")
	}
	st.mu.Lock()
	waitingCount := st.waitingCount
	st.mu.Unlock()
	if st.requests.Len()-waitingCount > st.opts.MaxInFlight {
		st.requests.End(id, &r.task)
		return event.RefusedRequests, quota.Refuse(quota.Total, time.Second,
			"too many requests are running; try again in %s", time.Second)
	}
	return "", nil
}

// freeRequest frees the id of a request that has been served, and reports whether it
// is to be answered: not when the client cancelled it. The mutex is not held around
// the set, which holds its own while it calls SetWaiting.
func (st *lineStream) freeRequest(id protocol.ID, r *lineRequest) bool {
	st.requests.Free(id)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.setWaitingLocked(r, false)
	r.answered = true
	return !r.task.IsCancelled()
}

// announceEnd announces the end of a subscription before the response to it, as
// line streams require it (basic/patterns/cancellation).
func (st *lineStream) announceEnd(response *protocol.Response) {
	params := []byte(`{"requestId":` + response.ID.String() + `}`)
	_ = st.sendUnrelated(context.Background(),
		&protocol.Notification{Method: protocol.NotifyCancelled, Params: params})
}

// cancelRequest handles notifications/cancelled. Unknown ids are no error: the
// request may just have been answered.
func (st *lineStream) cancelRequest(params []byte) {
	var c protocol.Cancelled
	if jsonx.Decode(params, &c) != nil {
		return
	}
	st.requests.Cancel(c.RequestID, errCancelled)
}

// waitForGrace gives requests that run at the end of input time to be answered.
func (st *lineStream) waitForGrace(ctx context.Context, idle <-chan struct{}) error {
	timer := time.NewTimer(max(st.opts.Grace, 0))
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-st.writerDone:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// waitForEnd waits for the requests, which have been cancelled, and then for the
// writer, each for at most stopGrace.
func (st *lineStream) waitForEnd(idle <-chan struct{}) error {
	err := waitAtMost(stopGrace, idle)
	close(st.ended)
	return cmp.Or(err, waitAtMost(stopGrace, st.writerDone))
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

// writeLines writes the messages of all requests. It is the one goroutine that
// blocks while the client does not read.
func (st *lineStream) writeLines(lines *lineio.Writer) {
	defer close(st.writerDone)
	for {
		select {
		case o := <-st.outbox:
			if o.request != nil && o.request.task.IsCancelled() {
				continue
			}
			if err := lines.Write(o.line); err != nil {
				st.writeError = fmt.Errorf("server: write: %w", err)
				return
			}
		case <-st.ended:
			return
		}
	}
}

// writeFailure returns why writing failed, nil when it did not.
func (st *lineStream) writeFailure() error {
	select {
	case <-st.writerDone:
		return st.writeError
	default:
		return nil
	}
}

// sendResponse sends a response. One that cannot be written is the server's
// mistake, and the client is told at least that.
func (st *lineStream) sendResponse(response *protocol.Response) {
	line, err := protocol.AppendMessage(nil, response)
	if err != nil {
		line, err = protocol.AppendMessage(nil,
			&protocol.Response{ID: response.ID, Error: internalError()})
	}
	if err == nil {
		_ = st.sendLine(context.Background(), outgoingLine{line: line})
	}
}

// sendLine hands a line to the writer, unless ctx or the stream ends first.
func (st *lineStream) sendLine(ctx context.Context, o outgoingLine) error {
	select {
	case st.outbox <- o:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-st.writerDone:
		return cmp.Or(st.writeError, errStreamEnded)
	case <-st.ended:
		return errStreamEnded
	}
}

// A lineChannel sends the messages of one request.
type lineChannel struct {
	stream  *lineStream
	request *lineRequest
}

// Notify implements [protocol.Back]. Nothing is sent for a request that the
// client cancelled. What is no message is an error and not sent either: it
// comes from a handler, and must not cost the others their stream.
func (b *lineChannel) Notify(ctx context.Context, n *protocol.Notification) error {
	return b.sendUnlessCancelled(ctx, n, b.request)
}

// Send implements [BackSender].
func (b *lineChannel) Send(ctx context.Context, m protocol.Message) error {
	if _, withdraws := m.(*protocol.Notification); withdraws {
		return b.sendUnlessCancelled(ctx, m, nil)
	}
	return b.sendUnlessCancelled(ctx, m, b.request)
}

// sendUnlessCancelled sends m, unless the request given, if one is, has been cancelled.
func (b *lineChannel) sendUnlessCancelled(ctx context.Context, m protocol.Message,
	unless *lineRequest) error {
	if unless != nil && unless.task.IsCancelled() {
		return errCancelled
	}
	line, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return fmt.Errorf("server: notify: %w", err)
	}
	if err := jsonx.Check(line); err != nil {
		return fmt.Errorf("server: notify: %.64q: %w", methodOf(m), err)
	}
	return b.stream.sendLine(ctx, outgoingLine{line, unless})
}

func methodOf(m protocol.Message) string {
	switch m := m.(type) {
	case *protocol.Request:
		return m.Method
	case *protocol.Notification:
		return m.Method
	}
	return ""
}

// belongsToSession reports whether a request belongs to the session of the stream:
// it does not name its revision, as modern requests do, and either the session is
// open or the request may come before that.
func (st *lineStream) belongsToSession(req *protocol.Request) bool {
	if st.session == nil || revision.IsNamedIn(req.Params) {
		return false
	}
	switch req.Method {
	case protocol.MethodInitialize, protocol.MethodPing:
		return true
	}
	return st.session.Version() != ""
}

// sendUnrelated sends a message that belongs to no request, so that no
// cancellation can stop it.
func (st *lineStream) sendUnrelated(ctx context.Context, m protocol.Message) error {
	line, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return st.sendLine(ctx, outgoingLine{line: line})
}

// failPushes fails pending questions: their answers cannot arrive any more.
func (st *lineStream) failPushes() {
	if st.session != nil {
		st.session.pushes.failPushes()
	}
}

// closeSession ends the session, if there is one.
func (st *lineStream) closeSession() {
	if st.session != nil {
		st.session.Close()
	}
}
