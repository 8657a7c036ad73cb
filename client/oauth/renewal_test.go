package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
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

// A countingStore counts how often locks of endpoints are taken.
type countingStore struct {
	oauth.TokenStore
	locks *atomic.Int32
}

func (s countingStore) Lock(ctx context.Context, k oauth.Key) (func(), error) {
	if k.Resource != "" {
		s.locks.Add(1)
	}
	return s.TokenStore.Lock(ctx, k)
}

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

// post is a request for the endpoint of a site.
func (s *site) post(t *testing.T) clienthttp.Outgoing {
	t.Helper()
	u, err := url.Parse(s.resource.URL)
	check(t, err)
	return clienthttp.Outgoing{Method: http.MethodPost, URL: u, RPC: "tools/call", Target: "search"}
}

// TestCallersWhoseTokenIsOverShareARefresh: the client sees by itself that the token is over. The
// callers do not queue for the lock of the store either.
func TestCallersWhoseTokenIsOverShareARefresh(t *testing.T) {
	s, memory := newSite(t, nil, nil), oauth.NewMemoryStore()
	first := s.source(t, func(o *oauth.Options) { o.Store = memory })
	noError.check(t, s.call(t.Context(), first, "search"))
	store := countingStore{expiringStore{memory}, new(atomic.Int32)}
	source := s.source(t, func(o *oauth.Options) { o.Store = store })
	gate, request := s.as.Hold(oauthtest.Refresh), s.post(t)
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
	s.wantCounts(t, counts{oauthtest.Refresh: 1, oauthtest.Authorize: 1})
	if n := store.locks.Load(); n != 1 {
		t.Errorf("the lock of the endpoint was taken %d times, want once", n)
	}
}

// TestCallersShareARenewal: it is not the store that keeps callers of one process apart.
func TestCallersShareARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := oauth.New("https://mcp.example/mcp", nil)
		noError.check(t, err)
		var renewals atomic.Int32
		release := make(chan struct{})
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				_, err := source.AwaitRenewal(t.Context(), "", time.Minute,
					func(context.Context, string) error {
						renewals.Add(1)
						<-release
						return nil
					})
				noError.check(t, err)
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if n := renewals.Load(); n != 1 {
			t.Errorf("there were %d renewals, want one", n)
		}
	})
}

// TestRenewalThatWasCancelledIsNotJoined: a caller that comes while it ends starts another, and
// does not get its error.
func TestRenewalThatWasCancelledIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := oauth.New("https://mcp.example/mcp", nil)
		noError.check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := source.AwaitRenewal(ctx, "", time.Minute,
				func(ctx context.Context, _ string) error {
					<-release // it does not notice at once
					return context.Cause(ctx)
				})
			first <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		renewals := 0
		go func() {
			_, err := source.AwaitRenewal(t.Context(), "", time.Minute,
				func(context.Context, string) error {
					renewals++
					return nil
				})
			second <- err
		}()
		synctest.Wait()
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

// TestCallerThatMayLogInDoesNotShareARefusedRefresh: another caller has begun the refresh, which
// can do nothing but fail; this one has the person log in.
func TestCallerThatMayLogInDoesNotShareARefusedRefresh(t *testing.T) {
	s, memory := newSite(t, nil, nil), oauth.NewMemoryStore()
	first := s.source(t, func(o *oauth.Options) { o.Store = memory })
	noError.check(t, s.call(t.Context(), first, "search"))
	request := s.post(t)
	sent, err := first.Credentials(t.Context(), request)
	noError.check(t, err)
	source := s.source(t, func(o *oauth.Options) { o.Store = expiringStore{memory} })
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
	s.wantCounts(t, counts{oauthtest.Refresh: 1, oauthtest.Authorize: 2})
}

// TestRefreshAheadOfTimeThatFails is not tried again with each request: the token is still valid.
func TestRefreshAheadOfTimeThatFails(t *testing.T) {
	s := newSite(t, nil, nil)
	store := editingStore{oauth.NewMemoryStore(), new(atomic.Bool),
		func(k oauth.Key, record map[string]any) {
			if k.Issuer != "" && k.Resource != "" {
				record["obtained"] = time.Now().Add(-time.Hour)
				record["expiry"] = time.Now().Add(20 * time.Second)
			}
		}}
	shared := func(o *oauth.Options) { o.Store = store }
	noError.check(t, s.call(t.Context(), s.source(t, shared), "search"))
	store.on.Store(true)
	refreshed := make(chan error, 10)
	source := s.source(t, func(o *oauth.Options) {
		shared(o)
		o.Observe = func(e oauth.LoginEvent) { refreshed <- e.Err }
	})
	s.as.Reply(oauthtest.Refresh, oauthtest.Reply{Status: http.StatusTooManyRequests,
		Header: http.Header{"Retry-After": {"60"}}})
	noError.check(t, s.call(t.Context(), source, "search"))
	retryable.check(t, <-refreshed)
	for source.Waiters() > 0 {
		runtime.Gosched()
	}
	for range 10 {
		noError.check(t, s.call(t.Context(), source, "search"))
		for source.Waiters() > 0 {
			runtime.Gosched()
		}
	}
	s.wantCounts(t, counts{oauthtest.Refresh: 1, oauthtest.Authorize: 1})
}

// TestRenewalOutlivesItsFirstCaller, if another caller waits for it.
func TestRenewalOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := oauth.New("https://mcp.example/mcp", nil)
		noError.check(t, err)
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		await := func(ctx context.Context, done chan<- error) {
			_, err := source.AwaitRenewal(ctx, "", time.Minute,
				func(ctx context.Context, _ string) error {
					select {
					case <-release:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
			done <- err
		}
		ctx, cancel := context.WithCancel(t.Context())
		go await(ctx, first)
		synctest.Wait()
		go await(t.Context(), second)
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		synctest.Wait()
		close(release)
		noError.check(t, <-second)
	})
}
