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

// tell sends a message that belongs to no request that could be cancelled.
func (st *lineStream) sendUnrelated(ctx context.Context, m protocol.Message) error {
	line, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	return st.sendLine(ctx, outgoingLine{line: line})
}

// hearNoMore fails what the client is being asked: its answers cannot come.
func (st *lineStream) failPushes() {
	if st.session != nil {
		st.session.pushes.failPushes()
	}
}

// hangUp ends the session.
func (st *lineStream) closeSession() {
	if st.session != nil {
		st.session.Close()
	}
}

// batch takes a line that holds several messages, which revision 2025-03-26
// has. The responses go out together when the last of them is there. It reports
// false for a line that is none.
func (st *lineStream) receiveBatch(ctx context.Context, line []byte) bool {
	if st.session == nil || st.session.Version() != protocol.V20250326 {
		return false
	}
	texts, is, err := protocol.DecodeBatch(line)
	if err != nil {
		st.sendResponse(st.refuseLine(ctx, roundtrip.RefusedMalformed, protocol.ID{}, asError(err)))
	}
	if !is || err != nil {
		return is
	}
	replies := &batchReplies{stream: st, outstanding: 1} // this call's own
	broken := false                                      // a message was none
	for _, text := range texts {
		message, err := protocol.DecodeMessage(text)
		if err != nil {
			response := newUnreadableResponse(message, err)
			if !broken { // the batch may hold a great many
				st.refuseLine(ctx, roundtrip.RefusedMalformed, response.ID, response.Error)
			}
			broken = true
			replies.expectReply()
			replies.addReply(response)
			continue
		}
		if req, ok := message.(*protocol.Request); ok {
			replies.expectReply()
			if req.Method == protocol.MethodInitialize {
				replies.addReply(st.refuseLine(ctx, roundtrip.RefusedBatch, req.ID, protocol.Errorf(protocol.CodeInvalidRequest,
					"invalid request: initialize must not be part of a batch")))
				continue
			}
		}
		st.receiveMessage(ctx, message, replies.addReply)
	}
	replies.addReply(nil)
	return true
}

// replies are the responses to one batch.
type batchReplies struct {
	stream      *lineStream
	mu          sync.Mutex
	outstanding int
	list        []*protocol.Response
}

func (r *batchReplies) expectReply() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outstanding++
}

func (r *batchReplies) addReply(response *protocol.Response) {
	r.mu.Lock()
	r.list = append(r.list, response)
	r.outstanding--
	last := r.outstanding == 0
	r.mu.Unlock()
	if !last {
		return
	}
	if line := AppendBatch(nil, r.list); line != nil {
		_ = r.stream.sendLine(context.Background(), outgoingLine{line: line})
	}
}
