package replica

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/recent"
)

const (
	// MaxChannels is how many channels an owner keeps, each of 0.6 KiB. A replica opens
	// one in ten seconds at most, so the channels of a hundred replicas have room
	// until they expire. The oldest makes room; who used it opens another.
	MaxChannels = 4096
	// ChannelUse is how long a replica sends requests on a channel, and so how long it
	// trusts that the owner is still the one at the address, and lives.
	ChannelUse = 30 * time.Second
	// ChannelLife is how long an owner accepts requests on a channel: ChannelUse, and
	// time enough for the largest body to arrive.
	ChannelLife = 5 * time.Minute
	// windowSize is how far a request may be overtaken by later ones of its channel.
	windowSize = 4096
)

// Channels are those that one owner has handed out. All methods may be called
// concurrently.
type Channels struct {
	mu      sync.Mutex
	windows *recent.Map[ChannelID, *window]
}

// NewChannels returns an empty set.
func NewChannels() *Channels {
	return &Channels{windows: recent.New[ChannelID, *window](MaxChannels, ChannelLife)}
}

// Open returns a new channel.
func (c *Channels) Open() (id ChannelID) {
	rand.Read(id[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.windows.Put(id, &window{})
	return id
}

// Admit reports whether a request is the first with its number on a channel, and whether
// the channel is one that is accepted.
func (c *Channels) Admit(id ChannelID, sequence uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.windows.Get(id)
	return ok && w.admitNumber(sequence)
}

// A window remembers which of the last windowSize numbers were seen. Bit n%windowSize
// stands for the number n.
type window struct {
	highest uint64
	seen    [windowSize / 64]uint64
}

// admitNumber notes a number. It reports false when it was seen, or is too low to tell.
// Numbers begin at 1.
func (w *window) admitNumber(n uint64) bool {
	if n == 0 || n+windowSize <= w.highest || n > w.highest+1<<32 {
		return false
	}
	switch {
	case n >= w.highest+windowSize:
		clear(w.seen[:])
	case n > w.highest:
		for skipped := w.highest + 1; skipped < n; skipped++ {
			w.seen[skipped%windowSize/64] &^= 1 << (skipped % 64)
		}
	case w.seen[n%windowSize/64]&(1<<(n%64)) != 0:
		return false
	}
	w.highest = max(w.highest, n)
	w.seen[n%windowSize/64] |= 1 << (n % 64)
	return true
}
