package lineio

import (
	"context"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// receiveBatch handles a line that holds several messages, which revision
// 2025-03-26 allows. The responses go out together when the last request has been
// served. It reports false for a line that is no batch.
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
	replies := &batchReplies{server: s, outstanding: 1} // this call's own
	broken := false                                     // a message was none
	for _, text := range texts {
		message, err := protocol.DecodeMessage(text)
		if err != nil {
			response, answers := s.newUnreadableResponse(message, err)
			if !broken { // the batch may hold a great many
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

// batchReplies collects the responses to one batch.
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

// appendBatch appends the JSON text of the answer to a batch (2025-03-26 basic/index, "Batching")
// to dst: an array of the responses in the order given, which need not be that of the requests. Nil
// entries, for requests that are not answered, are left out. Without any response nothing is
// appended, for such a batch is not answered. A response that cannot be written is replaced by an
// internal error.
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
