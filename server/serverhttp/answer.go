package serverhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	// answerTime limits the attempts to deliver an answer to an owner that does not accept it.
	answerTime = 5 * time.Minute
	// maxAnswerBytes bounds all answers in flight, maxAnswerBytesPerPrincipal those of one
	// principal: one of the largest bodies and 64 small ones. Each costs answerCost in addition.
	maxAnswerBytes             = 64 << 20
	maxAnswerBytesPerPrincipal = defaultMaxBodyBytes + 64*answerCost
	answerCost                 = 4 << 10
)

// isAnswer reports whether the post is the answer to a question and nothing else. The session
// takes no second copy of it. d may be nil.
func (d *legacyPost) isAnswer() bool {
	if d == nil || d.batch || len(d.others) != 1 {
		return false
	}
	_, ok := d.others[0].(*protocol.Response)
	return ok
}

// forwardAnswer forwards an answer. If the owner hangs, the client gets 202, and the delivery is
// retried.
func (h *Handler) forwardAnswer(rw *responseWriter, r *http.Request, p protocol.Principal,
	owner hophttp.Owner, d *legacyPost) {
	task := new(inflight.Request)
	ctx, ok := h.beginRequest(context.WithoutCancel(r.Context()), task, nil)
	if !ok {
		rw.refuseRequest(shutdownFault())
		return
	}
	var last event.RequestForwarded
	delivery := hophttp.NewDelivery(func(w http.ResponseWriter, r *http.Request,
		owner hophttp.Owner, body []byte) (event.RequestForwarded, bool) {
		e, broken := h.forwarder.Forward(w, r, owner, body, 0)
		h.srv.Report(r.Context(), e)
		last = e
		return e, broken
	}, r, owner, d.body)
	size := int64(answerCost + delivery.Size())
	limit, patience := answerTime, time.After(ownerPatience)
	refused := h.answers.Take(p, size)
	if refused != quota.None {
		limit, patience = ownerPatience, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer h.endRequest(task)
		defer cancel()
		_ = delivery.Send(ctx) // last says why it failed
		if refused == quota.None {
			h.answers.Give(p, size)
		}
	}()
	select {
	case <-patience:
		rw.w.WriteHeader(http.StatusAccepted)
	case <-ended:
		if delivery.WriteResponse(rw.w) {
			return
		}
		if refused != quota.None && last.Outcome == words.ForwardAbandoned {
			last.Outcome = words.ForwardUnreachable // it was not waited for
		}
		rw.refuseRequest(forwardFault(last))
	}
}
