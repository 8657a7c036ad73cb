package serverhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/sse"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A connection sends one stream, or the rest of it, as the response to one HTTP
// request. The request that a stream is about may outlive it.
type connection struct {
	x       *exchange
	batch   bool // responses are an array
	resumed bool
	closing <-chan struct{} // closed when nothing will be said any more that was not yet; nil: never
	last    bool            // it has been
	given   [1][]byte       // room for what take gives: one event, as a rule

	wake chan struct{} // holds a signal when take has something new

	// Guarded by the mutex of the log.
	stream    *stream
	transient []byte        // to be sent once, nil: nothing
	room      chan struct{} // closed when the stream takes more; nil: nobody waits
	replaced  bool          // another connection sends the stream
	hangUp    bool
	retry     time.Duration
}

func newConnection(x *exchange) *connection {
	return &connection{x: x, wake: make(chan struct{}, 1)}
}

func (c *connection) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *connection) roomSignal() <-chan struct{} {
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

func (c *connection) giveRoom() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// run sends until the stream is over, the client is gone, which ends ctx, or
// does not take what it is sent.
func (c *connection) run(ctx context.Context) {
	defer c.stream.detach(c)
	c.x.writtenBy(c)
	for {
		d := c.stream.take(c)
		err := c.send(d)
		clear(c.given[:]) // what is sent need not be kept for it
		if err != nil || d.over || c.last {
			c.x.close()
			return
		}
		if !c.wait(ctx) || c.x.failed() {
			c.x.abandon()
			return
		}
	}
}

// wait reports false when the client is gone.
func (c *connection) wait(ctx context.Context) bool {
	select {
	case <-c.wake:
		return true
	case <-c.stream.log.over:
		return true
	case <-c.closing:
		c.last = true
		return true
	case <-ctx.Done():
		return false
	}
}

// send writes a delivery.
func (c *connection) send(d delivery) error {
	switch {
	case d.stream != 0:
		return c.sendEvents(d)
	case !d.over:
		return nil
	case d.cut:
		c.x.fail(sessionGone())
		return nil
	case len(d.events) == 0: // cancelled requests are not answered
		return c.x.raw(nil)
	}
	return c.x.json(http.StatusOK, c.body(d.events))
}

// body makes one JSON text of responses.
func (c *connection) body(responses [][]byte) []byte {
	if !c.batch {
		return responses[0]
	}
	body := []byte{'['}
	for i, r := range responses {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r...)
	}
	return append(body, ']')
}

func (c *connection) sendEvents(d delivery) error {
	buf := c.x.buffer()
	defer c.x.release(buf)
	out := (*buf)[:0]
	log := c.stream.log
	var room [64]byte // of ids
	if !c.x.streams() && !c.resumed {
		if log.prime {
			out = sse.AppendEventID(out, eventID{log.tag, d.stream, d.after}.append(room[:0]), nil)
		} else {
			out = sse.AppendComment(out) // shows that the stream is open
		}
	} else if !c.x.streams() {
		out = sse.AppendComment(out)
	}
	for i, e := range d.events {
		if log.tag == "" {
			out = sse.AppendEvent(out, e)
			continue
		}
		out = sse.AppendEventID(out, eventID{log.tag, d.stream, d.after + uint64(i) + 1}.append(room[:0]), e)
	}
	if d.last != nil {
		out = sse.AppendEvent(out, d.last)
	}
	if d.hangUp && d.retry > 0 {
		out = sse.AppendEvent(sse.AppendRetry(out, d.retry), nil)
	}
	*buf = out
	if len(out) == 0 && c.x.streams() {
		return nil
	}
	return c.x.raw(out)
}

// codeSessionGone is the code of the answer to a request whose session has
// ended. Revisions with sessions give it no meaning of their own.
const codeSessionGone = -32001

// textSessionGone is that answer. Clients that are widely used compare the code
// and the beginning of the text to tell it from any other 404; it carries no id,
// whatever was asked, as that of the TypeScript SDK.
const textSessionGone = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`

// sessionGone is the answer to a request whose session ended: the client must
// open another (basic/transports, "Session Management").
func sessionGone() *fault {
	return &fault{status: http.StatusNotFound, reason: roundtrip.RefusedSessionGone, text: textSessionGone,
		err: protocol.Errorf(codeSessionGone, "Session not found"),
		cause: errors.New("Mcp-Session-Id names no session of this principal in this process: it has expired " +
			"(serverhttp.Options.SessionTimeout), was deleted, belongs to somebody else or to another replica; the client initializes again")}
}
