package oauth

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rondo-mcp/rondo/client"
)

// A renewal is an in-flight refresh or login, shared by all callers that wait for another token.
type renewal struct {
	done      chan struct{} // closed at the end
	err       error         // set before done is closed
	cancel    context.CancelCauseFunc
	limit     time.Duration // time limit; longer if the renewal may be a login
	waiters   int           // reference count; an early refresh holds one reference itself
	cancelled bool          // new callers wait for its end, and start another renewal
}

// awaitRenewal waits until the token that was sent is replaced. It starts a renewal that calls
// renew, or joins the one in flight. again means: send the request with the new token.
//
//	Credentials                  the token has expired: renew is refreshToken
//	Refused                      the server sent 401: renew is replaceRefusedToken
//	→ awaitRenewal               each caller waits for the renewal in flight
//	  → startRenewalLocked       in a goroutine, with its own context and time limit
//	    → TokenStore.Lock        other processes that share the store wait
//	    → replaceRefusedToken
//	      → rereadTokens         done if another process replaced the token
//	      → discover             does the server name the same authorization server?
//	      → refreshToken         if it does, and there is a refresh token
//	        → requestToken       with newRefreshGrant
//	        → saveLogin          to the store, then to memory
//	      → logInAt              otherwise, and after a refresh that was refused for good
//	        → runLogin           the user's browser, completeLogin
//
// A renewal is cancelled when its last waiter leaves. A caller that may log in starts another
// renewal if the refresh that it had joined was refused.
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
		cancelled := r.cancelled
		if !cancelled {
			r.waiters++
		}
		s.mu.Unlock()
		select {
		case <-r.done:
			if !cancelled && (r.limit >= limit || !isFinalRefusal(r.err)) {
				return r.err == nil, r.err
			}
			// Try again: the renewal was cancelled, or refused in a way that needs a login.
		case <-ctx.Done():
			if !cancelled {
				s.releaseWaiter(r)
			}
			return false, context.Cause(ctx)
		}
	}
}

// releaseWaiter drops a caller's reference. The last one cancels the renewal.
func (s *Source) releaseWaiter(r *renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters == 0 {
		r.cancelLocked(context.Canceled)
	}
}

// cancelLocked cancels the renewal, which stays in flight until it notices that.
func (r *renewal) cancelLocked(cause error) {
	r.cancelled = true
	r.cancel(cause)
}

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
		defer func() { // also after a hook's panic or runtime.Goexit
			if v := recover(); v != nil {
				err = fmt.Errorf("oauth: %w", &client.PanicError{Value: v, Stack: debug.Stack()})
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			r.err, s.renewal = err, nil
			close(r.done)
		}()
		unlock, failed := s.store.Lock(ctx, s.pointerKey()) // other processes renew the token, too
		if failed != nil {
			err = storeError(failed)
			return
		}
		defer unlock()
		err = renew(ctx, sent)
	}()
	return r
}
