// Package replicas runs an endpoint in several processes behind a balancer without sticky sessions.
//
//	locate, err := replicas.LocateByPattern("https://{name}.deploys.svc.cluster.local/mcp")
//	// …
//	handler, err := serverhttp.New(srv, &serverhttp.Options{
//		Replicas: &replicas.Options{Name: os.Getenv("POD_NAME"), Keys: ring, Locate: locate}})
//
// A session of revision 2025-11-25 or older lives in one process. With [Options] its id names that
// process, its owner, sealed. A replica that gets a request for another's session authenticates the
// caller and forwards the request once, and the owner authenticates the caller again. Requests of
// revision 2026-07-28 have no session and are never forwarded.
//
// Options go into serverhttp's options. Middleware around serverhttp's handler must let through
// challenges of other replicas, which are POSTs without credentials: put the handler's
// AnswerChallenges around that middleware.
//
// Use https between replicas unless nobody can read their network: an attacker gets bearer tokens.
package replicas

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Options name this replica and locate the others.
type Options struct {
	// Name is this replica's name: a DNS label, 1 to 63 lower-case letters, digits and inner
	// hyphens, unique among running replicas. A restart makes a new owner, without old sessions.
	Name string
	// Keys is the keyring shared by all replicas, usually the Sealer of the server; hops use keys
	// derived from it. Keep old keys until the sessions with ids sealed under them have ended. With
	// a nil or ephemeral keyring nothing is forwarded, and session ids are as without Options.
	Keys *keys.Keyring
	// Locate returns the endpoint's URL, http or https, at the replica with a name. Its error wraps
	// [ErrUnknown] if no replica has the name: requests for its sessions then get 404, so it must
	// know all running replicas. [LocateByList] and [LocateByPattern] make such functions. No part
	// of the URL comes from a client. It is called if a replica has been silent for a minute, calls
	// may overlap, and its context ends after three seconds. Nil has the effect of nil Keys.
	Locate func(ctx context.Context, name string) (*url.URL, error)
	// TLS configures connections to https URLs. Nil means the system's certificates.
	TLS *tls.Config
}

// ErrUnknown is returned by [Options].Locate for a name that no replica has. Its sessions are gone.
var ErrUnknown = errors.New("replicas: no replica has this name")

// CheckName returns an error unless name is a DNS label, so that it can only name a host.
func CheckName(name string) error {
	valid := name != "" && len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-'
	for _, c := range []byte(name) {
		valid = valid && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !valid {
		return errors.New("the name of a replica must be a DNS label: 1 to 63 lower-case letters, " +
			"digits and inner hyphens")
	}
	return nil
}
