package natsbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/natskv"
)

// maxResponseTime is how long the response to a request may take. Owners respond
// from memory; one that needs longer has lost the request or hangs.
const maxResponseTime = 30 * time.Second

// handler is what a router gives to Listen.
type handler func(ctx context.Context, key string, message []byte) []byte

// A Bus is one replica's end of an [elicitation.Bus] over NATS. It may be used
// concurrently. Two goroutines of its own run until Close.
type Bus struct {
	opts   Options
	bucket *natskv.Bucket          // the directory
	marks  *shared[uint64]         // the writes of findEntry
	looks  *shared[natskv.Cluster] // at the servers, by isGone
	since  time.Time               // when the directory was created; keepLease alone uses it
	doubts doubts                  // about servers, for isGone
	js     jetstream.JetStream
	nc     *nats.Conn
	id     replicaID

	life     context.Context // ends when the bus closes
	endLife  context.CancelFunc
	tasks    sync.WaitGroup // the two goroutines, and handlers that run
	releases chan release
	slots    chan struct{} // one is taken by each handler that runs

	mu        sync.Mutex
	closed    bool
	handler   handler // nil before Listen
	requests  *nats.Subscription
	responses *nats.Subscription
	held      map[string]heldClaim // by key
	waiting   map[string]*waiter   // by the last token of the reply subject

	failedMu sync.Mutex // held while Options.Failed is called
}

var _ elicitation.Bus = (*Bus)(nil)

// New opens one end of the bus. It fails when NATS cannot be reached within
// [Options].Timeout or the bucket has settings that do not do. The connection
// stays the caller's: it must outlive the bus, which the caller closes. ctx
// ends the call, not the bus.
func New(ctx context.Context, js jetstream.JetStream, opts *Options) (*Bus, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	bucket, err := openBucket(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	const leastPayload = 4 << 10 // MaxBusMessage in maxParts, and frames
	// A connection that does not stand yet has no limit; that of openBucket does.
	if n := js.Conn().MaxPayload(); n < leastPayload {
		return nil, fmt.Errorf("natsbus: the server takes messages of %d bytes, want at least %d",
			n, leastPayload)
	}
	b := &Bus{
		opts: o, bucket: bucket, marks: newShared[uint64](), looks: newShared[natskv.Cluster](),
		since: bucket.Created(),
		js:    js, nc: js.Conn(), id: newReplicaID(),
		releases: make(chan release, maxReleases), slots: make(chan struct{}, MaxAnswering),
		held: make(map[string]heldClaim), waiting: make(map[string]*waiter),
	}
	b.life, b.endLife = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := b.renewLease(ctx); err != nil {
		b.endLife()
		return nil, fmt.Errorf("natsbus: lease: %w", err)
	}
	// If this fails the lease alone tells whether the replica is gone, until the next
	// renewal.
	_ = b.writeHome(ctx)
	b.responses, err = b.nc.Subscribe(b.responseSubject("*"), b.receiveResponse)
	if err != nil {
		b.endLife()
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	b.tasks.Go(b.keepLease)
	b.tasks.Go(b.removeReleased)
	return b, nil
}

// requestSubject is where a replica receives requests.
func (b *Bus) requestSubject(id replicaID) string { return b.opts.Prefix + ".q." + id.String() }

// responseSubject is where this replica receives the response to the request that
// has the token given.
func (b *Bus) responseSubject(token string) string {
	return b.opts.Prefix + ".a." + b.id.String() + "." + token
}

// Listen implements [elicitation.Bus].
func (b *Bus) Listen(answer func(ctx context.Context, key string, message []byte) []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return elicitation.ErrBusClosed
	case answer == nil:
		return errors.New("natsbus: listen: there is no function")
	case b.handler != nil:
		return errors.New("natsbus: listen: this end has a router already")
	}
	// Parts that arrive before this fails end with the subscription, whose callback may still
	// run when the next one begins.
	incomplete := make(partials)
	sub, err := b.nc.Subscribe(b.requestSubject(b.id), func(m *nats.Msg) {
		b.receiveRequest(incomplete, m)
	})
	if err == nil {
		// The server must know of the subscription before a claim can be found:
		// otherwise it would say that the owner is gone.
		err = b.nc.FlushTimeout(b.opts.Timeout)
	}
	if err != nil {
		if sub != nil {
			_ = sub.Unsubscribe()
		}
		return fmt.Errorf("natsbus: listen: %w", err)
	}
	b.handler, b.requests = answer, sub
	return nil
}

// Close implements [elicitation.Bus]. It waits for responses that are being
// made, and then removes the lease, so that the other replicas know that this one
// is gone; that takes [Options].Timeout at most. The claims end with the lease.
func (b *Bus) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	_ = b.responses.Unsubscribe() // fails when the connection is closed
	if b.requests != nil {
		_ = b.requests.Unsubscribe()
	}
	b.mu.Unlock()

	b.endLife()
	b.tasks.Wait()
	if !b.nc.IsConnected() {
		return nil // the lease ends by itself
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.opts.Timeout)
	defer cancel()
	// At the same time, so that a removal that takes long leaves the other one its time.
	var errs [2]error
	var removals sync.WaitGroup
	for i, key := range [...]string{leaseKey(b.id), homeKey(b.id)} {
		removals.Go(func() { errs[i] = b.removeEntry(ctx, key) })
	}
	removals.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("natsbus: close: lease: %w", err)
	}
	return nil
}

// removeEntry removes a key that this replica alone writes. It retries until ctx ends.
func (b *Bus) removeEntry(ctx context.Context, key string) error {
	err := b.bucket.Retry(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, b.bucket.AttemptTimeout())
		defer cancel()
		return b.bucket.Remove(ctx, key, 0)
	})
	if errors.Is(err, nats.ErrDisconnected) {
		return nil // the entry ends by itself
	}
	return err
}

// checkCall refuses a call of Claim or Send that cannot succeed.
func (b *Bus) checkCall(ctx context.Context, key string) error {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return elicitation.ErrBusClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return fmt.Errorf("natsbus: %w", err)
	}
	return nil
}

// withTimeout limits a use of the directory, which also ends with the bus.
func (b *Bus) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	stop := context.AfterFunc(b.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// wrapError returns the error that a caller of the bus gets.
func (b *Bus) wrapError(operation string, err error) error {
	if b.life.Err() != nil {
		return elicitation.ErrBusClosed
	}
	if errors.Is(err, elicitation.ErrClaimed) {
		return err
	}
	return fmt.Errorf("natsbus: %s: %w", operation, err)
}

// reportFailure reports an error of a goroutine of the bus.
func (b *Bus) reportFailure(err error) {
	b.failedMu.Lock()
	defer b.failedMu.Unlock()
	b.opts.Failed(err)
}
