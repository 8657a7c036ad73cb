package server

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/lineio"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
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
	// Principal is who is at the other end; zero: [roundtrip.Local], for a
	// stream belongs to whoever started the process.
	Principal roundtrip.Principal
	// MaxLineBytes bounds one message, 0: DefaultMaxLineBytes.
	MaxLineBytes int
	// MaxInFlight bounds the requests that run at once, subscriptions
	// included, 0: DefaultMaxInFlight.
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
// fails or ctx ends; by then no request runs any more. When ctx ends it does not
// wait for a read of in that is blocked: close in to free the goroutine.
//
// Requests run concurrently. A request is cancelled by notifications/cancelled
// and then not answered. A line over the limit and a line that is not a message
// are refused without losing the stream.
func (s *Server) ServeStream(ctx context.Context, in io.Reader, out io.Writer, opts *StreamOptions) error {
	st := newStream(s, out, opts)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st.fail = cancel

	ended := make(chan error, 1)
	go func() { ended <- st.read(ctx, lineio.NewReader(in, st.opts.MaxLineBytes)) }()
	var err error
	select {
	case err = <-ended:
		if err == nil {
			st.wait(ctx)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cancel(errStreamEnded)
	st.requests.Wait()
	if failed := st.failure(); failed != nil {
		return failed
	}
	return err
}

var errStreamEnded = errors.New("server: the stream has ended")

// stream is one client on a line stream.
type stream struct {
	server *Server
	opts   StreamOptions
	out    *lineio.Writer
	fail   context.CancelCauseFunc

	requests sync.WaitGroup
	mu       sync.Mutex
	running  map[protocol.ID]*streamRequest
	broken   error
}

// streamRequest is a request that runs.
type streamRequest struct {
	cancel    context.CancelCauseFunc
	listens   bool
	cancelled bool
}

func newStream(s *Server, out io.Writer, opts *StreamOptions) *stream {
	st := &stream{server: s, out: lineio.NewWriter(out), running: map[protocol.ID]*streamRequest{}}
	if opts != nil {
		st.opts = *opts
	}
	if st.opts.Principal.Anonymous() {
		st.opts.Principal = roundtrip.Local()
	}
	if st.opts.MaxLineBytes <= 0 {
		st.opts.MaxLineBytes = DefaultMaxLineBytes
	}
	if st.opts.MaxInFlight <= 0 {
		st.opts.MaxInFlight = DefaultMaxInFlight
	}
	if st.opts.Grace == 0 {
		st.opts.Grace = DefaultStreamGrace
	}
	return st
}

// read takes lines until the input ends, which is no error.
func (st *stream) read(ctx context.Context, lines *lineio.Reader) error {
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, lineio.ErrTooLong):
			st.write(&protocol.Response{Error: protocol.Errorf(protocol.CodeInvalidRequest,
				"message is longer than %d bytes", st.opts.MaxLineBytes)})
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			st.message(ctx, line)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (st *stream) message(ctx context.Context, line []byte) {
	message, err := protocol.DecodeMessage(line)
	if err != nil {
		refusal, _ := protocol.AsError(err)
		response := &protocol.Response{Error: refusal}
		if req, ok := message.(*protocol.Request); ok {
			response.ID = req.ID
		}
		st.write(response)
		return
	}
	switch m := message.(type) {
	case *protocol.Request:
		st.start(ctx, m)
	case *protocol.Notification:
		if m.Method == protocol.NotifyCancelled {
			st.cancelled(m.Params)
		}
	}
	// A modern client sends no responses; one that does is not answered, for
	// an answer to an answer helps nobody.
}

// start runs a request, unless it may not.
func (st *stream) start(ctx context.Context, req *protocol.Request) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &streamRequest{cancel: cancel, listens: req.Method == protocol.MethodListen}
	st.mu.Lock()
	var refusal *protocol.Error
	switch _, taken := st.running[req.ID]; {
	case taken:
		refusal = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request: a request with this id is running")
	case len(st.running) >= st.opts.MaxInFlight:
		refusal = protocol.Errorf(protocol.CodeBusy, "too many requests are running")
	default:
		st.running[req.ID] = r
	}
	st.mu.Unlock()
	if refusal != nil {
		cancel(nil)
		st.write(&protocol.Response{ID: req.ID, Error: refusal})
		return
	}
	st.requests.Go(func() {
		defer cancel(nil)
		in := st.server.Admit(req)
		in.Principal = st.opts.Principal
		in.Back = &streamBack{st, r}
		st.answer(req.ID, r, st.server.Serve(ctx, in))
	})
}

// answer writes the response, unless the client cancelled the request. The id
// is free again before the response is out, for the client may use it at once.
func (st *stream) answer(id protocol.ID, r *streamRequest, response *protocol.Response) {
	st.mu.Lock()
	delete(st.running, id)
	silent := r.cancelled
	st.mu.Unlock()
	if !silent {
		st.write(response)
	}
}

// cancelled handles notifications/cancelled. Unknown ids are no error: the
// request may just have been answered.
func (st *stream) cancelled(params []byte) {
	var c protocol.Cancelled
	if jsonx.Decode(params, &c) != nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if r, ok := st.running[c.RequestID]; ok {
		r.cancelled = true
		r.cancel(errCancelled)
	}
}

var errCancelled = errors.New("server: the client cancelled the request")

// wait gives requests that run at the end of input time to be answered.
// Subscriptions would wait for ever: they end at once.
func (st *stream) wait(ctx context.Context) {
	st.mu.Lock()
	for _, r := range st.running {
		if r.listens {
			r.cancel(ErrClosed)
		}
	}
	st.mu.Unlock()
	done := make(chan struct{})
	go func() {
		st.requests.Wait()
		close(done)
	}()
	grace := time.NewTimer(max(st.opts.Grace, 0))
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	case <-ctx.Done():
	}
}

// write sends one message. When that fails the whole stream has failed.
func (st *stream) write(m protocol.Message) {
	line, err := protocol.AppendMessage(nil, m)
	if err == nil {
		err = st.out.Write(line)
	}
	if err == nil {
		return
	}
	st.mu.Lock()
	if st.broken == nil {
		st.broken = err
	}
	st.mu.Unlock()
	st.fail(err)
}

func (st *stream) failure() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.broken
}

// streamBack sends what relates to one request.
type streamBack struct {
	stream  *stream
	request *streamRequest
}

// Notify implements [protocol.Back]. Nothing is sent for a request that the
// client cancelled.
func (b *streamBack) Notify(_ context.Context, n *protocol.Notification) error {
	b.stream.mu.Lock()
	silent := b.request.cancelled
	b.stream.mu.Unlock()
	if silent {
		return errCancelled
	}
	b.stream.write(n)
	return b.stream.failure()
}
