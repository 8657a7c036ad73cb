package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// awaitWaiters returns when n callers wait for a token.
func awaitWaiters(t *testing.T, source *oauth.Source, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); source.Waiters() < n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Error("the callers do not wait for each other")
			return
		}
	}
}

// TestCallersWhoseTokenIsOverShareARefresh: and do not queue for the lock of the store.
func TestCallersWhoseTokenIsOverShareARefresh(t *testing.T) {
	memory := oauth.NewMemoryStore()
	s, _ := newLogin(t, storedIn(memory))
	store := expiring(memory)
	store.locks = new(atomic.Int32)
	source, gate, request := s.source(storedIn(store)), s.as.Hold(oauthtest.Refresh), s.post()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			header, err := source.Credentials(t.Context(), request)
			noError.check(t, err)
			if _, ok := s.as.Check(strings.TrimPrefix(header.Get("Authorization"),
				"Bearer ")); !ok {
				t.Error("the token is not one of the authorization server")
			}
		})
	}
	<-gate.Arrived
	awaitWaiters(t, source, 64)
	gate.Release()
	all.Wait()
	s.run(nil, "refresh=1 authorize=1")
	if n := store.locks.Load(); n != 1 {
		t.Errorf("the lock of the endpoint was taken %d times, want once", n)
	}
}

// newSource returns a source that sends no requests.
func newSource(t *testing.T) *oauth.Source {
	t.Helper()
	source, err := oauth.New(goodEndpoint, nil)
	noError.check(t, err)
	return source
}

// awaitRenewal waits for a renewal in a goroutine, and returns its result.
func awaitRenewal(ctx context.Context, source *oauth.Source,
	renew func(ctx context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := source.AwaitRenewal(ctx, "", time.Minute,
			func(ctx context.Context, _ string) error { return renew(ctx) })
		done <- err
	}()
	synctest.Wait()
	return done
}

// TestRenewalThatWasCancelledIsNotJoined: a caller starts another when it has ended.
func TestRenewalThatWasCancelledIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, renewals, release := newSource(t), 0, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		first := awaitRenewal(ctx, source, func(ctx context.Context) error {
			<-release // it does not notice at once
			return context.Cause(ctx)
		})
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		second := awaitRenewal(t.Context(), source, func(context.Context) error {
			renewals++
			return nil
		})
		if renewals != 0 {
			t.Error("two renewals overlap")
		}
		close(release)
		noError.check(t, <-second)
		if renewals != 1 {
			t.Errorf("the second caller started %d renewals, want one", renewals)
		}
	})
}

// TestRenewalOutlivesItsFirstCaller, if another caller waits for it.
func TestRenewalOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, release := newSource(t), make(chan struct{})
		renew := func(ctx context.Context) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := awaitRenewal(ctx, source, renew), awaitRenewal(t.Context(), source, renew)
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		synctest.Wait()
		close(release)
		noError.check(t, <-second)
	})
}

// TestCallerThatMayLogInDoesNotShareARefusedRefresh: it starts a login after that.
func TestCallerThatMayLogInDoesNotShareARefusedRefresh(t *testing.T) {
	memory := oauth.NewMemoryStore()
	s, first := newLogin(t, storedIn(memory))
	request := s.post()
	sent, err := first.Credentials(t.Context(), request)
	noError.check(t, err)
	source := s.source(storedIn(expiring(memory)))
	s.as.RevokeAll()
	gate := s.as.Hold(oauthtest.Refresh)
	var all sync.WaitGroup
	all.Go(func() { _, _ = source.Credentials(t.Context(), request) })
	<-gate.Arrived
	all.Go(func() {
		again, err := source.Refused(t.Context(), clienthttp.Refusal{Outgoing: request, Sent: sent,
			Status: http.StatusUnauthorized, Attempt: 1})
		if !again || err != nil {
			t.Errorf("got %v, %v, want a login", again, err)
		}
	})
	awaitWaiters(t, source, 2)
	gate.Release()
	all.Wait()
	s.run(nil, "refresh=1 authorize=2")
}

// TestRefreshAheadOfTimeThatFails is not tried again with each request: the token is still valid.
func TestRefreshAheadOfTimeThatFails(t *testing.T) {
	memory := oauth.NewMemoryStore()
	s, _ := newLogin(t, storedIn(memory))
	refreshed := make(chan error, 10)
	source := s.source(storedIn(editedLogins(memory, func(login map[string]any) {
		login["obtained"] = time.Now().Add(-time.Hour)
		login["expiry"] = time.Now().Add(20 * time.Second)
	})), func(o *oauth.Options) {
		o.Observe = func(e oauth.LoginEvent) { refreshed <- e.Err }
	})
	replied(oauthtest.Refresh, tooManyFor17)(s)
	s.run(source, "search")
	outcomes["retryable"].check(t, <-refreshed)
	for range 10 {
		for source.Waiters() > 0 {
			runtime.Gosched()
		}
		s.run(source, "search")
	}
	s.run(nil, "refresh=1 authorize=1")
}

// TestRefreshIsNotCancelled: the refresh token is used up when the request has arrived.
func TestRefreshIsNotCancelled(t *testing.T) {
	refreshed := make(chan error, 1)
	s, source := newLogin(t, func(o *oauth.Options) {
		o.Observe = func(e oauth.LoginEvent) {
			if e.Kind == oauth.TokenRefresh {
				refreshed <- e.Err
			}
		}
	})
	s.as.Expire()
	gate := s.as.Hold(oauthtest.Refresh)
	ctx, cancel := context.WithCancel(t.Context())
	var call sync.WaitGroup
	call.Go(func() {
		if err := s.callWith(ctx, source, "search"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	<-gate.Arrived
	cancel()
	call.Wait()
	gate.Release()
	check(t, <-refreshed)
	s.run(source, "search authorize=1 refresh=1")
}
