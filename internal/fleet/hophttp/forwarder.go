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

// The headers of the exchange between replicas. They are removed from what clients send
// and from what clients receive.
const (
	headerChallenge = "Rondo-Replica-Challenge"
	headerProof     = "Rondo-Replica-Proof"
	headerHop       = "Rondo-Replica-Hop"
	headerReply     = "Rondo-Replica-Reply"
)

const (
	// dialTimeout is how long a connection to an owner may take. Replicas are near each
	// other.
	dialTimeout = 2 * time.Second
	// idleTimeout is how long connections to an owner are kept: less than servers keep
	// theirs, so that a request seldom meets a connection that is being closed.
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

// New returns the forwarder of a process that begins now, nil where nothing is passed on: there
// are no options, no shared key or no function that locates replicas. It fails for a name that is
// none.
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

// SetDraining has proofs say that this replica will end soon: others do not ask for its
// address again, which a directory may have forgotten by then.
func (f *Forwarder) SetDraining() { f.draining.Store(true) }

// CloseIdle closes the connections that are not in use.
func (f *Forwarder) CloseIdle() { f.transport.CloseIdleConnections() }
