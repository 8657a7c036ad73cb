package hophttp

import (
	"context"
	"io"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
)

const (
	// watchInterval is how often an owner proves itself while requests are in flight to it. A
	// process that is stopped, or behind a network that drops packets, breaks no connection.
	watchInterval = 10 * time.Second
	// maxSilence ends requests in flight without a sign of life. Quiet streams carry comments more
	// often.
	maxSilence = 30 * time.Second
	// hastyPart is the part of a patience after which the owner has to prove itself. The rest is
	// for the proof.
	hastyPart = 4
)

// A flight is one request to an owner, and the body of its response, of which each read is a sign
// of life. The owner is watched until it is closed.
type flight struct {
	io.ReadCloser // nil until there is a response
	forwarder     *Forwarder
	peer          *peer
	ctx           context.Context // of the request
	cut           context.CancelCauseFunc
	began         time.Time
	until         time.Time   // when there must have been a sign of life; zero: maxSilence counts
	timer         *time.Timer // runs watchOwner
}

// watchFlight has the owner of a request watched until end or Close is called.
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

// watchOwner has the owner prove itself if nothing came from it lately, and runs again later. It
// cuts the request when nothing has come for maxSilence. Only silence does that: who shuts down
// refuses connections and finishes what it has begun, and connections to the dead break.
func (x *flight) watchOwner() {
	f := x.forwarder
	f.mu.Lock()
	defer f.mu.Unlock()
	silence := min(time.Since(x.peer.heard), time.Since(x.began))
	wait := watchInterval - silence
	if x.peer.proven.After(x.began) { // what was heard may have been said before
		x.until = time.Time{}
	}
	switch left := time.Until(x.until); {
	case x.ctx.Err() != nil:
		return
	case !x.until.IsZero() && left > 0:
		f.beginAttemptLocked(x.peer)
		wait = left
	case !x.until.IsZero() && (x.peer.failed == nil || failureOf(x.peer.failed).silent):
		x.cut(&failure{outcome: words.ForwardUnknown, err: errSilent, silent: true})
		return
	case silence >= maxSilence && failureOf(x.peer.failed).silent:
		x.cut(&failure{outcome: words.ForwardUnknown, err: errSilent, silent: true})
		return
	case wait <= 0:
		f.beginAttemptLocked(x.peer)
		wait = failureLife
	}
	x.timer.Reset(wait)
}

// Read implements [io.Reader].
func (x *flight) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	if n > 0 {
		x.forwarder.mu.Lock()
		x.peer.heard = time.Now()
		x.forwarder.mu.Unlock()
	}
	return n, err
}

// Close implements [io.Closer].
func (x *flight) Close() error {
	defer x.end()
	return x.ReadCloser.Close()
}
