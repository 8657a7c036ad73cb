package lineio

import (
	"cmp"
	"context"
	"errors"
	"io"
)

// ErrEnded is why [Outbox.Send] fails after [Outbox.End].
var ErrEnded = errors.New("line: the stream has ended")

// An Outbox passes lines from many goroutines to the one that writes: a write blocks
// for as long as the peer does not read. It has no buffer, for back-pressure.
type Outbox struct {
	lines   chan outgoing
	ended   chan struct{} // closed by End
	written chan struct{} // closed when Run has returned
	failure error         // of Run, set before written is closed
}

type outgoing struct {
	line   []byte
	unless Cancellable
}

// A Cancellable is what a line belongs to, as a request.
type Cancellable interface{ IsCancelled() bool }

// NewOutbox returns an outbox whose lines nobody writes before [Outbox.Run].
func NewOutbox() *Outbox {
	return &Outbox{lines: make(chan outgoing), ended: make(chan struct{}),
		written: make(chan struct{})}
}

// Send hands a line to the writer, unless ctx or the stream ends first. The line is
// dropped if unless, which may be nil, is cancelled before it is written.
func (o *Outbox) Send(ctx context.Context, line []byte, unless Cancellable) error {
	select {
	case o.lines <- outgoing{line, unless}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.written:
		return cmp.Or(o.failure, ErrEnded)
	case <-o.ended:
		return ErrEnded
	}
}

// Run writes lines until [Outbox.End], and then returns nil, or until a write fails.
// It is called once.
func (o *Outbox) Run(w io.Writer) error {
	defer close(o.written)
	for lines := NewWriter(w); o.failure == nil; {
		select {
		case next := <-o.lines:
			if next.unless == nil || !next.unless.IsCancelled() {
				o.failure = lines.Write(next.line)
			}
		case <-o.ended:
			return nil
		}
	}
	return o.failure
}

// End ends the outbox. It is called once. Done tells when the last line is out.
func (o *Outbox) End() { close(o.ended) }

// Done returns a channel that is closed when [Outbox.Run] has returned.
func (o *Outbox) Done() <-chan struct{} { return o.written }

// Err returns why writing has failed, nil while it has not.
func (o *Outbox) Err() error {
	select {
	case <-o.written:
		return o.failure
	default:
		return nil
	}
}
