package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// recheckInterval is the minimum time between renegotiations after errors that may come from a
// server of the other era. Most such errors have other causes, and must not double the traffic.
const recheckInterval = time.Minute

// A connection is the outcome of a negotiation: a revision, and the peer for its requests.
type connection struct {
	version      protocol.Version
	peer         protocol.Peer
	session      *session                                    // nil if the revision is modern
	recheckedAt  atomic.Int64                                // last negotiation or recheck, Unix ns
	capabilities atomic.Pointer[protocol.ServerCapabilities] // last declared, or nil
}

// isLegacy reports whether the connection, which may be nil, has a session of a legacy revision.
func (n *connection) isLegacy() bool { return n != nil && n.session != nil }

func (n *connection) isUsable() bool {
	if !n.isLegacy() {
		return n != nil
	}
	select {
	case <-n.session.peer.Done():
		return false
	default:
		return true
	}
}

type negotiator struct {
	client  *Client
	peer    protocol.LegacyPeer        // nil: modern revisions only
	current atomic.Pointer[connection] // nil before an agreement

	mu      sync.Mutex
	running *negotiation
	era     protocol.Era // era of the last agreement; 0: unknown
	wait    sync.WaitGroup
}

// A negotiation runs on its own goroutine for all calls that wait for it.
type negotiation struct {
	done    chan struct{} // closed once conn and err are set
	conn    *connection
	err     error
	cancel  context.CancelCauseFunc
	waiters int
}

// Negotiate chooses the revision, opens a session if it is a legacy one, and returns it. Calls
// negotiate by themselves; after one nothing is sent. The revision is a property of the server: it
// may be stored and its era set in [Options.Era]. Errors are as in [Client.CallTool].
func (c *Client) Negotiate(ctx context.Context) (protocol.Version, error) {
	ctx, done := c.beginCall(ctx)
	defer done()
	conn, err := c.negotiator.connect(ctx)
	if err != nil {
		return "", preferClosed(ctx, err)
	}
	return conn.version, nil
}

// connect returns a usable connection, negotiated if necessary. Concurrent calls share one
// negotiation, which is cancelled when all their contexts have ended.
func (g *negotiator) connect(ctx context.Context) (*connection, error) {
	if conn := g.current.Load(); conn.isUsable() {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return g.awaitNegotiation(ctx, g.joinNegotiation(ctx))
}

func endedNegotiation(conn *connection, err error) *negotiation {
	n := &negotiation{done: make(chan struct{}), conn: conn, err: err}
	close(n.done)
	return n
}

// joinNegotiation joins the running negotiation, or starts one if no connection is usable.
func (g *negotiator) joinNegotiation(ctx context.Context) *negotiation {
	c := g.client
	g.mu.Lock()
	defer g.mu.Unlock()
	n, old := g.running, g.current.Load()
	switch {
	case c.life.Err() != nil:
		return endedNegotiation(nil, ErrClosed)
	case n == nil && old.isUsable(): // the negotiation ended after the caller looked
		return endedNegotiation(old, nil)
	case n == nil:
		// Keep the first caller's context values, such as credentials, but not its cancellation.
		shared, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		n = &negotiation{done: make(chan struct{}), cancel: cancel}
		stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
		g.running = n
		era := g.era
		g.wait.Go(func() {
			defer stop()
			defer cancel(nil)
			conn, err := g.chooseEra(shared, old, era)
			g.finishNegotiation(n, conn, preferClosed(shared, err))
		})
	}
	n.waiters++
	return n
}

// finishNegotiation publishes n's outcome. If no caller waits, it closes conn.
func (g *negotiator) finishNegotiation(n *negotiation, conn *connection, err error) {
	g.mu.Lock()
	wanted := g.running == n && g.client.life.Err() == nil
	if g.running == n {
		g.running = nil
	}
	if wanted && err == nil {
		conn.recheckedAt.Store(time.Now().UnixNano())
		g.current.Store(conn)
		g.era = conn.version.Era()
	}
	g.mu.Unlock()
	if !wanted && err == nil {
		if conn.isLegacy() {
			_ = conn.session.peer.Close()
		}
		err = ErrClosed
	}
	n.conn, n.err = conn, err
	close(n.done)
}

// awaitNegotiation waits for n's outcome or the end of ctx. The last waiter to leave cancels n.
func (g *negotiator) awaitNegotiation(ctx context.Context, n *negotiation) (*connection, error) {
	select {
	case <-n.done:
		return n.conn, n.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n.waiters--; n.waiters == 0 && g.running == n {
		g.running = nil
		n.cancel(context.Cause(ctx))
	}
	return nil, context.Cause(ctx)
}

// close ends the client's life and waits until no negotiation runs.
func (g *negotiator) close() {
	g.mu.Lock() // joinNegotiation reads life under mu, so no negotiation starts later
	g.client.endLife(ErrClosed)
	g.mu.Unlock()
	g.wait.Wait()
}

// chooseEra finds out which era the server speaks and connects to it, replacing old. If era (of the
// last agreement) is Legacy, it tries initialize first.
//
//	server/discover ── result or modern error ───────────▶ modern
//	      │ refused as legacy servers do
//	      ▼
//	 initialize ── accepted ─────────────────────────────▶ legacy
//	      │ refused
//	      ▼
//	 did server/discover time out? then ask once more ────▶ modern, or an error
//
// Transient errors (5xx, 429, network failures) decide nothing and are returned (basic/versioning,
// "Backward Compatibility").
func (g *negotiator) chooseEra(ctx context.Context, old *connection,
	era protocol.Era) (*connection, error) {
	c := g.client
	if old.isLegacy() {
		_ = old.session.peer.Close() // the session has ended; release its resources
	}
	if c.opts.Era == protocol.Legacy {
		return c.openSession(ctx, g.peer)
	}
	var refusedFirst error // of an initialize that was sent before server/discover
	if era == protocol.Legacy {
		conn, err := c.openSession(ctx, g.peer)
		if err == nil || !isFinalRefusal(err) {
			return conn, err
		}
		refusedFirst = err
	}
	conn, tryLegacy, err := g.probeServer(ctx)
	if !tryLegacy {
		return conn, err
	}
	if refusedFirst != nil {
		return nil, noCommonRevision(err, refusedFirst)
	}
	conn, failed := c.openSession(ctx, g.peer)
	if failed == nil {
		c.opts.warn(ctx, errPrefix.Errorf("session of revision %s is open, because the server "+
			"does not seem modern: %w", conn.version, err))
	}
	if failed == nil || !isFinalRefusal(failed) {
		return conn, failed
	}
	// A modern server that was still starting may be ready now.
	if errors.Is(err, context.DeadlineExceeded) {
		if conn, tryLegacy, again := g.probeServer(ctx); !tryLegacy && again == nil {
			return conn, nil
		}
	}
	return nil, noCommonRevision(err, failed)
}

// isFinalRefusal reports whether the server itself refused, and did so permanently.
func isFinalRefusal(err error) bool {
	if said, ok := protocol.AsError(err); ok {
		return said.Code != protocol.CodeBusy
	}
	if _, unusable := errors.AsType[*ResponseError](err); unusable {
		return true
	}
	return isLegacyStatus(err)
}

// isLegacyStatus reports whether err has an HTTP status with which legacy servers refuse modern
// requests: any 4xx, except those about credentials (401, 403) and timing (408, 429).
func isLegacyStatus(err error) bool {
	switch s, _ := httpStatus(err); s {
	case 401, 403, 408, 429:
		return false
	default:
		return s >= 400 && s < 500
	}
}

// probeServer asks which revisions the server speaks (server/discover). If tryLegacy is true, the
// caller should try initialize, and err says why the server does not seem modern.
func (g *negotiator) probeServer(
	ctx context.Context) (conn *connection, tryLegacy bool, err error) {
	c := g.client
	l := discoverLeg()
	id := c.nextID()
	c.fillMetadata(l.params.RequestMetadata(), id, false)
	params, err := protocol.EncodeParams(l.params)
	if err != nil {
		return nil, false, errPrefix.Errorf("%s: %w", l.method, err)
	}
	req := &protocol.Request{
		ID: id, Method: l.method, Params: params,
		Mirror: protocol.Mirror{Version: c.version},
	}
	resp, tryLegacy, err := g.peer.Probe(ctx, req)
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if err != nil {
		return nil, tryLegacy, &TransportError{l.method, err}
	}
	result, err := c.decodeResponse(ctx, c.version, req, resp)
	if err != nil {
		return g.judgeRefusal(tryLegacy, err)
	}
	found := result.(*protocol.DiscoverResult)
	if !slices.Contains(found.SupportedVersions, c.version) {
		unsupported := protocol.UnsupportedVersion(string(c.version), found.SupportedVersions)
		return nil, containsLegacy(found.SupportedVersions), c.explainRefusal(unsupported)
	}
	conn = &connection{version: c.version, peer: c.peer}
	conn.capabilities.Store(&found.Capabilities)
	return conn, false, nil
}

// judgeRefusal is probeServer for a response without a result. The peer decides tryLegacy.
func (g *negotiator) judgeRefusal(tryLegacy bool, err error) (*connection, bool, error) {
	c := g.client
	said, isError := protocol.AsError(err)
	switch {
	case !isError:
		return nil, true, err // no modern server sends such a response
	case slices.Contains(said.SupportedVersions(), c.version):
		// The server refused a version that it supports (basic/versioning). The next request will
		// show whether it accepts it.
		return &connection{version: c.version, peer: c.peer}, false, nil
	case said.SupportedVersions() != nil:
		return nil, containsLegacy(said.SupportedVersions()), err
	case said.Code == protocol.CodeBusy:
		return nil, false, err // a transient error, possible in both eras
	}
	return nil, tryLegacy, err
}

func containsLegacy(list []protocol.Version) bool {
	return slices.ContainsFunc(list, func(v protocol.Version) bool {
		return v.Known() && v.Era() == protocol.Legacy
	})
}

// recheckEra checks the outcome of every modern request. If err may come from a legacy server, it
// renegotiates. If it returns a connection, the request must be repeated over it.
func (g *negotiator) recheckEra(ctx context.Context, conn *connection, err error) *connection {
	if g.peer == nil || conn.isLegacy() || err == nil || !indicatesOtherEra(err) {
		return nil
	}
	last := conn.recheckedAt.Load()
	now := time.Now().UnixNano()
	if last != 0 && now-last < int64(recheckInterval) {
		return nil
	}
	if !conn.recheckedAt.CompareAndSwap(last, now) {
		return nil // another call rechecks
	}
	g.mu.Lock()
	if g.current.CompareAndSwap(conn, nil) {
		g.era = 0
	}
	g.mu.Unlock()
	found, failed := g.connect(ctx)
	if failed != nil || !found.isLegacy() {
		return nil
	}
	return found
}

func indicatesOtherEra(err error) bool {
	said, isError := protocol.AsError(err)
	switch {
	case isError && rules.ProvesModern(said):
		supported := said.SupportedVersions()
		isModern := func(v protocol.Version) bool { return v.Era() == protocol.Modern }
		return containsLegacy(supported) && !slices.ContainsFunc(supported, isModern)
	case isLegacyStatus(err):
		return true
	case isError:
		// Codes with which legacy servers refuse a request outside a session.
		return said.Code == -32000 || said.Code == -32001 ||
			said.Code == protocol.CodeInvalidRequest
	}
	return false
}
