package serverhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// findOrForward returns a request's session, to be released, or nil after refusing or forwarding.
func (h *Handler) findOrForward(rw *responseWriter, r *http.Request, p protocol.Principal,
	d *legacyPost) *session {
	ids := r.Header[headerSession]
	s, f := h.findSession(ids, p)
	if f == nil {
		return s
	}
	if f.reason == words.RefusedSessionGone && h.forwarder == nil {
		f.cause = errUnknownSession
	} else if f.reason == words.RefusedSessionGone {
		owner, _ := h.forwarder.FindOwner(ids[0])
		switch self := h.forwarder.Self(); {
		case owner.Name == "":
			f.cause = errUnreadableSession
		case owner.Name != self.Name:
			h.forwardRequest(rw, r, p, owner, d)
			return nil
		case owner != self:
			f.cause = errFormerSession
		}
	}
	rw.refuseRequest(f.withRequestID(d))
	return nil
}

// Causes of "Session not found": without replicas, and for ids of replicas.
var (
	errUnknownSession = errors.New("Mcp-Session-Id names no session of this principal in this " +
		"process: it has expired (serverhttp.Options.SessionTimeout), was deleted, belongs to " +
		"somebody else, or to another replica, which serverhttp.Options.Replicas is not set to " +
		"reach; the client initializes again")
	errUnreadableSession = errors.New("no key of this process decrypts Mcp-Session-Id: another " +
		"replica has different keys (replicas.Options.Keys), the key was removed, " +
		"or the id is forged; the client initializes again")
	errFormerSession = errors.New("Mcp-Session-Id is from before this replica started again; " +
		"the client initializes again")
)

// forwardRequest forwards a request to its session's owner, unless it was already forwarded.
func (h *Handler) forwardRequest(rw *responseWriter, r *http.Request, p protocol.Principal,
	owner hophttp.Owner, d *legacyPost) {
	if rw.received != nil {
		rw.refuseRequest(misdirectedFault(http.StatusLoopDetected).withRequestID(d))
		return
	}
	if r.Method == http.MethodGet {
		rw.task.DrainCause = ErrShutdown // the client resumes through another replica
	}
	if d.isAnswer() {
		h.forwardAnswer(rw, r, p, owner, d)
		return
	}
	ctx, ok := h.beginRequest(r.Context(), &rw.task, nil)
	if !ok {
		rw.refuseRequest(shutdownFault().withRequestID(d))
		return
	}
	defer h.endRequest(&rw.task)
	if e, answered := h.sendToOwner(rw, r.WithContext(ctx), owner, d.body, 0); !answered {
		rw.refuseRequest(forwardFault(e).withRequestID(d))
	}
}

// sendToOwner forwards r to the owner, and the response to the client. It reports false if the
// client still needs a response. patience is as in Forward.
func (h *Handler) sendToOwner(rw *responseWriter, r *http.Request, owner hophttp.Owner,
	body []byte, patience time.Duration) (e event.RequestForwarded, answered bool) {
	e, broken := h.forwarder.Forward(&forwardWriter{rw.w, rw}, r, owner, body, patience)
	h.srv.Report(r.Context(), e) // the owner reports the request
	switch {
	case broken:
		panic(http.ErrAbortHandler)
	case e.Status != 0:
		return e, true
	case errors.Is(rw.r.Context().Err(), context.Canceled):
		rw.abandonClient()
		return e, true
	}
	return e, false
}

const unreachableRetry = 2 * time.Second // Retry-After for an unreachable owner

// forwardFault replaces the owner's response. After 404 the client starts over, so 404 is sent only
// if the owner cannot have received the request, which might otherwise run twice.
func forwardFault(e event.RequestForwarded) *fault {
	var f *fault
	switch e.Outcome {
	case words.ForwardGone:
		f = sessionGoneFault()
	case words.ForwardUnknown:
		f = &fault{status: http.StatusBadGateway, reason: words.RefusedOutcomeUnknown,
			err: hophttp.ErrorOutcomeUnknown()}
	case words.ForwardUnreachable:
		f = busyFault(http.StatusServiceUnavailable, words.RefusedUnreachable, quota.None,
			unreachableRetry, "the replica that serves this session cannot be reached, and has not "+
				"received the request")
	default:
		return shutdownFault()
	}
	f.cause = fmt.Errorf("replica %q: %w", e.Owner, e.Err)
	return f
}

// misdirectedFault is the fault for a request that another replica forwarded wrongly.
func misdirectedFault(status int) *fault {
	return &fault{status: status, reason: words.RefusedMisdirected, cause: errMisdirected,
		err: hophttp.ErrorMisdirected()}
}

var (
	errMisdirected = errors.New("another replica forwarded a request that this one cannot serve")
	errChangedBody = errors.New("the body differs from the one that the other replica forwarded")
)

// receiveFromReplica answers other replicas and reads their forwarding headers; such headers from
// clients are removed. It reports false for a request to be served.
func (h *Handler) receiveFromReplica(rw *responseWriter, r *http.Request) (answered bool) {
	if h.forwarder.AnswerChallenge(rw.w, r) {
		return true
	}
	rw.received, answered = h.forwarder.Receive(rw.w, r)
	if answered {
		rw.h.reportRefusal(r, misdirectedFault(http.StatusMisdirectedRequest))
	}
	return answered
}

// AnswerChallenges returns a handler that answers the challenges of other replicas and passes other
// requests to next, a handler that authenticates in front of h and would refuse a challenge.
func (h *Handler) AnswerChallenges(next http.Handler) http.Handler {
	return h.forwarder.AnswerChallenges(next)
}

// A forwardWriter forwards the owner's response, with the write timeout for each piece.
type forwardWriter struct {
	http.ResponseWriter
	rw *responseWriter
}

func (w *forwardWriter) WriteHeader(status int) {
	w.rw.mu.Lock()
	w.rw.streaming = true // the response has begun
	w.rw.mu.Unlock()
	w.rw.extendWriteDeadline()
	w.ResponseWriter.WriteHeader(status)
}

func (w *forwardWriter) Write(p []byte) (int, error) {
	w.rw.extendWriteDeadline()
	return w.ResponseWriter.Write(p)
}

// FlushError implements flushing for [http.ResponseController].
func (w *forwardWriter) FlushError() error {
	w.rw.extendWriteDeadline()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

const (
	answerTime = 5 * time.Minute // for delivering an answer to a hanging owner
	// maxAnswerBytes limits all answers in flight, maxAnswerBytesPerPrincipal those of one
	// principal: one of the largest bodies and 64 small ones. Each adds answerCost.
	maxAnswerBytes             = 64 << 20
	maxAnswerBytesPerPrincipal = defaultMaxBodyBytes + 64*answerCost
	answerCost                 = 4 << 10
)

// isAnswer reports whether the post, which may be nil, is only the answer to a question.
func (d *legacyPost) isAnswer() bool {
	if d == nil || d.batch || len(d.others) != 1 {
		return false
	}
	_, ok := d.others[0].(*protocol.Response)
	return ok
}

// forwardAnswer forwards an answer. If the owner hangs, it responds 202 and retries.
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
		_ = delivery.Send(ctx) // last has the reason
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
			last.Outcome = words.ForwardUnreachable // delivery was cut short
		}
		rw.refuseRequest(forwardFault(last))
	}
}

// OwnerToken returns this replica's token for OwnerOf of [Options], empty without Replicas.
func (h *Handler) OwnerToken() string {
	if h.forwarder == nil {
		return ""
	}
	return h.forwarder.SealSession("owner")
}

// forwardToOwner forwards a request to the replica of OwnerOf. It reports false if the request is
// to be served here, even if the owner is certainly gone: the handler then refuses the request.
func (h *Handler) forwardToOwner(
	rw *responseWriter, r *http.Request, p protocol.Principal, request *protocol.Request,
	body []byte,
) bool {
	if h.opts.OwnerOf == nil || h.forwarder == nil || rw.received != nil {
		return false
	}
	token := h.ownerToken(r.Context(), p, request)
	owner, _ := h.forwarder.FindOwner(token)
	if self := h.forwarder.Self(); owner.Name == "" || owner.Name == self.Name {
		return false
	}
	var task inflight.Request // rw.task may still serve the request here
	ctx, ok := h.beginRequest(r.Context(), &task, nil)
	if !ok {
		rw.refuseRequest(shutdownFault())
		return true
	}
	defer h.endRequest(&task)
	hop := r.Clone(ctx)
	hop.Header[headerSession] = []string{token} // binds the hop to the owner, without a session
	e, answered := h.sendToOwner(rw, hop, owner, body, ownerPatience)
	if answered {
		return true
	}
	if hophttp.IsDead(e.Err) {
		return false
	}
	rw.refuseRequest(ownerFault(request, e))
	return true
}

// ownerPatience limits an owner's silence, below the two seconds that are documented.
const ownerPatience = 1500 * time.Millisecond

func (h *Handler) ownerToken(
	ctx context.Context, principal protocol.Principal, request *protocol.Request,
) string {
	if !protocol.MultiRoundTrip(request.Method) ||
		!bytes.Contains(request.Params, []byte(`"requestState"`)) {
		return ""
	}
	params, err := protocol.DecodeParams(request.Method, request.Params)
	if err != nil {
		return ""
	}
	retry := protocol.RetryOf(params)
	if retry == nil {
		return ""
	}
	text, _ := retry.RequestState.Text()
	if text == "" {
		return ""
	}
	return h.opts.OwnerOf(ctx, principal, text)
}

// ownerFault is sent if the owner did not respond. The state stays valid for a retry.
func ownerFault(request *protocol.Request, e event.RequestForwarded) *fault {
	f := busyFault(http.StatusServiceUnavailable, words.RefusedUnreachable, quota.None,
		unreachableRetry, "the replica that runs this call cannot be reached: send the request again")
	f.id = request.ID
	f.cause = fmt.Errorf("replica %q: %w", e.Owner, e.Err)
	return f
}
