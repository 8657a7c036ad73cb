package elicitation

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// A URLRequest is what a URL policy is asked about.
type URLRequest struct {
	URL      string
	Upstream UpstreamKey
	Call     *Call
}

// DefaultURLPolicy allows https, and http to the client's own machine. URLs that
// carry a user name, have no host, are longer than 8 KiB or have characters that
// people read differently from programs are refused.
func DefaultURLPolicy(_ context.Context, visit URLRequest) error {
	_, err := urlrule.Check(visit.URL)
	return err
}

// checkURL checks a URL against the rule that no policy can lift, then against the
// policy of the options.
func (c *Call) checkURL(ctx context.Context, url string) *Error {
	_, err := urlrule.Parse(url)
	if err == nil {
		err = c.router.opts.URLPolicy(ctx, URLRequest{URL: url, Upstream: c.upstream, Call: c})
	}
	if err == nil {
		return nil
	}
	wire := protocol.Errorf(protocol.CodeInvalidParams,
		"Invalid elicitation request: the URL is not allowed")
	return &Error{Reason: ReasonURLPolicy, Wire: wire, Err: err}
}

// A urlElicitation is a URL that a client has been sent to, or is being asked to visit.
// The upstream may notify later that the person is done there. Like ids of requests,
// the elicitationId is replaced by one of the router's, since upstreams choose theirs
// independently of each other.
//
// It begins with urlElicitationFor, which stores nothing, and is in the tables of the
// router and of the session from rememberURLLocked to forgetURLLocked.
type urlElicitation struct {
	key      urlKey
	session  *Session
	clientID string // the elicitationId that the client gets

	// Guarded by router.mu.
	call    *Call // nil: it has ended
	expires time.Time
	shared  bool // another session was sent there with the same id of the upstream's
}

type urlKey struct {
	upstream UpstreamKey
	id       string // the upstream's elicitationId
}

const (
	// maxURLsPerSession is how many URL elicitations of one session are remembered;
	// beyond it the oldest is forgotten. People are sent to one at a time.
	maxURLsPerSession = 64
	// urlTTL is how long one is remembered: longer than sign-in pages live.
	urlTTL = time.Hour
)

// urlElicitationFor returns the URL elicitation of a call's session with the upstream's
// id, a new one if there is none. On a connection without a key completions cannot be
// told apart at all, so that nothing is remembered for it, and each elicitation is a
// new one.
func (r *Router) urlElicitationFor(c *Call, id string) *urlElicitation {
	s, key := c.origin.Session, urlKey{c.upstream, id}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.urls[key]
	if known != nil && known.session == s && !time.Now().After(known.expires) {
		return known
	}
	return &urlElicitation{key: key, session: s, call: c, clientID: newID()}
}

// rememberURLLocked stores a URL elicitation, and starts its time anew when it is stored
// already. An id that another session has is shared from then on: servers exist that use
// one for everybody. The person is asked all the same, but nobody is told of a
// completion, since it may be that of the other.
func (r *Router) rememberURLLocked(u *urlElicitation) {
	if u.key.upstream == "" {
		return
	}
	now, old := time.Now(), r.urls[u.key]
	u.expires = now.Add(urlTTL)
	if old == u {
		return
	}
	if old != nil {
		u.shared = now.Before(old.expires) && (old.shared || old.session != u.session)
		r.forgetURLLocked(old)
	}
	urls := u.session.urls
	if urls.Full() {
		oldest, _ := urls.Oldest()
		r.forgetURLLocked(oldest)
	}
	r.urls[u.key] = u
	urls.Put(u.key, u)
}

// forgetURLLocked undoes rememberURLLocked. It does nothing for a URL elicitation that
// is not stored.
func (r *Router) forgetURLLocked(u *urlElicitation) {
	if r.urls[u.key] != u {
		return
	}
	delete(r.urls, u.key)
	u.session.urls.Delete(u.key)
}

func (r *Router) forgetAllURLs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.urls {
		r.forgetURLLocked(u)
	}
}

// mayVisit reports whether the person may be at the URL: the client showed it, and the
// person accepted.
func (out outcome) mayVisit() bool {
	return out.result != nil && out.result.Action == protocol.ActionAccept
}

// HandleURLCompletion takes a notifications/elicitation/complete that an
// upstream sent on a connection. It is passed on, with the id that the client
// knows, to the one session that got that URL, and to nobody else: on
// SessionInfo.Notify, else on the stream of the call while it lasts. Accepted
// means that the transport took it; an error, with Expired, that it did not.
// A completion counts once: the URL elicitation is forgotten.
//
// The client is one of this router, where the connection of the upstream is. What no client
// waits for is Unknown, and reported as elicitation.completion_dropped; so is one with an id with
// which the upstream sent two sessions to a URL.
func (r *Router) HandleURLCompletion(
	ctx context.Context, upstream UpstreamKey, elicitationID string,
) (Disposition, error) {
	r.mu.Lock()
	u := r.urls[urlKey{upstream, elicitationID}]
	if u == nil || u.shared {
		r.mu.Unlock()
		if r.recordsEvents() {
			r.emitEvent(ctx, &questionEvent{Kind: eventCompletionDropped, Upstream: upstream})
		}
		return Unknown, nil
	}
	expired := time.Now().After(u.expires)
	frames := u.session.info.Notify
	if u.call != nil && !u.call.over {
		if d, ok := u.call.via.asker.(FrameDeliverer); ok {
			frames = d
		} else if frames == nil {
			frames = u.call.via.frames
		}
	}
	r.forgetURLLocked(u)
	r.mu.Unlock()
	switch {
	case expired:
		return Expired, nil
	case frames == nil:
		return Expired, fmt.Errorf(
			"elicitation: URL completion: the session has no stream: %w", ReasonDelivery)
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	err := deliver(ctx, frames, protocol.NotifyElicitationCompleted,
		protocol.ElicitationCompleted{ElicitationID: u.clientID})
	if err != nil {
		return Expired, fmt.Errorf(
			"elicitation: URL completion: %w: %w", ReasonDelivery, err)
	}
	return Accepted, nil
}
