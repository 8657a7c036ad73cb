package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// TestCallersShareALogin: of 64, for one refresh, and for one login for more scopes.
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

// TestFirstCallersShareALogin: also if the first of 64 gives up.
func TestFirstCallersShareALogin(t *testing.T) {
	s := newSite(t, nil)
	source := s.source()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := s.as.Hold(oauthtest.Token)
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.callWith(ctx, source, "search"); !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
	})
	<-gate.Arrived // the first caller waits for its login
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

// TestOverlappingLoginsAtOneAuthorizationServer: two endpoints, with different ports.
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
	<-gate.Arrived // the first has registered, and its receiver listens
	all.Go(func() { other.run(second, "search") })
	<-gate.Arrived
	gate.Release()
	all.Wait()
	s.run(first, "expire search")
	other.run(second, "search authorize=2 refresh=2 register=2")
}

// TestLogoutEndsALogin: who waits for it is told so, and nobody is logged in.
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
	if err := <-called; err == nil || !strings.Contains(err.Error(), "Logout was called") {
		t.Errorf("got %v", err)
	}
}

const (
	childFolder   = "RONDO_OAUTH_FOLDER"
	childEndpoint = "RONDO_OAUTH_ENDPOINT"
	childRounds   = 60
)

var childKey = [32]byte{1}

// holdLock is a child process: it holds a lock until it is killed.
func holdLock(folder string) {
	store, err := oauth.NewFileStore(folder, childKey)
	if err == nil {
		_, err = store.Lock(context.Background(), lockedKey)
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

var lockedKey = oauth.Key{Resource: "https://mcp.example/mcp"}

// TestLockOfADeadProcessIsFree: while the process lives nobody else gets it.
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

// refreshOften is a child process: it begins anew again and again with the tokens of the store.
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

// TestProcessesShareALogin: a refresh token that is used twice would end the login.
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
	s.run(source, "search authorize=1") // its token was replaced
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
