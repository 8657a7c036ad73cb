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
)

// maxAnswerTime is how long an answer may take. Owners answer from memory;
// who has not done so by then has lost the message or hangs.
const maxAnswerTime = 30 * time.Second

// A Bus is one replica's end of an [elicitation.Bus] over NATS. It may be used
// concurrently. Two goroutines of its own run until Close.
type Bus struct {
	opts    Options
	bucket  *bucket
	barrier *barrier
	nc      *nats.Conn
	id      replicaID

	life     context.Context // ends when the bus closes
	end      context.CancelFunc
	tasks    sync.WaitGroup // its own goroutines, and answers on their way
	releases chan release
	slots    chan struct{} // taken by answers on their way

	mu        sync.Mutex
	closed    bool
	answer    func(ctx context.Context, key string, message []byte) []byte
	questions *nats.Subscription
	answers   *nats.Subscription
	held      map[string]held
	waiting   map[string]*waiter // by the last word of the reply subject

	failing sync.Mutex // so that calls of Options.Failed do not overlap
	partial partials   // used by the callback of questions alone
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
	const leastPayload = 4 << 10 // MaxBusMessage in maxParts, and frames
	if n := js.Conn().MaxPayload(); n < leastPayload {
		return nil, fmt.Errorf("natsbus: the server takes messages of %d bytes, want at least %d", n, leastPayload)
	}
	bucket, err := openBucket(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	b := &Bus{
		opts: o, bucket: bucket, barrier: newBarrier(), nc: js.Conn(), id: newReplicaID(),
		releases: make(chan release, maxReleases), slots: make(chan struct{}, MaxAnswering),
		held: make(map[string]held), waiting: make(map[string]*waiter), partial: make(partials),
	}
	b.life, b.end = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := b.renew(ctx); err != nil {
		b.end()
		return nil, fmt.Errorf("natsbus: lease: %w", err)
	}
	if b.answers, err = b.nc.Subscribe(b.answerSubject("*"), b.onAnswer); err != nil {
		b.end()
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	b.tasks.Go(b.live)
	b.tasks.Go(b.work)
	return b, nil
}

func (b *Bus) questionSubject(id replicaID) string { return b.opts.Prefix + ".q." + id.String() }
func (b *Bus) answerSubject(last string) string {
	return b.opts.Prefix + ".a." + b.id.String() + "." + last
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
	case b.answer != nil:
		return errors.New("natsbus: listen: this end has a router already")
	}
	sub, err := b.nc.Subscribe(b.questionSubject(b.id), b.onQuestion)
	if err == nil {
		// A claim must not be found before its owner is.
		err = b.nc.FlushTimeout(b.opts.Timeout)
	}
	if err != nil {
		if sub != nil {
			_ = sub.Unsubscribe()
		}
		return fmt.Errorf("natsbus: listen: %w", err)
	}
	b.answer, b.questions = answer, sub
	return nil
}

// Close implements [elicitation.Bus]. It waits for answers that are being
// made, and tells the others that this replica is gone, for which it takes no
// longer than [Options].Timeout. The claims end with it.
func (b *Bus) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	_ = b.answers.Unsubscribe() // fails when the connection is closed
	if b.questions != nil {
		_ = b.questions.Unsubscribe()
	}
	b.mu.Unlock()

	b.end()
	b.tasks.Wait()
	if !b.nc.IsConnected() {
		return nil // the lease ends by itself
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.opts.Timeout)
	defer cancel()
	if err := b.bucket.kv.Purge(ctx, leaseKey(b.id), jetstream.PurgeTTL(markerTTL)); err != nil {
		return fmt.Errorf("natsbus: close: lease: %w", err)
	}
	return nil
}

// usable refuses calls that make no sense.
func (b *Bus) usable(ctx context.Context, key string) error {
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

// bound limits a use of the directory, which also ends with the bus.
func (b *Bus) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	stop := context.AfterFunc(b.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// failure says what a caller gets to see.
func (b *Bus) failure(what string, err error) error {
	if b.life.Err() != nil {
		return elicitation.ErrBusClosed
	}
	if errors.Is(err, elicitation.ErrClaimed) {
		return err
	}
	return fmt.Errorf("natsbus: %s: %w", what, err)
}

func (b *Bus) failed(err error) {
	b.failing.Lock()
	defer b.failing.Unlock()
	b.opts.Failed(err)
}
