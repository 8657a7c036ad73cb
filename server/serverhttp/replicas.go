package serverhttp

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"

	"github.com/rondo-mcp/rondo/internal/replicahttp"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Replicas let several processes serve the clients of one endpoint behind a balancer that
// knows nothing of sessions. The id of a session then names its owner, sealed. A replica
// that gets a request for a session of another authenticates the caller and passes the
// request on, and the owner authenticates the caller again. See "Several replicas" in the
// documentation of the package.
type Replicas struct {
	// Name is the name of this replica: a DNS label, 1 to 63 lower-case letters, digits
	// and inner hyphens. No two replicas that run may share one. A replica that starts
	// again under its name is another owner: it has none of the earlier sessions.
	Name string
	// Keys is the keyring that all replicas share, usually the Sealer of the server. What
	// replicas say to each other is sealed under keys that are derived from it, for this
	// alone. Keep an older key until the sessions have ended that it sealed the ids of. Nil,
	// or a keyring of this process alone: nothing is passed on, and sessions have the ids
	// that they have without Replicas.
	Keys *keys.Keyring
	// Locate returns the URL of the endpoint of the replica with a name, http or https, and
	// an error that wraps [ErrUnknownReplica] for a name that no replica has: requests for
	// its sessions get 404 then, so it must know every replica that runs.
	// [LocateByList] and [LocateByPattern] make such functions. No part of the URL
	// comes from a client. It is called when nothing has come from a replica for a
	// minute, calls may overlap, and its context ends after three seconds. Nil: as with
	// Keys.
	Locate func(ctx context.Context, name string) (*url.URL, error)
	// TLS configures the connections to https URLs. Nil: the certificates of the system.
	TLS *tls.Config
}

// ErrUnknownReplica is what [Replicas].Locate returns for a name that no replica has. The
// sessions of such a replica are gone.
var ErrUnknownReplica = replicahttp.ErrUnknownReplica

// LocateByList returns a function for [Replicas].Locate that knows the replicas of a list:
// URLs by name.
func LocateByList(urls map[string]string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	locate, err := replicahttp.LocateByList(urls)
	if err != nil {
		return nil, errPrefix.Errorf("LocateByList: %w", err)
	}
	return locate, nil
}

// LocateByPattern returns a function for [Replicas].Locate that puts the name of a replica
// in the place of {name} in the host of a URL, for replicas that have names of their own in
// the DNS, as those of a StatefulSet of Kubernetes with a headless service have:
//
//	http://{name}.everything.default.svc.cluster.local:8080/mcp
func LocateByPattern(pattern string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	locate, err := replicahttp.LocateByPattern(pattern)
	if err != nil {
		return nil, errPrefix.Errorf("LocateByPattern: %w", err)
	}
	return locate, nil
}

// newForwarder returns nil where nothing is passed on.
func (o *Replicas) newForwarder() (*replicahttp.Forwarder, error) {
	return replicahttp.NewFromConfig((*replicahttp.Config)(o))
}

// newSessionID returns the id of a session of this replica.
func newSessionID(f *replicahttp.Forwarder) string {
	id, err := f.SealSession(rand.Text()) // 130 bits
	if err != nil {
		panic("serverhttp: internal error: " + err.Error()) // a keyring never fails to seal
	}
	return id
}

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
	if h.forwarder == nil {
		return next
	}
	return h.forwarder.AnswerChallenges(next)
}

// Drain lets the sessions of this replica finish: it opens no more of them, serves those
// that are open, whichever replica their requests come through, and returns when the last
// has ended or when ctx ends, with the error of ctx. Requests of revision 2026-07-28 are
// served meanwhile. [Handler.Shutdown] should follow. The replicas that have spoken to this
// one go on to find it, even if the directory behind [Replicas].Locate has forgotten it.
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
