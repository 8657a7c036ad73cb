package oauth

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rondo-mcp/rondo/client"
)

// A renewal replaces the token, by a refresh or by a login, for all callers that wait for it.
type renewal struct {
	done    chan struct{} // closed when it has ended
	err     error         // set before done is closed
	cancel  context.CancelCauseFunc
	limit   time.Duration // how long it may take; one that may be a login has the longer limit
	waiters int           // an early refresh, for which nobody waits, counts as one itself
	ending  bool          // it was cancelled: new callers wait for its end, and start another
}

// awaitRenewal waits until the token that was sent is replaced. It starts a renewal that calls
// renew, or joins one that runs. again reports whether the token was replaced, or may have been.
//
// A renewal has a context and a time limit of its own, and is cancelled when the last caller that
// waits for it has left. A caller whose renewal may be a login starts it after a refresh that it
// has joined was refused.
func (s *Source) awaitRenewal(ctx context.Context, sent string, limit time.Duration,
	renew func(ctx context.Context, sent string) error) (again bool, err error) {
	for {
		s.mu.Lock()
		if s.tokens != nil && s.tokens.record.Access != sent {
			s.mu.Unlock()
			return true, nil
		}
		r := s.renewal
		if r == nil {
			r = s.startRenewalLocked(ctx, sent, limit, renew)
		}
		ending := r.ending
		if !ending {
			r.waiters++
		}
		s.mu.Unlock()
		select {
		case <-r.done:
			if !ending && (r.limit >= limit || !isFinalRefusal(r.err)) {
				return r.err == nil, r.err
			}
		case <-ctx.Done():
			if !ending {
				s.leaveRenewal(r)
			}
			return false, context.Cause(ctx)
		}
	}
}

// leaveRenewal is called by a caller that does not wait any more. The last one cancels the renewal.
func (s *Source) leaveRenewal(r *renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters == 0 {
		r.cancelLocked(context.Canceled)
	}
}

// cancelLocked cancels the renewal. It runs until it notices.
func (r *renewal) cancelLocked(cause error) {
	r.ending = true
	r.cancel(cause)
}

// startRenewalLocked starts a renewal, in a goroutine of its own.
func (s *Source) startRenewalLocked(ctx context.Context, sent string, limit time.Duration,
	renew func(ctx context.Context, sent string) error) *renewal {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &renewal{done: make(chan struct{}), cancel: cancel, limit: limit}
	s.renewal = r
	go func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeout(ctx, limit)
		defer stop()
		err := errors.New("oauth: the renewal did not return")
		defer func() { // also after a panic of what the host has set in the Options
			if v := recover(); v != nil {
				err = fmt.Errorf("oauth: %w", &client.PanicError{Value: v, Stack: debug.Stack()})
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			r.err, s.renewal = err, nil
			close(r.done)
		}()
		err = s.runExclusively(ctx, sent, renew)
	}()
	return r
}

// runExclusively calls renew while it holds the lock of the login in the store, so that no other
// process renews the same token.
func (s *Source) runExclusively(ctx context.Context, sent string,
	renew func(ctx context.Context, sent string) error) error {
	unlock, err := s.store.Lock(ctx, s.pointerKey())
	if err != nil {
		return &StoreError{err}
	}
	defer unlock()
	return renew(ctx, sent)
}
