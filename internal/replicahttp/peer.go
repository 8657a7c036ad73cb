package replicahttp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/replica"
)

// The headers of the exchange between replicas. They are removed from what clients send
// and from what clients receive.
const (
	headerChallenge = "Rondo-Replica-Challenge"
	headerProof     = "Rondo-Replica-Proof"
	headerHop       = "Rondo-Replica-Hop"
	headerReply     = "Rondo-Replica-Reply"
)

// A peer is what a forwarder knows of one owner. The mutex of the forwarder guards it.
type peer struct {
	url      *url.URL // where it proved itself last; nil: nowhere yet
	draining bool
	channel  *channel // nil: none, or failed
	failed   error    // of the last attempt
	until    time.Time
	heard    time.Time     // when something came from the owner last
	attempt  chan struct{} // closed when the attempt under way ends; nil: there is none
}

// A channel is one on which requests can be sent.
type channel struct {
	id   replica.ChannelID
	url  *url.URL
	peer *peer
	last atomic.Uint64 // sequence number
}

// openChannel returns a channel to an owner. Callers share one attempt to open it, and
// its failure for failureLife. After a failure only the caller that begins the next attempt
// waits for it: requests for an owner that stays dead do not pile up. openChannel fails when
// the owner cannot be located ([UnreachableError]), does not prove itself, or ctx ends.
func (f *Forwarder) openChannel(ctx context.Context, owner replica.Owner) (*channel, error) {
	for {
		f.mu.Lock()
		p, ok := f.peers.Get(owner)
		if !ok {
			p = &peer{}
			f.peers.Put(owner, p)
		}
		if time.Now().Before(p.until) {
			defer f.mu.Unlock()
			return p.channel, p.failed
		}
		if p.attempt != nil && p.failed != nil {
			defer f.mu.Unlock()
			return nil, p.failed
		}
		f.beginAttemptLocked(owner, p)
		attempt := p.attempt
		f.mu.Unlock()
		if err := f.awaitAttempt(ctx, p, attempt); err != nil {
			return nil, err
		}
	}
}

// beginAttemptLocked begins an attempt to open a channel to p unless one is under way. It has no
// context of a caller, because others may wait for it.
func (f *Forwarder) beginAttemptLocked(owner replica.Owner, p *peer) {
	if p.attempt == nil {
		p.attempt = make(chan struct{})
		go f.attemptProof(owner, p)
	}
}

// awaitAttempt waits until an attempt ends. One that does not, since the function of the host
// ignores its context, fails for those who wait and those who come later.
func (f *Forwarder) awaitAttempt(ctx context.Context, p *peer, attempt <-chan struct{}) error {
	timer := time.NewTimer(attemptTimeout)
	defer timer.Stop()
	select {
	case <-attempt:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.attempt != attempt {
		return nil // it has ended just now
	}
	if p.failed == nil {
		p.failed = &UnreachableError{errors.New("the attempt to locate the replica does not end")}
	}
	return p.failed
}

// attemptProof opens a channel to p, or notes why there is none.
func (f *Forwarder) attemptProof(owner replica.Owner, p *peer) {
	ctx, cancel := context.WithTimeout(context.Background(), proofTimeout)
	defer cancel()
	c, draining, err := f.proveOwner(ctx, owner, p)
	f.mu.Lock()
	defer f.mu.Unlock()
	p.channel, p.failed, p.until = c, err, time.Now().Add(failureLife)
	if err == nil {
		p.url, p.draining, p.until = c.url, draining, time.Now().Add(replica.ChannelUse)
		p.heard = time.Now()
	}
	close(p.attempt)
	p.attempt = nil
}

// dropChannel has the next request open another channel. A failure is remembered for
// failureLife; nil: there was none.
func (f *Forwarder) dropChannel(owner replica.Owner, c *channel, failed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.peers.Get(owner)
	if !ok || p.channel != c {
		return
	}
	p.channel, p.failed, p.until = nil, failed, time.Time{}
	if failed != nil {
		p.until = time.Now().Add(failureLife)
	}
}

// An UnreachableError says that an owner cannot be reached, and may be alive: the function
// that locates replicas failed, or the owner accepts connections and does not answer.
type UnreachableError struct{ Err error }

// Error returns the text of Err.
func (e *UnreachableError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnreachableError) Unwrap() error { return e.Err }

// findURL returns the address of an owner. One that drains may have been taken out of the
// directory, and so may one that is about to: where it proved itself last is tried then. Nor is
// the directory asked each time that an owner of requests in flight proves itself.
func (f *Forwarder) findURL(ctx context.Context, owner replica.Owner, p *peer) (*url.URL, error) {
	f.mu.Lock()
	last, known := p.url, p.draining || time.Since(p.heard) < 2*replica.ChannelUse
	f.mu.Unlock()
	if known {
		return last, nil
	}
	found, err := f.callLocate(ctx, owner.Name)
	switch {
	case err == nil:
		return found, nil
	case last != nil:
		return last, nil
	case errors.Is(err, ErrUnknownReplica):
		return nil, err
	}
	return nil, &UnreachableError{fmt.Errorf("the replica cannot be located: %w", err)}
}

// callLocate calls the function of the host, which may panic.
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

// proveOwner asks who is at the address of an owner to prove its start number. Nothing of
// a client's is sent.
func (f *Forwarder) proveOwner(ctx context.Context, owner replica.Owner,
	p *peer) (c *channel, draining bool, err error) {
	at, err := f.findURL(ctx, owner, p)
	if err != nil {
		return nil, false, err
	}
	challenge := replica.Challenge{Owner: owner}
	rand.Read(challenge.Nonce[:])
	token, err := f.codec.SealChallenge(challenge)
	if err != nil {
		return nil, false, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, false, err
	}
	r.Header[headerChallenge] = []string{token}
	// The transport sends a challenge again whose connection the owner closes meanwhile, as
	// an idle one: the owner is not gone. A nil value is not sent.
	r.Header["Idempotency-Key"] = nil
	connected := false
	response, err := f.transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }})))
	if err != nil {
		return nil, false, classifyNoProof(ctx, connected, err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be used again
	response.Body.Close()
	proof, ok := f.codec.OpenProof(response.Header.Get(headerProof))
	if !ok || proof.Nonce != challenge.Nonce {
		return nil, false, fmt.Errorf("who answers at the address of the owner, with status %d, "+
			"does not prove to be it", response.StatusCode)
	}
	return &channel{id: proof.Channel, url: at, peer: p}, proof.Draining, nil
}

// classifyNoProof says what it means that an owner was sent a challenge and there is no response.
func classifyNoProof(ctx context.Context, connected bool, err error) error {
	timeout, ok := errors.AsType[net.Error](err)
	_, dns := errors.AsType[*net.DNSError](err)
	switch {
	case connected && ctx.Err() != nil:
		return &UnreachableError{fmt.Errorf("%w: %w", errSilent, err)}
	case ctx.Err() == nil && ok && timeout.Timeout() && !dns:
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return fmt.Errorf("the owner cannot be reached: %w", err)
}

// AnswerChallenge answers a challenge of another replica. It reports false when r is none.
// It is called before the caller is authenticated: whoever can seal a challenge has the
// key, and a proof tells nothing to others.
func (f *Forwarder) AnswerChallenge(w http.ResponseWriter, r *http.Request) bool {
	tokens := r.Header[headerChallenge]
	if len(tokens) == 0 {
		return false
	}
	delete(r.Header, headerChallenge)
	if len(tokens) > 1 {
		return false
	}
	challenge, ok := f.codec.OpenChallenge(tokens[0])
	if !ok {
		return false // a client invented it
	}
	if challenge.Owner != f.self {
		w.WriteHeader(http.StatusMisdirectedRequest)
		return true
	}
	token, err := f.codec.SealProof(replica.Proof{Nonce: challenge.Nonce,
		Channel: f.channels.Open(), Draining: f.draining.Load()})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	w.Header()[headerProof] = []string{token}
	w.WriteHeader(http.StatusNoContent)
	return true
}
