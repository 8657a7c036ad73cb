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

// ErrEnded is why nothing can be sent after [Stream.End].
var ErrEnded = errors.New("line: the stream has ended")

// A Stream is one end of a stream of lines. One goroutine reads and one writes. Lines of
// many goroutines pass to the one that writes, since a write blocks for as long as the peer
// does not read. There is no buffer between them, for back-pressure.
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

// A Cancellable is what a line belongs to, as a request.
type Cancellable interface{ IsCancelled() bool }

// NewStream returns a stream that nobody reads and writes yet.
func NewStream() *Stream {
	return &Stream{lines: make(chan outgoing), ended: make(chan struct{}),
		written: make(chan struct{})}
}

// Read passes each line of r to receive, and nil in place of one of more than max bytes. It
// returns nil at the end of r, and else why it could not read or go on.
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

// Write writes to w what is sent, until [Stream.End], and then returns nil, or until a write
// fails: nothing can follow what may be part of a line. It is called once.
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

// writeLine writes one line, with a single call of the writer. It refuses a line that
// contains a newline, which would be two messages.
func writeLine(w io.Writer, line []byte) error {
	if bytes.IndexByte(line, '\n') >= 0 {
		return errors.New("line: contains a newline")
	}
	_, err := w.Write(append(line, '\n'))
	return err
}

// Send hands a line, which is the stream's from then on, to the writer, unless ctx or the stream
// ends first. The line is dropped if unless, which may be nil, is cancelled before it is written.
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

// End ends the stream. It is called once. Done tells when the last line is out.
func (s *Stream) End() { close(s.ended) }

// Done returns a channel that is closed when [Stream.Write] has returned.
func (s *Stream) Done() <-chan struct{} { return s.written }

// Err returns why writing has failed, nil while it has not.
func (s *Stream) Err() error {
	select {
	case <-s.written:
		return s.failure
	default:
		return nil
	}
}

// Encode returns the line of a message whose parts come from others, such as handlers: what
// is no message must not cost the rest their stream.
func Encode(m protocol.Message) ([]byte, error) {
	line, err := protocol.AppendMessage(nil, m)
	if err == nil {
		err = jsonx.Check(line)
	}
	return line, err
}
