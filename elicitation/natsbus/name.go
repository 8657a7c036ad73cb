package natsbus

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/natskv"
	"github.com/rondo-mcp/rondo/internal/sleep"
)

// retryInterval is the time between two requests to a replica at whose subject nobody
// listens.
const retryInterval = 25 * time.Millisecond

// SendTo sends a message again when it has waited for the answer for minPatience, twice
// that, and so on up to maxPatience. NATS may lose a message, above all when its receiver
// has just died.
const (
	minPatience = 500 * time.Millisecond
	maxPatience = 4 * time.Second
)

// Name implements [elicitation.Bus].
func (b *Bus) Name() string { return b.id.String() }

// SendTo implements [elicitation.Bus]. It uses core NATS alone as long as somebody listens
// at the subject of the replica, so that elections of JetStream do not matter to it. Only
// when nobody does, the directory decides whether the replica is gone: see the package
// comment. A message may get lost on its way: it is sent again while ctx lasts.
func (b *Bus) SendTo(
	ctx context.Context, name, key string, message []byte,
) ([]byte, error) {
	if err := b.checkMessage(ctx, key, message); err != nil {
		return nil, err
	}
	id, ok := parseReplicaID(name)
	if !ok {
		return nil, elicitation.ErrOwnerDead // nobody has, or had, this name
	}
	if id == b.id {
		return b.callHandler(ctx, key, message)
	}
	watch, patience := absence{id: id}, minPatience
	for {
		err := b.bucket.WaitConnected(ctx)
		if err != nil {
			return nil, b.wrapError("send", err)
		}
		r := request{revision: noClaim, key: key}
		answer, err := b.sendPatiently(ctx, patience, id, r, message)
		switch {
		case err == nil:
			return answer, nil
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			patience = min(2*patience, maxPatience)
			continue
		case !errors.Is(err, errNobody):
			return nil, b.wrapError("send", err)
		case b.isGone(ctx, &watch):
			return nil, elicitation.ErrOwnerDead
		}
		if sleep.For(ctx, retryInterval) != nil {
			return nil, b.wrapError("send", err)
		}
	}
}

// sendPatiently is sendRequest with a time limit.
func (b *Bus) sendPatiently(
	ctx context.Context, limit time.Duration, to replicaID, r request, message []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return b.sendRequest(ctx, to, r, message)
}

// checkMessage refuses what cannot be sent.
func (b *Bus) checkMessage(ctx context.Context, key string, message []byte) error {
	if err := b.checkCall(ctx, key); err != nil {
		return err
	}
	if len(message) > elicitation.MaxBusMessage {
		return fmt.Errorf("natsbus: send: message of %d bytes, more than %d",
			len(message), elicitation.MaxBusMessage)
	}
	return nil
}

// parseReplicaID accepts what String returns.
func parseReplicaID(name string) (id replicaID, ok bool) {
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != idSize {
		return id, false
	}
	copy(id[:], raw)
	return id, id.String() == name // no capitals
}

// An absence is what is known of a replica at whose subject nobody listens.
type absence struct {
	id    replicaID
	since time.Time // of the first request that nobody received
	// confirmed is when it was known that the server to which the replica is connected
	// can be reached since, zero: not yet.
	confirmed time.Time
	checked   time.Time // when that was looked at last
}

// isGone reports whether a replica is gone for good. The servers know at once that the
// connection of a process that has ended is closed. But nobody listens either while the
// replica reconnects, and while its server is cut off from this one. So the server must
// have been in contact with the leader of the directory since the first request was not
// received, and Grace must have passed after that. It is called after each request that
// nobody received.
func (b *Bus) isGone(ctx context.Context, a *absence) bool {
	now := time.Now()
	if a.since.IsZero() {
		a.since = now
	}
	if a.confirmed.IsZero() {
		if now.Sub(a.checked) < checkInterval {
			return false
		}
		a.checked = now
		if b.isHomeInContact(ctx, a) {
			a.confirmed = now
		}
		return !a.confirmed.IsZero() && b.opts.Grace < 0
	}
	return now.Sub(a.confirmed) >= b.opts.Grace
}

// isHomeInContact makes one attempt at finding out whether the server of an absent replica
// is in contact with the leader of the directory, or the directory does not know the replica
// any more.
func (b *Bus) isHomeInContact(ctx context.Context, a *absence) bool {
	within, cancel := b.withTimeout(ctx)
	defer cancel()
	home, cluster, err := b.readHome(within, a.id)
	if err != nil {
		if ctx.Err() == nil { // else the caller gave up
			b.doubts.add(theDirectory)
		}
		return false
	}
	name := string(home.Value)
	last, known := cluster.Contact(name)
	// A living replica writes itself into a new directory when it renews its lease.
	isNew := cluster.Age < b.opts.Lease/renewals
	switch {
	case (home.Gone || !known) && isNew:
		return false
	case home.Gone:
		return b.hasNoEntry(within, homeKey(a.id))
	case !known:
		return b.hasNoEntry(within, leaseKey(a.id))
	case time.Since(last) > maxQuiet:
		b.doubts.add(name)
		return false
	}
	return last.After(a.since) && !b.doubts.isRecent(name)
}

// readHome makes one attempt at reading the name of a replica's server, and what the leader
// of the directory knows of the servers after a write.
func (b *Bus) readHome(
	ctx context.Context, id replicaID,
) (home natskv.Entry, cluster natskv.Cluster, err error) {
	if home, err = b.bucket.Get(ctx, homeKey(id)); err != nil {
		return home, cluster, err
	}
	cluster, err = b.looks.share(ctx, func(ctx context.Context) (natskv.Cluster, error) {
		// Followers acknowledge this write: the leader hears from them now.
		if _, err := b.renewLease(ctx); err != nil {
			return natskv.Cluster{}, err
		}
		return b.bucket.Cluster(ctx)
	})
	return home, cluster, err
}

// observeServers looks for servers that cannot be reached. It reports whether the directory
// is another one than before, because a server has lost its disk.
func (b *Bus) observeServers(ctx context.Context) (isNew bool) {
	cluster, err := b.bucket.Cluster(ctx)
	if err != nil {
		b.doubts.add(theDirectory)
		return false
	}
	isNew = !cluster.Created.Equal(b.since)
	b.since = cluster.Created
	for name, last := range cluster.Contacts {
		if time.Since(last) > maxQuiet {
			b.doubts.add(name)
		}
	}
	return isNew
}

const (
	// checkInterval is the time between two looks at the server of an absent replica.
	checkInterval = 100 * time.Millisecond
	// maxQuiet is for how long the leader of the directory may not have heard from a server
	// that is well. Servers exchange heartbeats each second.
	maxQuiet = 2 * time.Second
	// doubtTime is how long a server that could not be reached is not trusted after it can
	// be again. Servers have several connections to each other, for JetStream and for
	// messages, and restore them one by one, within seconds.
	doubtTime = 5 * time.Second
)

// theDirectory stands for all servers in doubts.
const theDirectory = ""

// doubts are when servers could last not be reached, by name.
type doubts struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (d *doubts) add(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = make(map[string]time.Time)
	}
	now := time.Now()
	for name, last := range d.last {
		if now.Sub(last) > doubtTime {
			delete(d.last, name)
		}
	}
	d.last[server] = now
}

// isRecent reports whether the server, or the directory, could not be reached lately.
func (d *doubts) isRecent(server string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	return now.Sub(d.last[server]) < doubtTime || now.Sub(d.last[theDirectory]) < doubtTime
}

// hasNoEntry reports whether a key is not in the directory for certain.
func (b *Bus) hasNoEntry(ctx context.Context, key string) bool {
	found, err := b.findEntry(ctx, key)
	return err == nil && found.Gone
}

// homeLeases is for how many leases the name of a replica's server outlives the replica.
const homeLeases = 12

func homeKey(id replicaID) string { return "h." + id.String() }

// writeHome makes one attempt at storing the name of the server that this replica is
// connected to.
func (b *Bus) writeHome(ctx context.Context) error {
	name := b.nc.ConnectedServerName()
	if name == "" {
		return nil // it reconnects, and is called again then
	}
	_, err := b.bucket.Put(ctx, homeKey(b.id), []byte(name), homeLeases*b.opts.Lease)
	return err
}
