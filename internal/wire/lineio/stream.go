package lineio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// ErrEnded is returned by sends after [Stream.End].
var ErrEnded = errors.New("line: the stream has ended")

// A Stream is one end of a stream of lines. One goroutine reads and one writes, because a write
// blocks while the peer does not read. Lines pass to the writer unbuffered, for back-pressure.
type Stream struct {
	lines   chan outgoing
	ended   chan struct{} // closed by End
	written chan struct{} // closed when Write has returned
	failure error         // of Write, set before written is closed
}

type outgoing struct {
	line   []byte
	unless Cancellable
}

// A Cancellable is the owner of a line, such as a request.
type Cancellable interface{ IsCancelled() bool }

// NewStream returns a stream; start Read and Write next.
func NewStream() *Stream {
	return &Stream{lines: make(chan outgoing), ended: make(chan struct{}),
		written: make(chan struct{})}
}

// Read passes each line of r to the function receive, or nil for a line of more than max bytes. It
// returns nil at the end of r, otherwise the error of r or receive.
func (s *Stream) Read(r io.Reader, max int, receive func(line []byte) error) error {
	for lines := NewReader(r, max); ; {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, ErrTooLong):
			return err
		}
		if err := receive(line); err != nil {
			return err
		}
	}
}

// Write writes lines to w until [Stream.End], then returns nil. It stops at a failed write, which
// may have written part of a line, and returns its error. It is called once.
func (s *Stream) Write(w io.Writer) error {
	defer close(s.written)
	for s.failure == nil {
		select {
		case next := <-s.lines:
			if next.unless == nil || !next.unless.IsCancelled() {
				s.failure = writeLine(w, next.line)
			}
		case <-s.ended:
			return nil
		}
	}
	return s.failure
}

// writeLine writes one line in a single call. It refuses a newline within.
func writeLine(w io.Writer, line []byte) error {
	if bytes.IndexByte(line, '\n') >= 0 {
		return errors.New("line: contains a newline")
	}
	_, err := w.Write(append(line, '\n'))
	return err
}

// Send passes a line, which the stream then owns, to the writer, unless ctx or the stream ends
// first. The line is dropped if unless, which may be nil, is cancelled before it is written.
func (s *Stream) Send(ctx context.Context, line []byte, unless Cancellable) error {
	select {
	case s.lines <- outgoing{line, unless}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.written:
		return cmp.Or(s.failure, ErrEnded)
	case <-s.ended:
		return ErrEnded
	}
}

// End ends the stream. It is called once. Done reports when the last line is out.
func (s *Stream) End() { close(s.ended) }

// Done returns a channel that is closed when [Stream.Write] has returned.
func (s *Stream) Done() <-chan struct{} { return s.written }

// Err returns the write error, or nil so far.
func (s *Stream) Err() error {
	select {
	case <-s.written:
		return s.failure
	default:
		return nil
	}
}

// Encode returns the checked line of a message with foreign parts, which may be invalid.
func Encode(m protocol.Message) ([]byte, error) {
	line, err := protocol.AppendMessage(nil, m)
	if err == nil {
		err = jsonx.Check(line)
	}
	return line, err
}
