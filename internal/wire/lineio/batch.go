package lineio

import (
	"context"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// receiveBatch handles a line with several messages, allowed in revision 2025-03-26. The responses
// are sent together after the last request. It reports false if line is not a batch.
func (s *Server) receiveBatch(ctx context.Context, line []byte) bool {
	if !s.peer.AllowsBatches() {
		return false
	}
	texts, is, err := protocol.DecodeBatch(line)
	if err != nil {
		s.sendResponse(s.refuseLine(ctx, words.RefusedMalformed, protocol.ID{},
			rules.PublicError(err)))
	}
	if !is || err != nil {
		return is
	}
	replies := &batchReplies{server: s, outstanding: 1} // including this call
	broken := false                                     // a message was invalid
	for _, text := range texts {
		message, err := protocol.DecodeMessage(text)
		if err != nil {
			response, answers := s.newUnreadableResponse(message, err)
			if !broken { // report only one: the batch may be large
				s.refuseLine(ctx, words.RefusedMalformed, response.ID, response.Error)
			}
			broken = true
			if answers {
				replies.expectReply()
				replies.addReply(response)
			}
			continue
		}
		if req, ok := message.(*protocol.Request); ok {
			replies.expectReply()
			if req.Method == protocol.MethodInitialize {
				replies.addReply(s.refuseLine(ctx, words.RefusedBatch, req.ID,
					protocol.Errorf(protocol.CodeInvalidRequest,
						"invalid request: initialize must not be part of a batch")))
				continue
			}
		}
		s.receiveMessage(ctx, message, replies.addReply)
	}
	replies.addReply(nil)
	return true
}

type batchReplies struct {
	server      *Server
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
	if line := appendBatch(nil, r.list); line != nil {
		_ = r.server.sendLine(context.Background(), line, nil)
	}
}

// appendBatch appends the response to a batch (2025-03-26 basic/index, "Batching"): an array of the
// responses in the order given. Nil entries are requests without an answer; if all are nil, nothing
// is appended. A response that cannot be encoded becomes an internal error.
func appendBatch(dst []byte, responses []*protocol.Response) []byte {
	some := false
	for _, r := range responses {
		if r == nil {
			continue
		}
		sep := byte(',')
		if !some {
			sep, some = '[', true
		}
		dst = rules.AppendResponse(append(dst, sep), r)
	}
	if some {
		dst = append(dst, ']')
	}
	return dst
}
