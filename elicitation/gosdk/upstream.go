//lint:file-ignore SA1019 logging is deprecated, and supported for as long as it exists

package gosdk

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

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
	// Implementation is what the gateway calls itself.
	Implementation *mcp.Implementation
	// Transport returns the transport of one more connection, with the credentials of callers that
	// have the Key. It is required. A
	// [*mcp.StreamableClientTransport] is used with the [HTTPClient] of its own, and its
	// connections serve any number of calls at once. A connection over any other, such as
	// that of a child process, serves one call at a time. Calls may overlap.
	Transport func(key string) mcp.Transport
	// Client has the host's own options of the clients, nil: none. See [NewSharedClient].
	Client *mcp.ClientOptions
	// ProtocolVersion is the revision to be spoken, "": "2025-11-25".
	ProtocolVersion string
	// LogLevel is the least severe level of the log messages that the upstream sends, "":
	// the upstream decides. Clients get those of their calls from the level on that they
	// have set.
	LogLevel mcp.LoggingLevel

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
// Progress and log messages of the upstream about a call, the client's cancellation and changes of
// the lists that are published are passed on. What the upstream
// reports in the last moment before its result may be dropped, since the SDK hands results
// over first.
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
	u := &Upstream{clients: d, opts: opts}
	_, shared := opts.Transport("").(*mcp.StreamableClientTransport)
	var err error
	u.conns, err = upstream.NewConns(upstream.ConnOptions[*upstreamConn]{
		MaxConnections: opts.MaxConnections, MaxWaiting: opts.MaxWaiting,
		IdleTimeout: opts.IdleTimeout, Key: opts.Key, Shared: shared,
		Name: opts.Name, Unprefixed: opts.Unprefixed, Claims: &d.claims,
		Warn: opts.Warn, List: u.readLists,
		Open: func(ctx context.Context, m upstream.Modes, key string) (*upstreamConn, error) {
			return u.open(ctx, m, key, shared)
		},
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// open opens a connection.
func (u *Upstream) open(ctx context.Context, m upstream.Modes, key string, shared bool) (
	*upstreamConn, error) {
	transport := u.opts.Transport(key)
	conn := &upstreamConn{key: u.conns.NewKey(), shared: shared, ended: make(chan struct{})}
	if over, ok := transport.(*mcp.StreamableClientTransport); ok {
		marking := *over
		conn.answers = &upstream.Book{}
		marking.HTTPClient = newHTTPClient(over.HTTPClient, conn.answers, over.MaxEventSize)
		if over.OAuthHandler != nil {
			marking.OAuthHandler = authorizer{over.OAuthHandler}
		}
		transport = &marking
	}
	client := newClient(u.clients.router, conn.key, m.Capability(), u.opts.Implementation,
		u.clientOptions(conn), conn.answers)
	client.AddReceivingMiddleware(conn.relay)
	session, err := client.Connect(ctx, transport,
		&mcp.ClientSessionOptions{ProtocolVersion: u.opts.ProtocolVersion})
	if err != nil {
		return nil, err
	}
	conn.session = session
	go u.watch(conn)
	if level := u.opts.LogLevel; level != "" && conn.declares().Logging != nil {
		// An upstream that refuses it sends what it sends.
		_ = session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: level})
	}
	return conn, nil
}

// watch forgets a connection when it has ended.
func (u *Upstream) watch(conn *upstreamConn) {
	_ = conn.session.Wait() // calls in flight return the reason
	close(conn.ended)
	u.conns.Forget(conn)
	if conn.lists.Load() {
		u.conns.Lists.UpdateLater()
	}
}

// clientOptions returns the host's options, with what the upstream's lists need.
func (u *Upstream) clientOptions(conn *upstreamConn) *mcp.ClientOptions {
	opts := mcp.ClientOptions{}
	if u.opts.Client != nil {
		opts = *u.opts.Client
	}
	opts.ToolListChangedHandler = updateLists(u, conn, opts.ToolListChangedHandler,
		upstream.Tools)
	opts.PromptListChangedHandler = updateLists(u, conn, opts.PromptListChangedHandler,
		upstream.Prompts)
	opts.ResourceListChangedHandler = updateLists(u, conn, opts.ResourceListChangedHandler,
		upstream.Resources, upstream.ResourceTemplates)
	return &opts
}

// updateLists returns a handler that lists anew what has changed, and then calls that of the host,
// which may be nil.
func updateLists[Request any](u *Upstream, conn *upstreamConn, host func(context.Context, Request),
	changed ...upstream.Kind) func(context.Context, Request) {
	return func(ctx context.Context, req Request) {
		if conn.lists.Load() {
			u.conns.Lists.UpdateLater(changed...)
		}
		if host != nil {
			host(ctx, req)
		}
	}
}

// Close closes all connections and waits for that. Calls in flight fail.
func (u *Upstream) Close() { u.conns.Close() }
