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
	// answerTime is how long the answer to a question is sent to an owner that does not take it.
	answerTime = 5 * time.Minute
	// maxAnswerBytes is how much the answers are together that are on their way, and
	// maxAnswerBytesPerPrincipal those of one principal: one of the largest bodies beside 64 small
	// ones. Each counts answerCost beside what it keeps.
	maxAnswerBytes             = 64 << 20
	maxAnswerBytesPerPrincipal = defaultMaxBodyBytes + 64*answerCost
	answerCost                 = 4 << 10
)

func newAnswerQuota() *quota.Pool[protocol.Principal] {
	return quota.New(quota.Options[protocol.Principal]{Total: maxAnswerBytes,
		Share: maxAnswerBytesPerPrincipal, Local: protocol.LocalPrincipal()})
}

// isAnswer reports whether the post is the answer to a question and nothing else. The session
// takes no second copy of it. d may be nil.
func (d *legacyPost) isAnswer() bool {
	if d == nil || d.batch || len(d.others) != 1 {
		return false
	}
	_, ok := d.others[0].(*protocol.Response)
	return ok
}

// forwardAnswer passes an answer on. The client does not wait for an owner that is stopped, or cut
// off: it gets 202, and the answer is sent until the owner has it.
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
