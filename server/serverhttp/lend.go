package serverhttp

import (
	"github.com/rondo-mcp/rondo/internal/envelope"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

var (
	_ server.BufferLender = (*exchange)(nil)
	_ server.BufferLender = (*call)(nil)
)

// A loan is the buffer in which the response to a request is put together: its
// beginning by its owner, the result by the server. None of it is used by more
// than one goroutine.
type loan struct {
	id   protocol.ID // of the request
	lent *[]byte     // nil: nothing was lent
	head int         // how much of it precedes the result
}

// Lend implements [server.BufferLender]. The buffer is not taken before, since
// handlers may take long.
func (x *exchange) Lend() []byte { return x.lend(x.buffer()) }

// Lend implements [server.BufferLender]. The log of a session keeps what comes
// of it, so it is not of a pool.
func (c *call) Lend() []byte {
	c.text = make([]byte, 0, usualReply)
	return c.lend(&c.text)
}

// usualReply is room for most responses of legacy revisions, that wait in a log
// until the client has them.
const usualReply = 384

func (l *loan) lend(buf *[]byte) []byte {
	l.lent = buf
	*buf = envelope.BeginResult((*buf)[:0], l.id.String())
	l.head = len(*buf)
	return *buf
}

// Return implements [server.BufferLender].
func (l *loan) Return(buf []byte) { *l.lent = buf }

// holds reports whether the result of a response is what was put into the
// buffer that was lent.
func (l *loan) holds(response *protocol.Response) bool {
	if l.lent == nil || response.Error != nil {
		return false
	}
	result, put := response.Result, (*l.lent)[l.head:]
	return len(result) > 0 && len(result) == len(put) && &result[0] == &put[0]
}

// giveBack ends the loan.
func (x *exchange) giveBack() {
	if x.lent != nil {
		x.release(x.lent)
		x.lent = nil
	}
}
