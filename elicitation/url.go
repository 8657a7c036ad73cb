package elicitation

import (
	"context"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/protocol"
)

// A URLRequest is the argument of a URL policy.
type URLRequest struct {
	URL      string
	Upstream UpstreamKey
	Call     *Call
}

// DefaultURLPolicy allows https, and http to the client's own machine. It refuses URLs with a user
// name, without a host, of more than 8 KiB, or with misleading characters.
func DefaultURLPolicy(_ context.Context, visit URLRequest) error {
	_, err := urlrule.Check(visit.URL)
	return err
}

// checkURL checks a URL against the fixed rules, then the configured policy.
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

// A urlElicitation is a URL that a client was asked to visit. It lives until the upstream can no
// longer report the visit complete. The router replaces the elicitationId, because upstreams choose
// theirs independently. Router and session list it from rememberURLLocked to forgetURLLocked.
type urlElicitation struct {
	key      urlKey
	session  *Session
	clientID string // the elicitationId that the client gets

	// Guarded by router.mu.
	call    *Call // nil after its end
	expires time.Time
	shared  bool // another session was sent there with the same upstream id
}

type urlKey struct {
	upstream UpstreamKey
	id       string // the upstream's elicitationId
}

const (
	maxURLsPerSession = 64        // per session; the oldest is evicted
	urlTTL            = time.Hour // longer than sign-in pages live
)

// urlElicitationFor returns the URL elicitation with the upstream's id, or a new, unstored one.
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

// rememberURLLocked stores a URL elicitation or restarts its time. An id that another session has
// is shared from then on: some servers use one id for everybody. The user is asked, but completions
// are dropped, because they may belong to the other session.
func (r *Router) rememberURLLocked(u *urlElicitation) {
	if u.key.upstream == "" { // completions on it cannot be told apart
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

func (r *Router) forgetURLLocked(u *urlElicitation) {
	if r.urls[u.key] == u {
		delete(r.urls, u.key)
		u.session.urls.Delete(u.key)
	}
}

// HandleURLCompletion takes an upstream's notifications/elicitation/complete. The notification is
// passed on once, with the client's id, only to the session that got that URL: on
// SessionInfo.Notify, or on the stream of the call while it lasts. Accepted means that the
// transport accepted it; Expired, with an error, that it did not.
//
// A completion that no client of this router waits for, or with an id that the upstream used for
// two sessions, is Unknown and reported as elicitation.completion_dropped.
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
		return Expired, fmt.Errorf("elicitation: URL completion: %w: %w", ReasonDelivery, err)
	}
	return Accepted, nil
}
