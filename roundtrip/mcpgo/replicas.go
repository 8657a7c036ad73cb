package mcpgo

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rondo-mcp/rondo/internal/replicahttp"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Replicas let several processes serve the clients of one endpoint behind a balancer that
// knows nothing of sessions. Clients of older revisions get session ids that name the owner
// of the session, sealed, with the id that mcp-go made inside. A replica that gets a request
// for a session of another passes it on, once. See serverhttp.Replicas, whose fields these
// are, and "Several replicas" in the README of the module.
//
// Authentication goes around [Adapter.Handler], and so both replicas ask for it. It would
// refuse the challenge by which replicas make sure of each other: put
// [Adapter.AnswerChallenges] around it.
type Replicas struct {
	// Name is the name of this replica, a DNS label that no other has.
	Name string
	// Keys is the keyring that all replicas share, usually the Sealer of [Options]. Nil, or
	// a keyring of this process alone: nothing is passed on.
	Keys *keys.Keyring
	// Locate returns the URL of the endpoint of a replica, and an error that wraps
	// [ErrUnknownReplica] for a name that no replica has. Calls may overlap. Nil: nothing is
	// passed on.
	Locate func(ctx context.Context, name string) (*url.URL, error)
	// TLS configures the connections to https URLs. Nil: the certificates of the system.
	TLS *tls.Config
}

// LocateByList returns a function for [Replicas].Locate that knows the replicas of a list:
// URLs by name.
func LocateByList(urls map[string]string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	locate, err := replicahttp.LocateByList(urls)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: LocateByList: %w", err)
	}
	return locate, nil
}

// LocateByPattern returns a function for [Replicas].Locate that puts the name of a replica
// in the place of {name} in the host of a URL.
func LocateByPattern(pattern string) (
	func(ctx context.Context, name string) (*url.URL, error), error) {
	locate, err := replicahttp.LocateByPattern(pattern)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: LocateByPattern: %w", err)
	}
	return locate, nil
}

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It goes around the handler that
// authenticates, which goes around [Adapter.Handler].
func (a *Adapter) AnswerChallenges(next http.Handler) http.Handler {
	if a.forwarder == nil {
		return next
	}
	return a.forwarder.AnswerChallenges(next)
}

// forwardSessions returns next, or a handler before it that passes requests on for sessions
// of other replicas.
func (a *Adapter) forwardSessions(next http.Handler, maxBody int64) http.Handler {
	if a.forwarder == nil {
		return next
	}
	return a.forwarder.Wrap(next, replicahttp.WrapOptions{
		MaxBody: maxBody, Observer: a.opts.Observer,
	})
}
