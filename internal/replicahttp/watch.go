package replicahttp

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rondo-mcp/rondo/internal/replica"
)

// watchInterval is how often an owner proves itself while requests are in flight to it. A
// process that is stopped, or behind a network that drops packets, breaks no connection.
const watchInterval = 10 * time.Second

// errSilent says that nothing came from the address of an owner in time.
var errSilent = errors.New("the owner does not answer")

// watchHop has the owner prove itself from time to time until end is called, and cuts the hop
// when nothing has come from the owner for replica.ChannelUse.
func (f *Forwarder) watchHop(h *hop) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.findPeerLocked(h.owner)
	if h.peer = p; p.watch == nil {
		p.hops = map[*hop]struct{}{}
		p.watch = time.AfterFunc(watchInterval, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(p.hops) > 0 {
				f.beginAttemptLocked(h.owner, p)
			}
		})
	}
	if len(p.hops) == 0 {
		p.heard = time.Now() // its silence counts from here on
		p.watch.Reset(watchInterval)
	}
	p.hops[h] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(p.hops, h); len(p.hops) == 0 {
			p.watch.Stop()
		}
	}
}

// watchPeerLocked goes on to watch an owner after an attempt that ended with err. Only silence
// ends requests in flight: an owner that shuts down refuses connections and finishes what it has
// begun, and the connections to one that died break by themselves.
func watchPeerLocked(p *peer, err error) {
	silent := errors.Is(err, errSilent)
	if !silent {
		p.heard = time.Now()
	}
	if len(p.hops) == 0 {
		return
	}
	p.watch.Reset(watchInterval)
	if !silent {
		return
	}
	p.watch.Reset(failureLife)
	if time.Since(p.heard) >= replica.ChannelUse {
		for h := range p.hops {
			h.cut(fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
		}
	}
}

// A watchedBody is the body of an owner's response. What is read of it is a sign of life: quiet
// streams carry a comment before ChannelUse is over.
type watchedBody struct {
	io.ReadCloser
	hop *hop
}

// Read implements [io.Reader].
func (b watchedBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); n > 0 {
		b.hop.forwarder.mu.Lock()
		defer b.hop.forwarder.mu.Unlock()
		b.hop.peer.heard = time.Now()
	}
	return n, err
}
