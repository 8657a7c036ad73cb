package oauth_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

func awaitWaiters(t *testing.T, source *oauth.Source, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); source.Waiters() < n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Error("the callers do not wait for each other")
			return
		}
	}
}

// Callers with an expired token share a refresh, and do not queue for the store's lock.
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

// A cancelled renewal is not joined: a caller waits for its end, and then starts a new one.
func TestRenewalThatWasCancelledIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, renewals, release := newSource(t), 0, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		first := awaitRenewal(ctx, source, func(ctx context.Context) error {
			<-release // the renewal does not notice at once
			return context.Cause(ctx)
		})
		cancel()
		wantIs(t, "the first caller", <-first, context.Canceled)
		second := awaitRenewal(t.Context(), source, func(context.Context) error {
			renewals++
			return nil
		})
		if renewals != 0 {
			t.Error("two renewals overlap")
		}
		close(release)
		noError.check(t, <-second)
		wantEqual(t, "the second caller started: renewals", renewals, 1)
	})
}

// A renewal outlives its first caller if another caller waits for it.
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
		wantIs(t, "the first caller", <-first, context.Canceled)
		synctest.Wait()
		close(release)
		noError.check(t, <-second)
	})
}

// A caller that may log in does not share the refusal of a refresh, but starts a login after it.
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

// A failed early refresh is not repeated with each request: the token is still valid.
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

// A refresh is not cancelled: once the request has arrived, the refresh token is used up.
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
		wantIs(t, "error", s.callWith(ctx, source, "search"), context.Canceled)
	})
	<-gate.Arrived
	cancel()
	call.Wait()
	gate.Release()
	check(t, <-refreshed)
	s.run(source, "search authorize=1 refresh=1")
}

// 64 callers share one refresh, and one login for more scopes.
func TestCallersShareALogin(t *testing.T) {
	s, source := newLogin(t)
	s.as.Expire()
	for _, tool := range []string{"search", "write"} {
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() { noError.check(t, s.call(source, tool)) })
		}
		all.Wait()
	}
	s.run(nil, "refresh=1 authorize=2 token=2 register=1")
}

// 64 first callers share one login, even if the first of them gives up.
func TestFirstCallersShareALogin(t *testing.T) {
	s := newSite(t, nil)
	source := s.source()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := s.as.Hold(oauthtest.Token)
	var all sync.WaitGroup
	all.Go(func() {
		wantIs(t, "the first caller", s.callWith(ctx, source, "search"), context.Canceled)
	})
	<-gate.Arrived // the first caller is waiting for its login
	for range 63 {
		all.Go(func() { noError.check(t, s.call(source, "search")) })
	}
	for s.resource.Count(oauthtest.Call) < 64 {
		runtime.Gosched()
	}
	cancel()
	gate.Release()
	all.Wait()
	s.run(nil, "authorize=1 token=1 register=1 opened=1")
}

// Two endpoints with one authorization server, and different ports, have overlapping logins.
func TestOverlappingLoginsAtOneAuthorizationServer(t *testing.T) {
	s := newSite(t, &oauthtest.Options{ExactRedirect: true})
	other := &site{t: t, as: s.as, resource: oauthtest.NewResource(t, &oauthtest.ResourceOptions{
		Servers: []*oauthtest.Server{s.as}, Scopes: []string{"read"}}),
		browser: oauthtest.NewBrowser(t)}
	store := oauth.NewMemoryStore()
	first, second := s.source(storedIn(store)), other.source(storedIn(store))
	gate := s.as.Hold(oauthtest.Token)
	var all sync.WaitGroup
	all.Go(func() { s.run(first, "search") })
	<-gate.Arrived // the first client is registered, and its receiver listens
	all.Go(func() { other.run(second, "search") })
	<-gate.Arrived
	gate.Release()
	all.Wait()
	s.run(first, "expire search")
	other.run(second, "search authorize=2 refresh=2 register=2")
}

// Logout ends a login, and the call that waits for it gets an error.
func TestLogoutEndsALogin(t *testing.T) {
	s, waits, called := newSite(t, nil), make(chan struct{}), make(chan error, 1)
	source := s.source(func(o *oauth.Options) {
		o.Interaction = &oauth.Loopback{Browse: func(context.Context, string) error {
			close(waits)
			return nil
		}}
	})
	go func() { called <- s.call(source, "search") }()
	<-waits
	s.run(source, "logout")
	wantText(t, <-called, "Logout was called")
}

const (
	childFolder   = "RONDO_OAUTH_FOLDER"
	childEndpoint = "RONDO_OAUTH_ENDPOINT"
	childRounds   = 60
)

var childKey = [32]byte{1}

// holdLock runs in a child process. It holds a lock until the process is killed.
func holdLock(folder string) {
	store, err := oauth.NewFileStore(folder, childKey)
	if err == nil {
		_, err = store.Lock(context.Background(), lockedKey)
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

var lockedKey = oauth.Key{Resource: "https://mcp.example/mcp"}

// A dead process releases its lock; a living process keeps its lock.
func TestLockOfADeadProcessIsFree(t *testing.T) {
	folder := t.TempDir()
	store := newFileStore(t, folder, 1)
	child := servertest.StartProcess(t, servertest.Self(t, childFolder+"="+folder, childEndpoint+"="))
	if line := child.Line(); line != "<nil>" {
		t.Fatal(line)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if unlock, err := store.Lock(over, lockedKey); err == nil {
		unlock()
		t.Error("two processes hold the lock")
	}
	child.Kill()
	unlock, err := store.Lock(t.Context(), lockedKey)
	check(t, err)
	unlock()
}

// refreshOften runs in a child process. It starts over repeatedly with the store's tokens.
func refreshOften(folder, endpoint string) {
	store, err := oauth.NewFileStore(folder, childKey)
	u, _ := url.Parse(endpoint)
	for i := 0; err == nil && i < childRounds; i++ {
		var source *oauth.Source
		source, err = oauth.New(endpoint, &oauth.Options{Store: expiring(store)})
		if err == nil {
			var header http.Header
			header, err = source.Credentials(context.Background(),
				clienthttp.Outgoing{Method: http.MethodPost, URL: u})
			if err == nil && header.Get("Authorization") == "" {
				err = fmt.Errorf("round %d: the login is gone", i)
			}
		}
	}
	fmt.Println(err)
}

// Processes share a login: a refresh token that is used twice would end it.
func TestProcessesShareALogin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes")
	}
	folder := t.TempDir()
	s, source := newLogin(t, storedIn(newFileStore(t, folder, 1)))
	var children []*servertest.Process
	for range 8 {
		children = append(children, servertest.StartProcess(t, servertest.Self(t,
			childFolder+"="+folder,
			childEndpoint+"="+s.resource.URL)))
	}
	for _, child := range children {
		if line := child.Line(); line != "<nil>" {
			t.Error(line)
		}
	}
	if n := s.as.Count(oauthtest.Refresh); n < 200 {
		t.Errorf("%d refreshes: the processes did little", n)
	}
	left, err := filepath.Glob(filepath.Join(folder, "new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q were left behind, %v", left, err)
	}
	s.run(source, "search authorize=1") // another process replaced its token
	files, err := os.ReadDir(folder)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v, %v", file.Name(), info.Mode(), err)
		}
	}
}
