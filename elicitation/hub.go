package elicitation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Hub is a bus within one process. It serves tests, and programs that run
// several routers. Its zero value is not ready; use [NewHub].
type Hub struct {
	mu     sync.Mutex
	claims map[string]hubClaim
	ends   map[string]*hubBus // by name; those that are open
}

type hubClaim struct {
	owner   *hubBus
	expires time.Time
}

// NewHub returns a hub without replicas.
func NewHub() *Hub {
	return &Hub{claims: make(map[string]hubClaim), ends: make(map[string]*hubBus)}
}

// Bus returns the end of one more replica. The claims of a replica whose end is closed
// are freed when another replica claims the key; until then Send returns [ErrOwnerDead].
func (h *Hub) Bus() Bus {
	b := &hubBus{hub: h, name: newID()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[b.name] = b
	return b
}

type hubBus struct {
	hub    *Hub
	name   string
	answer busHandler // guarded by hub.mu
	closed bool       // guarded by hub.mu
}

// A busHandler is the function that the router gives to Listen.
type busHandler = func(ctx context.Context, key string, message []byte) []byte

func (b *hubBus) Name() string { return b.name }

func (b *hubBus) Listen(answer busHandler) error {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	switch {
	case b.closed:
		return ErrBusClosed
	case answer == nil:
		return errors.New("elicitation hub: nothing to listen with")
	case b.answer != nil:
		return errors.New("elicitation hub: this end has a router already")
	}
	b.answer = answer
	return nil
}

func (b *hubBus) Claim(ctx context.Context, key string, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.closed {
		return ErrBusClosed
	}
	now := time.Now()
	if c, ok := b.hub.claims[key]; ok && c.owner != b && c.isLiveLocked(now) {
		return ErrClaimed
	}
	b.hub.claims[key] = hubClaim{owner: b, expires: now.Add(ttl)}
	return nil
}

func (c hubClaim) isLiveLocked(now time.Time) bool {
	return !c.owner.closed && now.Before(c.expires)
}

func (b *hubBus) Release(key string) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.hub.claims[key].owner == b {
		delete(b.hub.claims, key)
	}
}

func (b *hubBus) Send(ctx context.Context, key string, message []byte) ([]byte, error) {
	return b.send(ctx, key, message, func() (busHandler, error) { return b.findOwner(key) })
}

func (b *hubBus) SendTo(ctx context.Context, name, key string, message []byte) ([]byte, error) {
	return b.send(ctx, key, message, func() (busHandler, error) { return b.findNamed(name) })
}

// send has the handler that find returns answer a message.
func (b *hubBus) send(
	ctx context.Context, key string, message []byte, find func() (busHandler, error),
) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(message) > MaxBusMessage {
		return nil, fmt.Errorf(
			"elicitation hub: message of %d bytes, more than %d", len(message), MaxBusMessage)
	}
	answer, err := find()
	if err != nil {
		return nil, err
	}
	reply := answer(ctx, key, message)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return reply, nil
}

// findOwner returns the handler of the replica that has claimed key.
func (b *hubBus) findOwner(key string) (busHandler, error) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.closed {
		return nil, ErrBusClosed
	}
	c, ok := b.hub.claims[key]
	switch {
	case !ok:
		return nil, ErrNoOwner
	case c.owner.closed || c.owner.answer == nil:
		return nil, ErrOwnerDead
	case !c.isLiveLocked(time.Now()):
		delete(b.hub.claims, key)
		return nil, ErrNoOwner
	}
	return c.owner.answer, nil
}

// findNamed returns the handler of the replica with a name.
func (b *hubBus) findNamed(name string) (busHandler, error) {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.closed {
		return nil, ErrBusClosed
	}
	owner := b.hub.ends[name]
	if owner == nil || owner.answer == nil {
		return nil, ErrOwnerDead
	}
	return owner.answer, nil
}

func (b *hubBus) Close() error {
	b.hub.mu.Lock()
	defer b.hub.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	delete(b.hub.ends, b.name)
	// Claims stay until they expire, as those of a dead replica do, so that Send
	// returns ErrOwnerDead for a late reply. Expired ones are dropped.
	now := time.Now()
	for key, c := range b.hub.claims {
		if !now.Before(c.expires) {
			delete(b.hub.claims, key)
		}
	}
	return nil
}
