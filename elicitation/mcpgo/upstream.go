package mcpgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// pingTimeout is how long a connection that was idle may take to show that it is alive: mcp-go does
// not report that a child process has ended.
const pingTimeout = 2 * time.Second

// UpstreamOptions configure an [Upstream].
type UpstreamOptions struct {
	// Name is the prefix of what is published: the tool "search" of "docs" becomes "docs_search",
	// and the resource "file:///a" becomes "docs+file:///a". It begins with a letter and has
	// lower-case letters, digits, '-' and '.' only, and is no other upstream's. It is required.
	// Logs have it in upstream_session.
	Name string
	// Unprefixed are the names of tools and prompts that are published as they are. They are this
	// upstream's until it is closed, also while it is down.
	Unprefixed []string
	// Transport returns the transport of one more connection, with the credentials of callers that
	// have the Key. It is required. Connections
	// over a [*transport.StreamableHTTP], best with an [HTTPClient], serve any number of calls
	// at once. One over any other, such as that of a child process, serves one call at a time.
	// NewUpstream calls it once, with "", to learn which. Calls may overlap.
	Transport func(key string) (transport.Interface, error)
	// Client has the host's own options of the clients; see [NewSharedClient].
	Client []client.ClientOption
	// Initialize is what the clients send of the gateway, such as its name.
	Initialize mcp.InitializeRequest
	// ProtocolVersion is the revision to be spoken, "": "2025-11-25".
	ProtocolVersion string

	// MaxConnections is how many connections there may be. 0: 8, and 64 where any number of calls
	// use one at once: there one is for callers with one key, and closed for others when idle.
	// MaxWaiting and IdleTimeout are for connections that serve one call at a time: how many calls
	// may wait for one, and when one that has none is closed. An authenticated principal may use
	// half of the connections, and half of the calls that wait may be its own; principals take
	// turns. Callers that are not authenticated leave a quarter to those who are. 0: 1,000 and a
	// minute.
	MaxConnections, MaxWaiting int
	IdleTimeout                time.Duration

	// Key returns what a caller is known as at the upstream. Connections, and so sessions, are used
	// by callers with equal keys alone, one after the other or at once: a key must name everything
	// that the credentials which Transport adds for it admit. What a server asks after the end of a
	// call is put to whoever's call uses the connection then: with a key for each principal it
	// cannot be another's. The gateway itself, which reads the lists, is the zero principal. An
	// error refuses the call; clients get a [*protocol.Error] as it is. Nil: everybody has one key,
	// "". Calls may overlap.
	Key func(ctx context.Context, caller protocol.Principal) (string, error)

	// Warn gets what goes wrong with published lists later, for the log: the upstream cannot be
	// listed, or has what cannot be published. An error is reported once until it changes. Nil:
	// nobody. Calls may overlap.
	Warn func(err error)
}

// An Upstream is a server behind a gateway, and the connections to it. It opens them when
// they are needed, with the elicitation capabilities of the client that a call is for:
// upstreams may hide tools that ask from clients that cannot be asked. It replaces one that
// has ended, and closes one whose call was given up where the answers of such a call could
// be taken for those of the next.
//
// Progress of the upstream about a call, the client's cancellation and changes of the lists that
// are published are passed on, and log messages where a connection serves one call at a time:
// mcp-go does not report the stream of a notification.
// What the upstream reports in the last moment before its result may be dropped. An upstream of
// mcp-go's may also drop what it reports on one call when another call of the session ends.
//
// All methods may be called concurrently.
type Upstream struct {
	clients *Downstream
	opts    UpstreamOptions
	conns   *upstream.Conns[*upstreamConn]
}

// NewUpstream returns an upstream of a gateway. It opens no connection yet. It fails where another
// upstream of d has one of its names. Close it after the gateway's server has stopped.
func (d *Downstream) NewUpstream(opts UpstreamOptions) (*Upstream, error) {
	if opts.Transport == nil {
		return nil, errors.New("elicitation upstream: Transport is nil")
	}
	opts.ProtocolVersion = cmp.Or(opts.ProtocolVersion, upstream.ProtocolVersion)
	first, err := opts.Transport("")
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: %w", err)
	}
	_, shared := first.(*transport.StreamableHTTP) // it is not started, and so holds nothing
	u := &Upstream{clients: d, opts: opts}
	u.conns, err = upstream.NewConns(upstream.ConnOptions[*upstreamConn]{
		MaxConnections: opts.MaxConnections, MaxWaiting: opts.MaxWaiting,
		IdleTimeout: opts.IdleTimeout, Key: opts.Key, Shared: shared,
		Name: opts.Name, Unprefixed: opts.Unprefixed, Claims: &d.claims,
		Warn: opts.Warn, List: u.readLists,
		Open: func(ctx context.Context, m upstream.Modes, key string) (*upstreamConn, error) {
			return u.open(ctx, m, key, shared)
		},
		Lost: func() { u.conns.Lists.UpdateLater() },
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// isSessionLost reports whether an error means that the upstream does not know the session.
func isSessionLost(err error) bool { return errors.Is(err, transport.ErrSessionTerminated) }

// open opens a connection.
func (u *Upstream) open(ctx context.Context, m upstream.Modes, key string, shared bool) (
	*upstreamConn, error) {
	over, err := u.opts.Transport(key)
	if err != nil {
		return nil, err
	}
	conn := &upstreamConn{key: u.conns.NewKey(), shared: shared}
	opts := append(slices.Clone(u.opts.Client), client.WithProtocolVersion(u.opts.ProtocolVersion))
	conn.client = newClient(u.clients.router, conn.key, over, m.Capability(), opts)
	conn.client.OnNotification(func(n mcp.JSONRPCNotification) { u.relay(conn, n) })
	// mcp-go reads standard output, and stderr, until the context of Start ends.
	if err := conn.client.Start(context.Background()); err != nil {
		return nil, err
	}
	hello := u.opts.Initialize
	hello.Params.Capabilities = withoutTasks(hello.Params.Capabilities)
	if _, err = conn.client.Initialize(ctx, hello); err != nil {
		_ = conn.client.Close()
		return nil, err
	}
	conn.lastUsed.Store(time.Now().UnixNano())
	return conn, nil
}

// Close closes all connections and waits for that. Calls in flight fail.
func (u *Upstream) Close() { u.conns.Close() }

// modesOf returns the modes that the revision of a client has, of those that it declares.
func modesOf(info elicitation.SessionInfo) upstream.Modes {
	m := upstream.ModesOf(info.Capabilities)
	m.Form = m.Form && info.Version >= protocol.V20250618
	m.URL = m.URL && info.Version >= protocol.V20251125
	return m
}
