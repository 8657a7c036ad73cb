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

// watchOwner has the owner prove itself if nothing came from it lately, and runs again later. It
// cuts the hop when nothing has come for replica.ChannelUse. Only silence does that: who shuts down
// refuses connections and finishes what it has begun, and connections to the dead break.
func (h *hop) watchOwner() {
	f := h.forwarder
	f.mu.Lock()
	defer f.mu.Unlock()
	silence := min(time.Since(h.peer.heard), time.Since(h.began))
	wait := watchInterval - silence
	switch {
	case h.arrived.Context().Err() != nil:
		return
	case silence >= replica.ChannelUse && errors.Is(h.peer.failed, errSilent):
		h.cut(fmt.Errorf("%w: %w", ErrOutcomeUnknown, h.peer.failed))
		return
	case wait <= 0:
		f.beginAttemptLocked(h.owner, h.peer)
		wait = failureLife
	}
	h.watch.Reset(wait)
}

// A watchedBody is the body of an owner's response. What is read of it is a sign of life: quiet
// streams carry a comment before ChannelUse is over.
type watchedBody struct {
	io.ReadCloser
	hop *hop
}

// Read implements [io.Reader].
func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if f := b.hop.forwarder; n > 0 {
		f.mu.Lock()
		b.hop.peer.heard = time.Now()
		f.mu.Unlock()
	}
	return n, err
}
