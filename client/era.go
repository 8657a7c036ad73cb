package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// doubtPause is how long a verdict stands before it is doubted again.
// Errors that may mean a server of another era mean other things most of the
// time, and must not double the traffic.
const recheckInterval = time.Minute

// A NegotiationError says that a server speaks neither a modern nor a legacy
// revision that this client does, as far as can be told. It is no verdict: the
// next call tries again.
type NegotiationError struct {
	// Modern is how it refused to say what it speaks (server/discover).
	Modern error
	// Legacy is how it refused to open a session (initialize).
	Legacy error
}

// Error names both reasons, and the option that may help. Some servers can only
// be spoken to in legacy revisions if nothing else was tried before: bridges
// open a session of their own for the first message that is no initialize, and
// refuse the client's.
func (e *NegotiationError) Error() string {
	hint := "if the server speaks a legacy revision, behind a bridge for example, set Options.Era to protocol.Legacy"
	if errors.Is(e.Modern, context.DeadlineExceeded) {
		hint += "; if it only starts slowly, raise StreamOptions.ProbeTimeout"
	}
	return fmt.Sprintf("client: no common revision: modern: %s; legacy: %s; %s", errPrefix.Text(e.Modern), errPrefix.Text(e.Legacy), hint)
}

// Unwrap returns both.
func (e *NegotiationError) Unwrap() []error { return []error{e.Legacy, e.Modern} }

// A connection is what the client and its server have agreed on.
type connection struct {
	version protocol.Version
	peer    protocol.Peer
	session *session // nil: the revision is modern
	// assumed: nothing that the server said has confirmed it yet.
	unconfirmed atomic.Bool
	// doubted is when it was last looked into, in Unix nanoseconds.
	recheckedAt atomic.Int64
	// declared is what a modern server said last that it can do, nil when it was
	// not asked. What a legacy server can do is part of the session.
	capabilities atomic.Pointer[protocol.ServerCapabilities]
}

func (n *connection) isLegacy() bool { return n != nil && n.session != nil }

// alive reports whether the connection can be used.
func (n *connection) isUsable() bool {
	if n == nil {
		return false
	}
	if n.session == nil {
		return true
	}
	select {
	case <-n.session.peer.Done():
		return false
	default:
		return true
	}
}

// negotiator finds the connection of a client.
type negotiator struct {
	current atomic.Pointer[connection]

	mu      sync.Mutex
	running *negotiation
	era     protocol.Era // of the last verdict, 0: none
	wait    sync.WaitGroup
}

// end waits for what is under way, once the client's life has ended.
func (g *negotiator) awaitEnd() {
	g.mu.Lock() // whoever holds it may begin one more; nobody does after them
	running := g.running
	g.mu.Unlock()
	if running != nil {
		<-running.done
	}
	g.wait.Wait()
}

// A negotiation is on its way for everybody who waits for it.
type negotiation struct {
	done    chan struct{} // closed once conn and err are set
	conn    *connection
	err     error
	cancel  context.CancelCauseFunc
	waiters int
}

// assume sets what need not be found out.
func (c *Client) presetConnection() {
	_, can := c.peer.(protocol.LegacyPeer)
	switch {
	case !can || c.opts.Era == protocol.Modern:
		c.negotiator.current.Store(&connection{version: c.version, peer: c.peer})
	case c.opts.Era == protocol.Legacy:
	case c.opts.Assume != "" && c.opts.Assume.Era() == protocol.Modern:
		conn := &connection{version: c.version, peer: c.peer}
		conn.unconfirmed.Store(true)
		c.negotiator.current.Store(conn)
	case c.opts.Assume != "":
		c.negotiator.era = protocol.Legacy
	}
}

// Negotiated returns the revision that the client speaks with its server, empty
// before the first call has found out. It holds for the server rather than for
// the client, so it may be stored and given to a later client of the same
// server in [Options.Assume].
func (c *Client) Negotiated() protocol.Version {
	conn := c.negotiator.current.Load()
	if conn == nil || conn.unconfirmed.Load() {
		return ""
	}
	return conn.version
}

// Negotiate finds out which revision to speak with the server, opens a session
// if that is a legacy one, and returns the revision. Calls do so by themselves;
// it is for programs that want to know beforehand. Errors are those of
// [Client.CallTool] and [*NegotiationError].
func (c *Client) Negotiate(ctx context.Context) (protocol.Version, error) {
	ctx, done := c.beginCall(ctx)
	defer done()
	conn, err := c.connect(ctx)
	if err != nil {
		return "", preferClosed(ctx, err)
	}
	return conn.version, nil
}

// connection returns what has been agreed on. Calls that come before that wait
// for one negotiation, which goes on as long as one of them does.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	if conn := c.negotiator.current.Load(); conn.isUsable() {
		return conn, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c.awaitNegotiation(ctx, c.joinNegotiation(ctx))
}

// join returns the negotiation that runs, after starting it if none does.
func (c *Client) joinNegotiation(ctx context.Context) *negotiation {
	g := &c.negotiator
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.running
	if c.life.Err() != nil {
		n = &negotiation{done: make(chan struct{}), err: ErrClosed}
		close(n.done)
		return n
	}
	if n == nil {
		// It outlives its first caller if others wait, but keeps what that
		// caller's context says, such as credentials.
		shared, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		n = &negotiation{done: make(chan struct{}), cancel: cancel}
		stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
		g.running = n
		old := g.current.Load()
		g.wait.Go(func() {
			defer stop()
			defer cancel(nil)
			conn, err := c.chooseEra(shared, old, g.loadEra())
			c.finishNegotiation(n, conn, preferClosed(shared, err))
		})
	}
	n.waiters++
	return n
}

func (g *negotiator) loadEra() protocol.Era {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.era
}

// settle ends a negotiation. One that everybody has left is for nothing.
func (c *Client) finishNegotiation(n *negotiation, conn *connection, err error) {
	g := &c.negotiator
	g.mu.Lock()
	wanted := g.running == n && c.life.Err() == nil
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

// await waits for a negotiation or for the end of ctx.
func (c *Client) awaitNegotiation(ctx context.Context, n *negotiation) (*connection, error) {
	select {
	case <-n.done:
		return n.conn, n.err
	case <-ctx.Done():
	}
	g := &c.negotiator
	g.mu.Lock()
	defer g.mu.Unlock()
	if n.waiters--; n.waiters == 0 && g.running == n {
		g.running = nil
		n.cancel(context.Cause(ctx))
	}
	return nil, context.Cause(ctx)
}

// negotiate finds out what the server speaks:
//
//	server/discover ── answered, or a modern error ──────▶ modern
//	      │ refused as legacy servers do
//	      ▼
//	 initialize ── accepted ─────────────────────────────▶ legacy
//	      │ refused
//	      ▼
//	 was the server only slow? server/discover once more ─▶ modern, or no verdict
//
// Nothing that might pass is a verdict: not 5xx, not 429, no failure of the
// network (basic/versioning, "Backward Compatibility").
func (c *Client) chooseEra(ctx context.Context, old *connection, era protocol.Era) (*connection, error) {
	peer := c.peer.(protocol.LegacyPeer)
	if old.isLegacy() {
		_ = old.session.peer.Close() // it has ended; let go of what is left
	}
	if c.opts.Era == protocol.Legacy {
		return c.openSession(ctx, peer)
	}
	var first error // what there is to say against legacy, if it was tried first
	if era == protocol.Legacy {
		conn, err := c.openSession(ctx, peer)
		if err == nil || !isFinalRefusal(err) {
			return conn, err
		}
		first = err
	}
	conn, legacy, err := c.probeServer(ctx, peer)
	if !legacy {
		return conn, err
	}
	if first != nil {
		return nil, &NegotiationError{Modern: err, Legacy: first}
	}
	conn, failed := c.openSession(ctx, peer)
	if failed == nil && c.opts.LegacyChosen != nil {
		c.opts.LegacyChosen(ctx, conn.version, err)
	}
	if failed == nil || !isFinalRefusal(failed) {
		return conn, failed
	}
	// A server that was not up yet when it was asked is up now.
	if errors.Is(err, context.DeadlineExceeded) {
		if conn, legacy, again := c.probeServer(ctx, peer); !legacy && again == nil {
			return conn, nil
		}
	}
	return nil, &NegotiationError{Modern: err, Legacy: failed}
}

// refused reports whether it was the server that said no, for good.
func isFinalRefusal(err error) bool {
	if said, ok := protocol.AsError(err); ok {
		return said.Code != protocol.CodeBusy // which passes
	}
	if _, unusable := errors.AsType[*ResponseError](err); unusable {
		return true
	}
	return isLegacyStatus(err)
}

// legacyStatus reports whether err is an HTTP status with which servers of
// legacy revisions refuse modern requests. 401 and 403 are about who asks, 408
// and 429 about when.
func isLegacyStatus(err error) bool {
	status, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err)
	if !ok {
		return false
	}
	switch s := status.HTTPStatus(); s {
	case 401, 403, 408, 429:
		return false
	default:
		return s >= 400 && s < 500
	}
}

// discover asks the server what it speaks. Legacy reports that it is to be
// tried with initialize; err then is what speaks against a modern server.
func (c *Client) probeServer(ctx context.Context, peer protocol.LegacyPeer) (conn *connection, legacy bool, err error) {
	l := leg{method: protocol.MethodDiscover, params: &protocol.DiscoverParams{}}
	id := c.nextID()
	meta := l.params.RequestMetadata()
	c.fillMetadata(meta, id, false)
	params, err := protocol.EncodeParams(l.params)
	if err != nil {
		return nil, false, errPrefix.Errorf("%s: %w", l.method, err)
	}
	entry := c.cacheSlot(ctx, l)
	req := &protocol.Request{ID: id, Method: l.method, Params: params, Mirror: protocol.Mirror{Version: c.version}}
	resp, legacy, err := peer.Probe(ctx, req)
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if err != nil {
		return nil, legacy, &TransportError{l.method, err}
	}
	result, err := c.decodeResponse(c.version, req, resp)
	said, isError := protocol.AsError(err)
	switch {
	case err == nil:
		found := result.(*protocol.DiscoverResult)
		if slices.Contains(found.SupportedVersions, c.version) {
			entry.storeResult(result)
			conn = &connection{version: c.version, peer: c.peer}
			conn.capabilities.Store(&found.Capabilities)
			return conn, false, nil
		}
		err = c.explainRefusal(protocol.UnsupportedVersion(string(c.version), found.SupportedVersions))
		return nil, containsLegacy(found.SupportedVersions), err
	case !isError:
		return nil, true, err // whatever that is, it is not what was asked for
	case slices.Contains(said.SupportedVersions(), c.version):
		// It claims to speak what it refused: the next request will show
		// (basic/versioning, "Protocol Version Negotiation").
		return &connection{version: c.version, peer: c.peer}, false, nil
	case said.SupportedVersions() != nil:
		return nil, containsLegacy(said.SupportedVersions()), err
	case said.Code == protocol.CodeBusy:
		return nil, false, err // says when to come back, and nothing of an era
	}
	return nil, legacy, err
}

// anyLegacy reports whether the list has a legacy revision that this client
// speaks.
func containsLegacy(list []protocol.Version) bool {
	return slices.ContainsFunc(list, func(v protocol.Version) bool {
		return v.Known() && v.Era() == protocol.Legacy
	})
}

func (c *Client) nextID() protocol.ID { return protocol.IntID(c.lastID.Add(1)) }

// doubt looks into a modern connection whose server has just answered as one of
// a legacy revision would, and returns the connection to use instead, nil if
// there is none. The request was refused, so it may be sent again.
func (c *Client) recheckEra(ctx context.Context, conn *connection, err error) *connection {
	if _, can := c.peer.(protocol.LegacyPeer); !can || c.opts.Era == protocol.Modern || conn.isLegacy() {
		return nil
	}
	assumed := conn.unconfirmed.Load()
	if err == nil || !indicatesOtherEra(err, assumed) {
		if err == nil && assumed {
			conn.unconfirmed.Store(false)
		}
		return nil
	}
	last := conn.recheckedAt.Load()
	now := time.Now().UnixNano()
	if !assumed && last != 0 && now-last < int64(recheckInterval) {
		return nil
	}
	if !conn.recheckedAt.CompareAndSwap(last, now) {
		return nil
	}
	c.negotiator.mu.Lock()
	if c.negotiator.current.CompareAndSwap(conn, nil) {
		c.negotiator.era = 0
	}
	c.negotiator.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the next call will find out
	}
	found, failed := c.connect(ctx)
	if failed != nil || !found.isLegacy() {
		return nil
	}
	return found
}

// suspicious reports whether an error may come from a server that does not
// speak modern revisions. As long as nothing but an assumption says that it
// does, every refusal may.
func indicatesOtherEra(err error, assumed bool) bool {
	said, isError := protocol.AsError(err)
	switch {
	case isError && said.EraEvidence():
		supported := said.SupportedVersions()
		return supported != nil && containsLegacy(supported) &&
			!slices.ContainsFunc(supported, func(v protocol.Version) bool { return v.Era() == protocol.Modern })
	case isLegacyStatus(err):
		return true
	case isError:
		// What servers of legacy revisions say to requests outside a session.
		return assumed || said.Code == -32000 || said.Code == -32001 || said.Code == protocol.CodeInvalidRequest
	}
	return assumed && errors.Is(err, context.DeadlineExceeded)
}
