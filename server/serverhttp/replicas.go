package serverhttp

import (
	"context"
	"errors"
	"net/http"
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

// Drain lets the sessions of this replica finish: it opens no more of them, serves those
// that are open, whichever replica their requests come through, and returns when the last
// has ended or when ctx ends, with the error of ctx. Requests of revision 2026-07-28 are
// served meanwhile. [Handler.Shutdown] should follow. The replicas that have spoken to this
// one go on to find it, even if the directory behind Locate of [Options].Replicas has forgotten it.
func (h *Handler) Drain(ctx context.Context) error {
	if h.forwarder != nil {
		h.forwarder.SetDraining()
	}
	select {
	case <-h.sessions.drainSessions():
		return nil
	case <-ctx.Done():
		return errPrefix.Errorf("drain: sessions are open: %w", context.Cause(ctx))
	}
}

var (
	errMisdirected = errors.New("another replica passed on a request that this one cannot take")
	errChangedBody = errors.New("the body is not the one that the other replica has passed on")
)
