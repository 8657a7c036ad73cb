package serverhttp

import (
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

var _ server.BufferLender = (*exchange)(nil)

// A loan is the buffer in which the response to a request is put together: its
// beginning by the exchange, the result by the server. None of it is used by
// more than one goroutine.
type loan struct {
	id   protocol.ID // of the request
	lent *[]byte     // nil: nothing was lent
	head int         // how much of it precedes the result
}

// Lend implements [server.BufferLender]. The buffer is not taken before, since
// handlers may take long.
func (x *exchange) Lend() []byte {
	x.lent = x.buffer()
	*x.lent = protocol.BeginResponse((*x.lent)[:0], x.id)
	x.head = len(*x.lent)
	return *x.lent
}

// Return implements [server.BufferLender].
func (x *exchange) Return(buf []byte) { *x.lent = buf }

// holds reports whether the result of a response is what was put into the
// buffer that was lent.
func (x *exchange) holds(response *protocol.Response) bool {
	if x.lent == nil || response.Error != nil {
		return false
	}
	result, put := response.Result, (*x.lent)[x.head:]
	return len(result) > 0 && len(result) == len(put) && &result[0] == &put[0]
}

// giveBack ends the loan.
func (x *exchange) giveBack() {
	if x.lent != nil {
		x.release(x.lent)
		x.lent = nil
	}
}
