package serverhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// findOrForward returns the session that a request names, which must be released. It
// returns nil when the request has been answered: it was refused, or passed on to the
// replica that owns the session.
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
	errUnreadableSession = errors.New("no key of this process opens Mcp-Session-Id: another " +
		"replica has other keys (replicas.Options.Keys), the key is not there any more, " +
		"or the client made the id up; the client initializes again")
	errFormerSession = errors.New("Mcp-Session-Id is from before this replica started again; " +
		"the client initializes again")
)

// forwardRequest passes a request on to the owner of its session. A request that was passed on
// to this replica is not passed on again.
func (h *Handler) forwardRequest(rw *responseWriter, r *http.Request, p protocol.Principal,
	owner hophttp.Owner, d *legacyPost) {
	if rw.received != nil {
		rw.refuseRequest(misdirectedFault(http.StatusLoopDetected).withRequestID(d))
		return
	}
	if r.Method == http.MethodGet {
		rw.task.DrainCause = ErrShutdown // the client resumes it through another replica
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

// sendToOwner passes r on and its response to the client. It reports false where there is none and
// the client waits for one. patience is that of Forward.
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

// unreachableRetry is when a client may come back whose owner cannot be reached.
const unreachableRetry = 2 * time.Second

// forwardFault is what a client gets in the place of the owner's response. 404 makes it
// start anew, so it is sent only where the owner has surely not received the request:
// what it asked for could be done twice otherwise.
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

// misdirectedFault is the fault of a replica that passed on what is not for this one.
func misdirectedFault(status int) *fault {
	return &fault{status: status, reason: words.RefusedMisdirected, cause: errMisdirected,
		err: hophttp.ErrorMisdirected()}
}

var (
	errMisdirected = errors.New("another replica passed on a request that this one cannot take")
	errChangedBody = errors.New("the body is not the one that the other replica has passed on")
)

// receiveFromReplica answers other replicas, and takes in what they pass on. It reports
// false for a request that is to be served. What clients send in headers that are meant for
// replicas is removed.
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

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It is for hosts that authenticate in
// a handler around h, which would refuse a challenge: put it around that handler.
func (h *Handler) AnswerChallenges(next http.Handler) http.Handler {
	return h.forwarder.AnswerChallenges(next)
}

// A forwardWriter passes the response of the owner on. The client must take each piece
// within the write timeout.
type forwardWriter struct {
	http.ResponseWriter
	rw *responseWriter
}

// WriteHeader implements [http.ResponseWriter].
func (w *forwardWriter) WriteHeader(status int) {
	w.rw.mu.Lock()
	w.rw.streaming = true // the response has begun
	w.rw.mu.Unlock()
	w.rw.extendWriteDeadline()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *forwardWriter) Write(p []byte) (int, error) {
	w.rw.extendWriteDeadline()
	return w.ResponseWriter.Write(p)
}

// FlushError serves [http.ResponseController].
func (w *forwardWriter) FlushError() error {
	w.rw.extendWriteDeadline()
	return http.NewResponseController(w.ResponseWriter).Flush()
}
