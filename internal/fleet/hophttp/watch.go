package hophttp

import (
	"context"
	"io"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
)

const (
	// watchInterval is how often an owner must prove itself while requests are in flight: a stopped
	// process or a network that drops packets breaks no connection.
	watchInterval = 10 * time.Second
	// maxSilence ends requests without a sign of life. Quiet streams send comments more often.
	maxSilence = 30 * time.Second
	hastyPart  = 4 // after 1/hastyPart of a patience the owner must prove itself
)

// A flight is a request to an owner, and the response body. Its owner is watched until Close.
type flight struct {
	io.ReadCloser // nil until there is a response
	forwarder     *Forwarder
	peer          *peer
	ctx           context.Context // of the request
	cut           context.CancelCauseFunc
	began         time.Time
	until         time.Time   // deadline for a sign of life; zero means maxSilence
	timer         *time.Timer // runs watchOwner
}

// watchFlight watches the owner of a request until end or Close.
func (f *Forwarder) watchFlight(ctx context.Context, p *peer, until time.Time) *flight {
	x := &flight{forwarder: f, peer: p, began: time.Now(), until: until}
	x.ctx, x.cut = context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := watchInterval
	if !until.IsZero() {
		wait = time.Until(until) / hastyPart
	}
	x.timer = time.AfterFunc(wait, x.watchOwner)
	return x
}

func (x *flight) end() {
	x.cut(nil)
	x.timer.Stop()
}

// watchOwner makes a silent owner prove itself, and runs again later. It cuts the request after
// maxSilence. Only silence has this effect: an owner that shuts down refuses connections but
// finishes its requests, and connections to a dead owner break.
func (x *flight) watchOwner() {
	f := x.forwarder
	f.mu.Lock()
	defer f.mu.Unlock()
	silence := min(time.Since(x.peer.heard), time.Since(x.began))
	wait := watchInterval - silence
	if x.peer.proven.After(x.began) { // it answered a challenge sent since
		x.until = time.Time{}
	}
	silent := failureOf(x.peer.failed).silent
	switch left := time.Until(x.until); {
	case x.ctx.Err() != nil:
		return
	case !x.until.IsZero() && left > 0:
		f.beginAttemptLocked(x.peer)
		wait = left
	case !x.until.IsZero() && (x.peer.failed == nil || silent),
		silence >= maxSilence && silent:
		x.cut(&failure{outcome: words.ForwardUnknown, err: errSilent, silent: true})
		return
	case wait <= 0:
		f.beginAttemptLocked(x.peer)
		wait = failureLife
	}
	x.timer.Reset(wait)
}

func (x *flight) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	if n > 0 {
		x.forwarder.mu.Lock()
		x.peer.heard = time.Now()
		x.forwarder.mu.Unlock()
	}
	return n, err
}

func (x *flight) Close() error {
	defer x.end()
	return x.ReadCloser.Close()
}
