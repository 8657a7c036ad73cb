// Package replicas lets several processes serve the clients of one endpoint behind a balancer
// that knows nothing of sessions.
//
// A session of revision 2025-11-25 or older lives in one process. With [Options] its id names
// that process, its owner, sealed. A replica that gets a request for a session of another
// authenticates the caller and passes the request on, once, and the owner authenticates the
// caller again. Requests of revision 2026-07-28 belong to no session and are never passed on.
//
// Options go into those of serverhttp. Whatever stands around its handler must let the challenge
// through by which replicas make sure of each other, a POST without credentials: put
// AnswerChallenges of the handler around it.
//
// Use https between replicas unless nobody can read their network: an attacker there can read the
// tokens of clients.
package replicas

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"

	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// Options say who this replica is, and where the others are.
type Options struct {
	// Name is the name of this replica: a DNS label, 1 to 63 lower-case letters, digits
	// and inner hyphens. No two replicas that run may share one. A replica that starts
	// again under its name is another owner: it has none of the earlier sessions.
	Name string
	// Keys is the keyring that all replicas share, usually the Sealer of the server. What
	// replicas say to each other is sealed under keys that are derived from it, for this
	// alone. Keep an older key until the sessions have ended that it sealed the ids of. Nil,
	// or a keyring of this process alone: nothing is passed on, and sessions have the ids
	// that they have without Options.
	Keys *keys.Keyring
	// Locate returns the URL of the endpoint of the replica with a name, http or https, and an
	// error that wraps [ErrUnknown] for a name that no replica has: requests for its sessions get
	// 404 then, so it must know every replica that runs. [LocateByList] and [LocateByPattern] make
	// such functions. No part of the URL comes from a client. It is called when nothing has come
	// from a replica for a minute, calls may overlap, and its context ends after three seconds.
	// Nil: as with Keys.
	Locate func(ctx context.Context, name string) (*url.URL, error)
	// TLS configures the connections to https URLs. Nil: the certificates of the system.
	TLS *tls.Config
}

// ErrUnknown is what [Options].Locate returns for a name that no replica has. The sessions of
// such a replica are gone.
var ErrUnknown = errors.New("replicas: no replica has this name")

// CheckName returns an error unless a replica may have a name: it must be a DNS label, so that it
// can name nothing but a host.
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
