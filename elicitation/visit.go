package elicitation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A urlElicitation is a URL that a client has been sent to, or is being asked to go to.
// The upstream may say later that the person is done there. Like ids of
// requests, the elicitationId is replaced by one of the router's, since
// upstreams choose theirs without knowing of each other.
type urlElicitation struct {
	key      urlKey
	session  *Session
	call     *Call
	clientID string
	expires  time.Time
	kept     bool
	claimed  bool
}

type urlKey struct {
	upstream UpstreamKey
	id       string // the upstream's
}

const (
	// maxVisits is how many visits of one session are remembered; beyond it the
	// oldest is forgotten. People are sent to one at a time.
	maxURLsPerSession = 64
	// visitTTL is how long a visit is remembered: longer than sign-in pages live.
	urlTTL = time.Hour
)

// urlElicitationFor returns the visit with the upstream's id for a session. An id that
// another session has is refused: whom its completion is for could not be told.
// On a connection without a key no completion can be told from another's, so that
// nothing is remembered.
func (r *Router) urlElicitationFor(s *Session, c *Call, id string) (*urlElicitation, *Error) {
	key := urlKey{c.upstream, id}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.urls[key]
	switch {
	case known == nil || time.Now().After(known.expires): // with an empty key always
		return &urlElicitation{key: key, session: s, call: c, clientID: newID()}, nil
	case known.session != s:
		return nil, urlTakenError()
	}
	return known, nil
}

// rememberURLLocked remembers a visit. r.mu is held.
func (r *Router) rememberURLLocked(v *urlElicitation) *Error {
	if v.key.upstream == "" {
		return nil
	}
	now := time.Now()
	if old := r.urls[v.key]; old != nil && old != v {
		if old.session != v.session && now.Before(old.expires) {
			return urlTakenError()
		}
		old.claimed = false // v has the same key, and claimed it
		r.forgetURLLocked(old)
	}
	v.expires = now.Add(urlTTL)
	if v.kept {
		return nil
	}
	s := v.session
	if len(s.urls) >= maxURLsPerSession {
		r.forgetURLLocked(s.urls[0])
	}
	v.kept = true
	r.urls[v.key] = v
	s.urls = append(s.urls, v)
	return nil
}

func urlTakenError() *Error {
	return invalidQuestionError(ReasonInvalidQuestion, errors.New("elicitationId is in use"))
}

// forgetURLLocked undoes keepVisit. r.mu is held.
func (r *Router) forgetURLLocked(v *urlElicitation) {
	if !v.kept {
		return
	}
	v.kept = false
	delete(r.urls, v.key)
	v.session.urls = slices.DeleteFunc(v.session.urls, func(other *urlElicitation) bool { return other == v })
	if v.claimed {
		r.opts.Bus.Release(v.key.busKey()) // returns at once
	}
}

// mayVisit tells whether the person may be at the URL: it was shown, and not
// refused.
func (end outcome) mayVisit() bool {
	return end.result != nil && end.result.Action == protocol.ActionAccept
}

// claimURL tells other replicas where the completion of a visit belongs. v is
// still known to its maker alone, or claimed.
func (r *Router) claimURL(ctx context.Context, v *urlElicitation) error {
	if r.opts.Bus == nil || v == nil || v.key.upstream == "" {
		return nil
	}
	r.mu.Lock()
	claimed := v.claimed
	r.mu.Unlock()
	if claimed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	if err := r.opts.Bus.Claim(ctx, v.key.busKey(), urlTTL); err != nil {
		return err
	}
	r.mu.Lock()
	v.claimed = true
	r.mu.Unlock()
	return nil
}

// releaseUnusedClaimLocked frees the claim of a visit that is not kept after all, unless one
// that is kept needs it. r.mu is held.
func (r *Router) releaseUnusedClaimLocked(v *urlElicitation) {
	if v.claimed && !v.kept && r.urls[v.key] == nil {
		v.claimed = false
		r.opts.Bus.Release(v.key.busKey()) // returns at once
	}
}

func (r *Router) forgetAllURLs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.urls {
		r.forgetURLLocked(v)
	}
}

// ElicitationCompleted hands in a notifications/elicitation/complete that an
// upstream sent on a connection. It is passed on, with the id that the client
// knows, to the one session that got that URL, and to nobody else: on
// SessionInfo.Notify, else on the stream of the call while it lasts. Accepted
// means that the transport took it; an error, with Expired, that it did not.
//
// On a [Bus] the replica that asked is found as well, when its connection has
// the same key.
func (r *Router) ElicitationCompleted(ctx context.Context, upstream UpstreamKey, elicitationID string) (Disposition, error) {
	key := urlKey{upstream, elicitationID}
	d, err := r.completeURLLocally(ctx, key)
	if d != Unknown || r.opts.Bus == nil || upstream == "" {
		return d, err
	}
	a, err := r.sendToOwner(ctx, key.busKey(), busMessage{Do: "visited", Upstream: upstream, Visit: elicitationID})
	if err == nil && a.Failed != "" {
		err = fmt.Errorf("elicitation: completion of a visit: %w", ErrDelivery)
	}
	return a.Disposition, err
}

func (r *Router) completeURLLocally(ctx context.Context, key urlKey) (Disposition, error) {
	r.mu.Lock()
	v := r.urls[key]
	if v == nil {
		r.mu.Unlock()
		return Unknown, nil
	}
	expired := time.Now().After(v.expires)
	over := v.call.over
	r.forgetURLLocked(v)
	r.mu.Unlock()
	if expired {
		return Expired, nil
	}
	to := v.session.info.Notify
	if to == nil && !over {
		to = v.call.via.frames
	}
	if to == nil {
		return Expired, fmt.Errorf("elicitation: completion of a visit: %w: the session has no stream", ErrDelivery)
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.DeliveryTimeout)
	defer cancel()
	params, err := jsonx.Encode(protocol.ElicitationCompleted{ElicitationID: v.clientID})
	if err == nil {
		n := &protocol.Notification{Method: protocol.NotifyElicitationCompleted, Params: params}
		err = recoverToError(func() error { return to.Deliver(ctx, n) })
	}
	if err != nil {
		return Expired, fmt.Errorf("elicitation: completion of a visit: %w", errors.Join(ErrDelivery, err))
	}
	return Accepted, nil
}
