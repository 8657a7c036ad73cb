package replicahttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/recent"
	"github.com/rondo-mcp/rondo/internal/replica"
)

const (
	// dialTimeout is how long a connection to an owner may take. Replicas are near each
	// other.
	dialTimeout = 2 * time.Second
	// proofTimeout is how long the whole exchange with an owner may take.
	proofTimeout = 3 * time.Second
	// attemptTimeout is how long a request waits for the exchange: longer only than a
	// function of the host that ignores its context.
	attemptTimeout = proofTimeout + time.Second
	// failureLife is how long a failure to reach an owner answers further requests for
	// it, so that any number of them costs one attempt per second.
	failureLife = time.Second
	// idleTimeout is how long connections to an owner are kept: less than servers keep
	// theirs, so that a request seldom meets a connection that is being closed.
	idleTimeout = 15 * time.Second
	// maxIdle is how many connections to one owner are kept.
	maxIdle = 128
	// maxOwners is how many owners are remembered.
	maxOwners = 1024
)

// ErrUnknownReplica is what Options.Locate returns for a name that it does not know.
var ErrUnknownReplica = errors.New("replicahttp: no replica has this name")

// Options configure a [Forwarder].
type Options struct {
	Name string
	// Keys is the keyring that is derived for [replica.Purpose].
	Keys   replica.Sealer
	Locate func(ctx context.Context, name string) (*url.URL, error)
	TLS    *tls.Config
}

// A Forwarder is the part of a replica in sessions of others. All methods may be called
// concurrently.
type Forwarder struct {
	self      replica.Owner
	codec     replica.Codec
	locate    func(ctx context.Context, name string) (*url.URL, error)
	transport *http.Transport
	channels  *replica.Channels // that other replicas use
	draining  atomic.Bool

	mu    sync.Mutex
	peers *recent.Map[replica.Owner, *peer]
}

// New returns the forwarder of a process that begins now.
func New(o Options) (*Forwarder, error) {
	self, err := replica.NewOwner(o.Name)
	if err != nil {
		return nil, err
	}
	if o.Keys == nil || o.Locate == nil {
		return nil, errors.New("keys and the function that locates replicas are required")
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Forwarder{
		self: self, codec: replica.Codec{Keys: o.Keys}, locate: o.Locate,
		// No Proxy: what is passed on holds credentials and stays between replicas.
		transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: o.TLS.Clone(),
			TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: maxIdle,
			IdleConnTimeout: idleTimeout, DisableCompression: true, ForceAttemptHTTP2: true,
		},
		channels: replica.NewChannels(),
		peers:    recent.New[replica.Owner, *peer](maxOwners, 0),
	}, nil
}

// SetDraining has proofs say that this replica will end soon: others do not ask for its
// address again, which a directory may have forgotten by then.
func (f *Forwarder) SetDraining() { f.draining.Store(true) }

// CloseIdle closes the connections that are not in use.
func (f *Forwarder) CloseIdle() { f.transport.CloseIdleConnections() }

// SealSession returns the id of a session of this replica; see [replica.Codec.SealSession].
func (f *Forwarder) SealSession(inner string) (string, error) {
	return f.codec.SealSession(f.self, inner)
}

// An Ownership says whose a session is.
type Ownership int

// The ownerships.
const (
	// Nobody: the id is none, or its owner was an earlier start of this replica.
	Nobody Ownership = iota
	// Own: the session is this replica's, or was.
	Own
	// Foreign: the session is another replica's.
	Foreign
)

// FindOwner reads the id of a session. inner is what SealSession was given.
func (f *Forwarder) FindOwner(id string) (owner replica.Owner, inner string, whose Ownership) {
	owner, inner, ok := f.codec.OpenSession(id)
	switch {
	case !ok:
		return replica.Owner{}, "", Nobody
	case owner == f.self:
		return owner, inner, Own
	case owner.Name == f.self.Name:
		return owner, inner, Nobody
	}
	return owner, inner, Foreign
}
