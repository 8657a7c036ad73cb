package hosted

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

const (
	defaultMaxSessions = 1000
	// maxClients limits a principal's 2026-07-28 sessions, by client name and capabilities.
	maxClients   = 8
	idleTime     = 5 * time.Minute // of an unused session of revision 2026-07-28
	closeTimeout = 5 * time.Second // for sessions that are being opened, when a server closes
)

type sessionTable struct {
	host *Server
	max  int

	mu     sync.Mutex
	kept   map[any]*keptSession // by *server.Session or clientKey
	closed bool

	closing sync.WaitGroup // sessions that are being closed
}

// A clientKey identifies a client of revision 2026-07-28.
type clientKey struct {
	principal protocol.Principal
	client    [32]byte
}

// A keptSession is opened by the first request that needs it, which then closes ready.
type keptSession struct {
	key   any
	ready chan struct{}
	*session
	err error

	// Under the lock of the table:
	users    int
	lastUsed time.Time
	idle     *time.Timer
	dropped  bool        // to be closed by the last user
	unwatch  func() bool // stops watching the client's session, with which it ends; may be nil
}

// sessionFor returns the session for a request, and the function that releases it.
func (t *sessionTable) sessionFor(
	ctx context.Context, req *server.Request,
) (*session, func(), error) {
	caller := callerOf(ctx, req)
	key, err := t.keyFor(req, caller)
	if err != nil {
		return nil, nil, err
	}
	for {
		k, opens, err := t.take(key)
		switch {
		case err != nil:
			return nil, nil, err
		case k == nil:
			return t.openOne(ctx, req, caller)
		case opens:
			go t.open(context.WithoutCancel(ctx), k, req.Session(), caller)
		}
		select {
		case <-k.ready:
		case <-ctx.Done():
			t.giveBack(k)
			return nil, nil, context.Cause(ctx)
		}
		if k.err == nil && !k.isOver() {
			return k.session, sync.OnceFunc(func() { t.giveBack(k) }), nil
		}
		t.drop(k)
		t.giveBack(k)
		switch {
		case k.err != nil && (opens || ctx.Err() != nil):
			return nil, nil, k.err
		case k.err == nil && opens:
			return nil, nil, errOpenedOver
		}
	}
}

// keyFor returns the table key of a request's session, or nil if the session is not kept.
func (t *sessionTable) keyFor(req *server.Request, caller *Caller) (any, error) {
	switch front := req.Session(); {
	case t.host.opts.PerRequest:
		return nil, nil
	case front != nil:
		return front, nil
	case req.Principal == protocol.Principal{} || t.max < 0:
		return nil, nil
	}
	declared, err := json.Marshal([]any{caller.Client, caller.Capabilities})
	return clientKey{req.Principal, sha256.Sum256(declared)}, err
}

var errOpenedOver = fmt.Errorf("hosted: the server has closed the session at once: %w",
	protocol.ErrSessionGone)

var errClosed = errors.New("hosted: the server is closed")

// take returns the session under key, or nil without room. Release it, and open it if opens.
func (t *sessionTable) take(key any) (k *keptSession, opens bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, errClosed
	}
	if key == nil {
		return nil, false, nil
	}
	if k = t.kept[key]; k == nil {
		if client, ok := key.(clientKey); ok && !t.makeRoomLocked(client.principal) {
			return nil, false, nil
		}
		// Opening uses the session, too.
		k, opens = &keptSession{key: key, ready: make(chan struct{}), users: 1}, true
		t.kept[key] = k
	}
	k.users++
	if k.idle != nil {
		k.idle.Stop()
		k.idle = nil
	}
	return k, opens, nil
}

// makeRoomLocked makes room for a session of p by closing the longest idle session, or p's longest
// idle session if p has maxClients.
func (t *sessionTable) makeRoomLocked(p protocol.Principal) bool {
	total, own := 0, 0
	var oldest, oldestOwn *keptSession
	for key, k := range t.kept {
		client, ok := key.(clientKey)
		if !ok {
			continue
		}
		total++
		older := func(than *keptSession) bool {
			return k.users == 0 && (than == nil || k.lastUsed.Before(than.lastUsed))
		}
		if older(oldest) {
			oldest = k
		}
		if client.principal == p {
			own++
			if older(oldestOwn) {
				oldestOwn = k
			}
		}
	}
	switch {
	case own >= maxClients:
		oldest = oldestOwn
	case total < t.max:
		return true
	}
	if oldest == nil {
		return false
	}
	t.dropLocked(oldest)
	return true
}

// open opens a kept session. Others wait for it, so it outlives the request that opens it.
func (t *sessionTable) open(
	ctx context.Context, k *keptSession, front *server.Session, caller *Caller,
) {
	defer t.giveBack(k)
	defer close(k.ready)
	k.session, k.err = t.host.openNamed(ctx, caller, front)
	if k.err == nil && front != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		k.unwatch = context.AfterFunc(front.Lifetime(), func() { t.drop(k) })
	}
}

func (t *sessionTable) openOne(
	ctx context.Context, req *server.Request, caller *Caller,
) (*session, func(), error) {
	s, err := t.host.openNamed(ctx, caller, req.Session())
	if err != nil {
		return nil, nil, err
	}
	return s, sync.OnceFunc(s.close), nil
}

func (h *Server) openNamed(
	ctx context.Context, caller *Caller, front *server.Session,
) (*session, error) {
	named := *caller
	named.SessionID = rand.Text()
	return h.openSession(ctx, &named, front)
}

// giveBack releases a session, which closes after idleTime, or with the client's session if any.
func (t *sessionTable) giveBack(k *keptSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.users--
	k.lastUsed = time.Now()
	if k.users > 0 {
		return
	}
	if k.dropped {
		t.closeLater(k)
		return
	}
	if _, client := k.key.(clientKey); client {
		k.idle = time.AfterFunc(idleTime, func() { t.dropIdle(k) })
	}
}

func (t *sessionTable) dropIdle(k *keptSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users == 0 {
		t.dropLocked(k)
	}
}

// drop removes a session from the table. It is closed after its last request.
func (t *sessionTable) drop(k *keptSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(k)
}

func (t *sessionTable) dropLocked(k *keptSession) {
	if k.dropped {
		return
	}
	k.dropped = true
	if k.unwatch != nil {
		k.unwatch()
	}
	if t.kept[k.key] == k {
		delete(t.kept, k.key)
	}
	if k.users == 0 {
		t.closeLater(k)
	}
}

// closeLater closes a session on another goroutine, because that may run code of the hosted server.
func (t *sessionTable) closeLater(k *keptSession) {
	if k.idle != nil {
		k.idle.Stop()
	}
	switch {
	case k.session == nil:
	case t.closed: // closeAll may already wait for the others
		go k.session.close()
	default:
		t.closing.Go(k.session.close)
	}
}

// closeAll closes all sessions, even those in use.
func (t *sessionTable) closeAll() {
	t.mu.Lock()
	t.closed = true
	var open []*keptSession
	for _, k := range t.kept {
		k.dropped = true
		if k.idle != nil {
			k.idle.Stop()
		}
		open = append(open, k)
	}
	clear(t.kept)
	t.mu.Unlock()
	timeout := time.After(closeTimeout)
	for _, k := range open {
		select {
		case <-k.ready:
			if k.session != nil {
				k.session.close()
			}
		case <-timeout: // open closes it
		}
	}
	t.closing.Wait()
}
