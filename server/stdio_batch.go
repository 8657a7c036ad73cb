package server

import (
	"context"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// receiveBatch handles a line that holds several messages, which revision
// 2025-03-26 allows. The responses go out together when the last request has been
// served. It reports false for a line that is no batch.
func (st *lineStream) receiveBatch(ctx context.Context, line []byte) bool {
	if st.session == nil || st.session.Version() != protocol.V20250326 {
		return false
	}
	texts, is, err := protocol.DecodeBatch(line)
	if err != nil {
		st.sendResponse(st.refuseLine(ctx, event.RefusedMalformed, protocol.ID{}, asError(err)))
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
				st.refuseLine(ctx, event.RefusedMalformed, response.ID, response.Error)
			}
			broken = true
			replies.expectReply()
			replies.addReply(response)
			continue
		}
		if req, ok := message.(*protocol.Request); ok {
			replies.expectReply()
			if req.Method == protocol.MethodInitialize {
				replies.addReply(st.refuseLine(ctx, event.RefusedBatch, req.ID,
					protocol.Errorf(protocol.CodeInvalidRequest,
						"invalid request: initialize must not be part of a batch")))
				continue
			}
		}
		st.receiveMessage(ctx, message, replies.addReply)
	}
	replies.addReply(nil)
	return true
}

// batchReplies collects the responses to one batch.
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
