package hophttp

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// HeaderSession carries the id of a session.
const HeaderSession = "Mcp-Session-Id"

// The headers between replicas. They are removed from what clients send and receive.
const (
	headerChallenge = "Rondo-Replica-Challenge"
	headerProof     = "Rondo-Replica-Proof"
	headerHop       = "Rondo-Replica-Hop"
	headerReply     = "Rondo-Replica-Reply"
)

const (
	// dialTimeout bounds connecting to an owner: replicas are near each other.
	dialTimeout = 2 * time.Second
	// idleTimeout of connections to an owner is shorter than that of servers, so that a request
	// seldom meets a connection that is being closed.
	idleTimeout = 15 * time.Second
	// maxIdle is how many connections to one owner are kept.
	maxIdle = 128
	// maxOwners is how many owners are remembered.
	maxOwners = 1024
)

// A Forwarder is the part of a replica in sessions of others. All methods may be called
// concurrently.
type Forwarder struct {
	self      Owner
	began     time.Time // by the monotonic clock of this process
	codec     Codec
	locate    func(ctx context.Context, name string) (*url.URL, error)
	transport *http.Transport
	draining  atomic.Bool
	spent     spentHops

	mu    sync.Mutex
	peers *recent.Map[Owner, *peer]
}

// New returns the forwarder of a process that begins now, nil where nothing is passed on: without
// options, a shared key or a function that locates replicas. It fails for an invalid name.
func New(o *replicas.Options) (*Forwarder, error) {
	if o == nil {
		return nil, nil
	}
	if err := replicas.CheckName(o.Name); err != nil {
		return nil, err
	}
	if o.Keys == nil || o.Keys.Ephemeral() || o.Locate == nil {
		return nil, nil
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Forwarder{
		self: NewOwner(o.Name), began: time.Now(), codec: NewCodec(o.Keys), locate: o.Locate,
		// No Proxy: what is passed on holds credentials and stays between replicas.
		transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: o.TLS.Clone(),
			TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: maxIdle,
			IdleConnTimeout: idleTimeout, DisableCompression: true, ForceAttemptHTTP2: true,
		},
		peers: recent.New[Owner, *peer](maxOwners, 0),
	}, nil
}

// Self returns this run of this replica.
func (f *Forwarder) Self() Owner { return f.self }

// SetDraining has proofs say that this replica will end soon. Others then do not look its address
// up again, which a directory may have forgotten.
func (f *Forwarder) SetDraining() { f.draining.Store(true) }

// CloseIdle closes idle connections.
func (f *Forwarder) CloseIdle() { f.transport.CloseIdleConnections() }
