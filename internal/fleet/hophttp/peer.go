package hophttp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/server/replicas"
)

const (
	// proofUse is how long a proof is used; the rest of TicketLife is for the way to the owner.
	proofUse     = 20 * time.Second
	proofTimeout = 3 * time.Second // of the whole exchange with an owner
	// attemptTimeout limits the whole exchange. It expires only if Locate ignores its context.
	attemptTimeout = proofTimeout + time.Second
	// failureLife is how long a failure to reach an owner is reused: one attempt a second.
	failureLife = time.Second
	addressLife = time.Minute // how long an owner's address is used after a sign of life
)

// A peer has a forwarder's knowledge of one owner. Forwarder.mu guards it.
type peer struct {
	owner   Owner
	last    *proof        // the last success, or nil
	failed  error         // of the last attempt; nil if last is valid
	until   time.Time     // when last or failed expires
	heard   time.Time     // when something last came from the owner
	proven  time.Time     // when the last answered challenge was sent
	attempt chan struct{} // closed when the running attempt ends, or nil
}

// A proof is the address where an owner has proved itself, and its ticket.
type proof struct {
	peer     *peer
	url      *url.URL
	ticket   string
	draining bool
}

// findProof returns a proof of an owner. Callers share one attempt, and its failure for
// failureLife. After a failure only the caller that starts the next attempt waits for it, so that
// requests for a dead owner do not pile up. A non-nil error is a *failure or the cause of ctx.
func (f *Forwarder) findProof(ctx context.Context, owner Owner) (*proof, error) {
	for {
		f.mu.Lock()
		p, ok := f.peers.Get(owner)
		if !ok {
			p = &peer{owner: owner}
			f.peers.Put(owner, p)
		}
		fresh := time.Since(p.until) < attemptTimeout // old failures do not count
		if time.Now().Before(p.until) || p.attempt != nil && p.failed != nil && fresh {
			defer f.mu.Unlock()
			return p.last, p.failed
		}
		f.beginAttemptLocked(p)
		attempt := p.attempt
		f.mu.Unlock()
		select {
		case <-attempt:
		case <-time.After(attemptTimeout):
			f.failAttempt(p, attempt)
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// failAttempt fails an attempt that hangs because Locate ignores its context, for all requests.
func (f *Forwarder) failAttempt(p *peer, attempt chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.attempt == attempt { // the attempt has not ended just now
		p.failed = newFailure(words.ForwardUnreachable,
			errors.New("the attempt to locate the replica does not end"))
		p.until = time.Now()
	}
}

// beginAttemptLocked starts an attempt unless one is running, independent of callers' contexts.
func (f *Forwarder) beginAttemptLocked(p *peer) {
	if p.attempt == nil {
		p.attempt = make(chan struct{})
		go f.attemptProof(p)
	}
}

// attemptProof gets a proof of p, or records the failure.
func (f *Forwarder) attemptProof(p *peer) {
	ctx, cancel := context.WithTimeout(context.Background(), proofTimeout)
	defer cancel()
	began := time.Now()
	got, err := f.proveOwner(ctx, p)
	f.mu.Lock()
	defer f.mu.Unlock()
	p.failed, p.until = err, time.Now().Add(failureLife)
	if err == nil {
		p.last, p.heard, p.until = got, time.Now(), time.Now().Add(proofUse)
		p.proven = began
	}
	close(p.attempt)
	p.attempt = nil
}

// dropProof makes the next request get another proof, after failureLife if failed is not nil.
func (f *Forwarder) dropProof(used *proof, failed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := used.peer
	if p.last != used || p.failed != nil {
		return // already replaced, or already failed
	}
	p.failed, p.until = failed, time.Time{}
	if failed != nil {
		p.until = time.Now().Add(failureLife)
	}
}

// findURL returns the address of an owner. A draining owner, or one about to drain, may be missing
// from the directory: the last proven address is used then, and also soon after a sign of life.
func (f *Forwarder) findURL(ctx context.Context, p *peer) (*url.URL, error) {
	f.mu.Lock()
	last, recent := p.last, time.Since(p.heard) < addressLife
	f.mu.Unlock()
	if last != nil && (last.draining || recent) {
		return last.url, nil
	}
	found, err := f.callLocate(ctx, p.owner.Name)
	switch {
	case err == nil:
		return found, nil
	case last != nil:
		return last.url, nil
	case errors.Is(err, replicas.ErrUnknown):
		return nil, newConnectFailure(err)
	}
	return nil, newFailure(words.ForwardUnreachable,
		fmt.Errorf("the replica cannot be located: %w", err))
}

// callLocate calls Options.Locate, which may panic.
func (f *Forwarder) callLocate(ctx context.Context, name string) (u *url.URL, err error) {
	defer func() {
		if v := recover(); v != nil {
			u, err = nil, errors.New("the function that locates replicas panicked")
		}
	}()
	u, err = f.locate(ctx, name)
	if err != nil {
		return nil, err
	}
	if u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the function that locates replicas returned no http or https URL")
	}
	return u, nil
}

// proveOwner challenges the owner, without sending client data. A non-nil error is a *failure.
func (f *Forwarder) proveOwner(ctx context.Context, p *peer) (*proof, error) {
	at, err := f.findURL(ctx, p)
	if err != nil {
		return nil, err
	}
	connected, nonce := false, rand.Text()
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	}), http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, newFailure(words.ForwardGone, err)
	}
	r.Header[headerChallenge] = []string{
		f.codec.Seal(KindChallenge, p.owner.Name, p.owner.Start, nonce)}
	// With this, the transport retries if the owner closes the idle connection. Nil is not sent.
	r.Header["Idempotency-Key"] = nil
	response, err := f.transport.RoundTrip(r)
	if err != nil {
		return nil, newChallengeFailure(ctx, connected, err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be used again
	response.Body.Close()
	fields, ok := f.codec.Open(KindProof, response.Header.Get(headerProof))
	if !ok || fields[0] != nonce {
		f.transport.CloseIdleConnections() // the next request must not reach this process
		err = fmt.Errorf("the process at the owner's address, which answered with status %d, "+
			"does not prove to be the owner", response.StatusCode)
		switch response.StatusCode {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout: // perhaps of a proxy in front of the owner
			return nil, newFailure(words.ForwardGone, err)
		}
		return nil, newConnectFailure(fmt.Errorf("%w: %w", errOther, err))
	}
	return &proof{peer: p, url: at, ticket: fields[1], draining: fields[2] != ""}, nil
}
