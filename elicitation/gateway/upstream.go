package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

const (
	connectTimeout = 30 * time.Second // to connect and agree on a revision
	idleTime       = 5 * time.Minute  // of an unused connection
)

// An upstream is one server behind the gateway, with its connections. A connection serves callers
// with one key and one set of capabilities. A modern upstream gets any number of calls on a
// connection, a legacy upstream one at a time, so that its questions belong to that call.
type upstream struct {
	config  Upstream
	gateway *Gateway
	names   *upstreamNames
	own     *view // as the gateway itself sees it

	dialed atomic.Int64 // connections so far

	mu          sync.Mutex
	views       map[string]*view // as others see it, by credential key
	connections []*connection
	opening     int
	openings    map[connectionKey]*opening      // connections being opened, for which others wait
	legacy      bool                            // a connection serves one call
	program     bool                            // a connection is a process
	room        *quota.Pool[protocol.Principal] // for connections in use; nil before the first
	reported    map[string]bool                 // faults logged once
	closed      bool                            // returned connections are closed
	closing     sync.WaitGroup                  // connections being closed
}

type connection struct {
	key        connectionKey
	client     *client.Client
	ended      <-chan struct{} // closed when the process or stream ends; nil over HTTP
	version    protocol.Version
	negotiated atomic.Bool
	parked     atomic.Pointer[relay.Parked] // the running call of a legacy connection
	caller     protocol.Principal           // whose calls a legacy connection serves
	name       elicitation.UpstreamKey      // at the router
	router     *elicitation.Router
	account    protocol.Principal // whose share is used, while in use
	users      int
	lastUsed   time.Time
}

// The type opening is a connection that is being opened, for all calls that may share it.
type opening struct {
	done chan struct{} // closed when opened, or failed
	err  error         // nil also if its opener has left
}

type connectionKey struct {
	credential string
	declared   declared
}

// The type declared holds the client's capabilities that the gateway declares upstream.
type declared struct {
	forms, urls, sampling, samplingTools, samplingContext, roots bool
	apps                                                         string // JSON; empty: not declared
}

const (
	extensionApps = "io.modelcontextprotocol/ui" // MCP Apps: tools have views in the client
	maxAppsBytes  = 1024                         // of its settings
)

func newUpstream(config Upstream, names *upstreamNames, g *Gateway) *upstream {
	u := &upstream{config: config, gateway: g, names: names,
		openings: map[connectionKey]*opening{}, views: map[string]*view{},
		reported: map[string]bool{}}
	u.mu.Lock() // the view's goroutine compares u.own
	defer u.mu.Unlock()
	u.own = u.startView(protocol.Principal{})
	return u
}

func (c *connection) modern() bool { return c.version.Era() == protocol.Modern }

// The method serves reports whether the connection may serve one more call. A legacy connection
// always serves the same caller, so that late questions reach no other caller.
func (c *connection) serves(caller protocol.Principal) bool {
	return c.modern() || c.users == 0 && c.caller == caller
}

func (c *connection) isOver() bool {
	select {
	case <-c.ended: // never, if nil
		return true
	default:
		return false
	}
}

func (u *upstream) mayAsk(kind protocol.InputKind) bool {
	return !slices.Contains(u.config.Refuse, kind)
}

func (u *upstream) capabilities(c protocol.ClientCapabilities) (d declared) {
	if e := c.Elicitation; e != nil {
		d.forms = e.Form && u.mayAsk(protocol.KindElicitForm)
		d.urls = e.URL && u.mayAsk(protocol.KindElicitURL)
	}
	if s := c.Sampling; s != nil && u.mayAsk(protocol.KindCreateMessage) {
		d.sampling, d.samplingTools, d.samplingContext = true, s.Tools, s.Context
	}
	if apps := c.Extensions[extensionApps]; len(apps) <= maxAppsBytes {
		d.apps = string(apps)
	}
	d.roots = c.Roots != nil && u.mayAsk(protocol.KindListRoots)
	return d
}

func (d declared) declare() (c protocol.ClientCapabilities) {
	if d.forms || d.urls {
		c.Elicitation = &protocol.ElicitationCapability{Form: d.forms, URL: d.urls}
	}
	if d.sampling {
		c.Sampling = &protocol.SamplingCapability{
			Tools: d.samplingTools, Context: d.samplingContext,
		}
	}
	if d.apps != "" {
		c.Extensions = map[string]json.RawMessage{extensionApps: json.RawMessage(d.apps)}
	}
	if d.roots {
		c.Roots = &protocol.RootsCapability{}
	}
	return c
}

// connect returns a connection for one call, and a function that returns or closes it.
func (g *Gateway) connect(
	ctx context.Context, u *upstream, call *server.Call,
) (*connection, func(reuse bool), error) {
	credential, err := u.credentialFor(ctx, call.Principal)
	if err != nil {
		return nil, nil, err
	}
	key := connectionKey{credential.Key, u.capabilities(call.Capabilities())}
	for {
		conn, other, err := u.takeConnection(key, call.Principal)
		switch {
		case err != nil:
		case other != nil:
			if err = other.await(ctx); err == nil {
				continue
			}
		case conn == nil:
			conn, err = u.openConnection(ctx, key, credential, call.Principal)
		}
		if err != nil {
			return nil, nil, err
		}
		if !conn.modern() {
			conn.caller = call.Principal // not shared yet
		}
		var once sync.Once
		return conn, func(reuse bool) { once.Do(func() { u.giveBack(conn, reuse) }) }, nil
	}
}

func (o *opening) await(ctx context.Context) error {
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeConnection returns a connection or an opening, or reserves a place for one to open.
func (u *upstream) takeConnection(
	key connectionKey, caller protocol.Principal,
) (*connection, *opening, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropIdleLocked()
	for _, c := range u.connections {
		if c.key != key || c.isOver() || !c.serves(caller) {
			continue
		}
		if c.users == 0 {
			if err := u.takeRoomLocked(caller); err != nil {
				return nil, nil, err
			}
			c.account = caller
		}
		c.users++
		return c, nil, nil
	}
	if o := u.openings[key]; o != nil && !u.legacy {
		return nil, o, nil
	}
	if err := u.takeRoomLocked(caller); err != nil {
		return nil, nil, err
	}
	if _, total := u.room.Usage(); total >= 0 && int64(len(u.connections)+u.opening) >= total {
		oldest := u.oldestIdleLocked() // never nil: the limit allowed one more in use
		u.dropLocked(func(c *connection) bool { return c == oldest })
	}
	u.opening++
	if !u.legacy {
		u.openings[key] = &opening{done: make(chan struct{})}
	}
	return nil, nil, nil
}

// limitBusy is the limit in the error data for a busy upstream.
const limitBusy quota.Limit = "upstream"

// takeRoomLocked counts one connection for the caller and in total.
func (u *upstream) takeRoomLocked(caller protocol.Principal) error {
	if u.room == nil {
		total := u.maxConnectionsLocked()
		u.room = quota.New(quota.Options[protocol.Principal]{Total: total,
			Share: quota.ShareOf(total), Local: protocol.LocalPrincipal()})
	}
	switch limit := u.room.Take(caller, 1); {
	case limit == quota.None:
		return nil
	case limit == quota.Share && !caller.Anonymous():
		return quota.Refuse(quota.Share, time.Second, "upstream %s: too many of your own calls "+
			"run there or wait for people: answer or cancel some", u.config.Name)
	}
	return quota.Refuse(limitBusy, time.Second, "upstream %s: all connections are in use",
		u.config.Name)
}

// maxConnectionsLocked returns the limit, negative if none. Over HTTP it is the limit of calls.
func (u *upstream) maxConnectionsLocked() int64 {
	limits := u.gateway.limits
	switch {
	case limits.connections != 0:
		return int64(limits.connections)
	case u.program:
		return 64
	}
	return int64(limits.calls)
}

func (u *upstream) oldestIdleLocked() (oldest *connection) {
	for _, c := range u.connections {
		if c.users == 0 && (oldest == nil || c.lastUsed.Before(oldest.lastUsed)) {
			oldest = c
		}
	}
	return oldest
}

func (u *upstream) dropIdleLocked() {
	u.dropLocked(func(c *connection) bool {
		return c.users == 0 && (c.isOver() || time.Since(c.lastUsed) > idleTime)
	})
}

// dropLocked closes connections in the background, because that may take time.
func (u *upstream) dropLocked(drop func(*connection) bool) {
	kept := u.connections[:0]
	for _, c := range u.connections {
		if drop(c) {
			u.closing.Go(func() { _ = c.client.Close() })
			continue
		}
		kept = append(kept, c)
	}
	clear(u.connections[len(kept):])
	u.connections = kept
}

// dropIdle closes idle connections after one broke: the upstream may have restarted.
func (u *upstream) dropIdle() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropLocked(func(c *connection) bool { return c.users == 0 && !c.modern() })
}

// giveBack returns a connection. A modern one stays open for other calls.
func (u *upstream) giveBack(conn *connection, reuse bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	conn.lastUsed = time.Now()
	if conn.users--; conn.users == 0 {
		u.room.Give(conn.account, 1)
	}
	if !reuse && !conn.modern() && !u.closed {
		u.dropLocked(func(c *connection) bool { return c == conn })
	}
}

// openConnection opens and takes a connection, and wakes the callers that wait for it.
func (u *upstream) openConnection(
	ctx context.Context, key connectionKey, credential Credential, caller protocol.Principal,
) (conn *connection, err error) {
	err = errors.New("gateway: Connect did not return") // if it panics
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.opening--
		if o := u.openings[key]; o != nil {
			if ctx.Err() == nil {
				o.err = err
			}
			close(o.done)
			delete(u.openings, key)
		}
		if err == nil && u.closed {
			_ = conn.client.Close()
			err = u.explain(errClosed)
		}
		if err != nil {
			u.room.Give(caller, 1)
			return
		}
		conn.users, conn.account = 1, caller
		u.connections = append(u.connections, conn)
	}()
	return u.dial(ctx, key, credential)
}

func (u *upstream) dial(
	ctx context.Context, key connectionKey, credential Credential,
) (*connection, error) {
	ctx, done := u.gateway.detach(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	peer, err := u.config.Connect(ctx, credential)
	if err != nil {
		return nil, u.explain(err)
	}
	conn := &connection{key: key, router: u.gateway.router, name: elicitation.UpstreamKey(
		u.config.Name + "/" + strconv.FormatInt(u.dialed.Add(1), 10))}
	if p, ok := peer.(interface{ Done() <-chan struct{} }); ok {
		conn.ended = p.Done()
	}
	if conn.client, err = client.New(peer, u.clientOptions(conn)); err != nil {
		return nil, errors.Join(u.explain(err), peer.Close())
	}
	if conn.version, err = conn.client.Negotiate(ctx); err != nil {
		_ = conn.client.Close()
		return nil, u.explain(err)
	}
	conn.negotiated.Store(true)
	u.mu.Lock()
	u.legacy, u.program = !conn.modern(), conn.ended != nil
	u.mu.Unlock()
	return conn, nil
}

func (u *upstream) clientOptions(conn *connection) *client.Options {
	d := conn.key.declared
	manual := d.declare()
	opts := &client.Options{
		Info: protocol.Implementation{Name: "rondo-gateway", Version: "0"},
		Era:  u.config.Era, Manual: &manual, NoBusyRetry: true,
		Log: func(ctx context.Context, m *protocol.LogMessage) {
			if call := conn.listener(ctx); call != nil {
				_ = call.Log(ctx, m.Level, m.Logger, m.Data)
			}
		},
		RelayElicit: conn.elicit, Extensions: manual.Extensions,
		Warn: func(_ context.Context, err error) {
			if isA[*elicitation.Error](err) {
				return // logged by the router
			}
			if conn.negotiated.Load() { // earlier faults belong to the choice of an era
				u.reportOnce("gateway.upstream_fault", "", err)
			}
		},
		Timeout: -1, // the client's request or the call has one
	}
	if d.urls {
		opts.ElicitURL, opts.Notification = conn.askURL, conn.passOnVisitEnd
	}
	if d.sampling {
		opts.CreateMessage = func(ctx context.Context, q *client.SamplingQuestion) (
			*protocol.CreateMessageResult, error) {
			return relayPushed[*protocol.CreateMessageResult](ctx, conn, &q.Request,
				"the client refused to ask a model")
		}
		opts.Sampling = protocol.SamplingCapability{Tools: d.samplingTools,
			Context: d.samplingContext}
	}
	if d.roots {
		opts.ListRoots = func(ctx context.Context, _ *client.RootsQuestion) (
			[]protocol.Root, error) {
			result, err := relayPushed[*protocol.ListRootsResult](ctx, conn, &protocol.ListRoots{},
				"the client refused to list its roots")
			if err != nil {
				return nil, err
			}
			return result.Roots, nil
		}
	}
	return opts
}

type callKey struct{} // in the contexts of calls to modern upstreams

// listener returns the request that gets an upstream's logs, or nil.
func (c *connection) listener(ctx context.Context) *server.Call {
	if parked := c.parked.Load(); parked != nil {
		return parked.WaitingCaller()
	}
	call, _ := ctx.Value(callKey{}).(*server.Call)
	return call
}

// relayPushed relays a pushed question, except elicitations, to the call's client.
func relayPushed[R any](ctx context.Context, c *connection, q protocol.InputRequest,
	refused string,
) (result R, err error) {
	parked := c.parked.Load()
	if parked == nil {
		return result, protocol.Errorf(protocol.CodeMethodNotFound, "No client session available")
	}
	if c := parked.WaitingCaller(); c != nil && !c.Capabilities().Missing(q).IsZero() {
		return result, protocol.Errorf(protocol.CodeMethodNotFound,
			"the call has gone on in another client, which cannot be asked that")
	}
	a, err := parked.Ask(ctx, q, nil)
	if err != nil {
		return result, err
	}
	result, ok := a.Result.(R)
	if !ok {
		return result, protocol.Errorf(-1, "%s", refused)
	}
	return result, nil
}

const maxReported = 1000

// reportOnce logs a fault of the upstream only once, because it recurs in each list and call.
func (u *upstream) reportOnce(entry, name string, err error) {
	fault := entry + " " + name
	if name == "" {
		fault += err.Error()
	}
	u.mu.Lock()
	known := u.reported[fault] || len(u.reported) >= maxReported
	if !known {
		u.reported[fault] = true
	}
	u.mu.Unlock()
	if known {
		return
	}
	u.gateway.log(event.LevelWarn, entry, func(out event.Encoder) {
		out.AddString("upstream", u.config.Name)
		if name != "" {
			out.AddString("name", name)
		}
		out.AddString("error", err.Error())
	})
}

func (u *upstream) closeConnections() error {
	u.mu.Lock()
	connections := u.connections
	u.connections, u.closed = nil, true
	u.mu.Unlock()
	var failed []error
	for _, c := range connections {
		if err := c.client.Close(); err != nil {
			failed = append(failed, fmt.Errorf("gateway: upstream %s: %w", u.config.Name, err))
		}
	}
	u.closing.Wait()
	return errors.Join(failed...)
}
