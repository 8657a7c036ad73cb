package server

import (
	"context"
	"sync"

	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// inSession reports whether a request belongs to the stream's session: it does
// not name its revision, as modern requests do, and there is a session, or it
// is one that may come before.
func (st *stream) inSession(req *protocol.Request) bool {
	if st.session == nil || revision.IsNamedIn(req.Params) {
		return false
	}
	switch req.Method {
	case protocol.MethodInitialize, protocol.MethodPing:
		return true
	}
	return st.session.Version() != ""
}

// tell sends a message that belongs to no request that could be cancelled.
func (st *stream) tell(ctx context.Context, m protocol.Message) error {
	line, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return st.send(ctx, outgoing{line: line})
}

// hearNoMore fails what the client is being asked: its answers cannot come.
func (st *stream) hearNoMore() {
	if st.session != nil {
		st.session.pushes.close()
	}
}

// hangUp ends the session.
func (st *stream) hangUp() {
	if st.session != nil {
		st.session.Close()
	}
}

// batch takes a line that holds several messages, which revision 2025-03-26
// has. The responses go out together when the last of them is there. It reports
// false for a line that is none.
func (st *stream) batch(ctx context.Context, line []byte) bool {
	if st.session == nil || st.session.Version() != protocol.V20250326 {
		return false
	}
	texts, is, err := protocol.DecodeBatch(line)
	if err != nil {
		st.respond(st.refuse(ctx, roundtrip.RefusedMalformed, protocol.ID{}, asError(err)))
	}
	if !is || err != nil {
		return is
	}
	replies := &replies{stream: st, due: 1} // this call's own
	broken := false                         // a message was none
	for _, text := range texts {
		message, err := protocol.DecodeMessage(text)
		if err != nil {
			response := unreadable(message, err)
			if !broken { // the batch may hold a great many
				st.refuse(ctx, roundtrip.RefusedMalformed, response.ID, response.Error)
			}
			broken = true
			replies.expect()
			replies.add(response)
			continue
		}
		if req, ok := message.(*protocol.Request); ok {
			replies.expect()
			if req.Method == protocol.MethodInitialize {
				replies.add(st.refuse(ctx, roundtrip.RefusedBatch, req.ID, protocol.Errorf(protocol.CodeInvalidRequest,
					"invalid request: initialize must not be part of a batch")))
				continue
			}
		}
		st.handle(ctx, message, replies.add)
	}
	replies.add(nil)
	return true
}

// replies are the responses to one batch.
type replies struct {
	stream *stream
	mu     sync.Mutex
	due    int
	list   []*protocol.Response
}

func (r *replies) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due++
}

func (r *replies) add(response *protocol.Response) {
	r.mu.Lock()
	r.list = append(r.list, response)
	r.due--
	last := r.due == 0
	r.mu.Unlock()
	if !last {
		return
	}
	if line := AppendBatch(nil, r.list); line != nil {
		_ = r.stream.send(context.Background(), outgoing{line: line})
	}
}
