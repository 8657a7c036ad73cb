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

const HeaderSession = "Mcp-Session-Id" // with the id of a session

// The headers between replicas. They are removed from clients' requests and responses.
const (
	headerChallenge = "Rondo-Replica-Challenge"
	headerProof     = "Rondo-Replica-Proof"
	headerHop       = "Rondo-Replica-Hop"
	headerReply     = "Rondo-Replica-Reply"
)

const (
	dialTimeout = 2 * time.Second // replicas are near each other
	// idleTimeout is below servers' timeouts, so that few requests meet a closing connection.
	idleTimeout = 15 * time.Second
	maxIdle     = 128  // connections to one owner
	maxOwners   = 1024 // remembered
)

// A Forwarder accesses other replicas' sessions. Methods may be called concurrently.
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

// New returns the forwarder of a process that starts now, or nil without options, a shared key or
// Locate, since nothing is forwarded then. It fails for an invalid name.
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
		// No Proxy: forwarded credentials must stay between replicas.
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

// SetDraining makes proofs say that this replica ends soon and may leave the directory.
func (f *Forwarder) SetDraining() { f.draining.Store(true) }

// CloseIdle closes idle connections.
func (f *Forwarder) CloseIdle() { f.transport.CloseIdleConnections() }
