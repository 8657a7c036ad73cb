package oauth_test

import (
	"context"
	"encoding/json"
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
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/proctest"
)

// TestCallersWithAnExpiredTokenShareARefresh: it has expired at the server alone.
func TestCallersWithAnExpiredTokenShareARefresh(t *testing.T) {
	s, source := newLogin(t, (*site).source)
	s.as.Expire()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { noError.check(t, s.call(t.Context(), source, "search")) })
	}
	all.Wait()
	s.wantCounts(t, counts{oauthtest.Refresh: 1, oauthtest.Authorize: 1, oauthtest.Register: 1})
}

// TestCallersThatNeedMoreScopesShareAStepUp: they count as one login, not as one each.
func TestCallersThatNeedMoreScopesShareAStepUp(t *testing.T) {
	s, source := newLogin(t, (*site).source)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { noError.check(t, s.call(t.Context(), source, "write")) })
	}
	all.Wait()
	s.wantCounts(t, counts{oauthtest.Authorize: 2, oauthtest.Token: 2, oauthtest.Register: 1})
}

// TestOverlappingLoginsAtOneAuthorizationServer: the servers of two endpoints have the same one,
// and the logins come back to different ports. Neither disturbs the other, then or later.
func TestOverlappingLoginsAtOneAuthorizationServer(t *testing.T) {
	s := newSite(t, &oauthtest.Options{ExactRedirect: true}, nil)
	other := &site{as: s.as, resource: oauthtest.NewResource(t, &oauthtest.ResourceOptions{
		Servers: []*oauthtest.Server{s.as}, Scopes: []string{"read"}}), browser: s.browser}
	store := oauth.NewMemoryStore()
	shared := func(o *oauth.Options) { o.Store = store }
	first, second := s.source(t, shared), other.source(t, shared)
	gate := s.as.Hold(oauthtest.Token)
	var all sync.WaitGroup
	all.Go(func() { noError.check(t, s.call(t.Context(), first, "search")) })
	<-gate.Arrived // the first has registered, and its receiver listens
	all.Go(func() { noError.check(t, other.call(t.Context(), second, "search")) })
	<-gate.Arrived
	gate.Release()
	all.Wait()
	s.as.Expire()
	noError.check(t, s.call(t.Context(), first, "search"))
	noError.check(t, other.call(t.Context(), second, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 2, oauthtest.Refresh: 2, oauthtest.Register: 2})
}

// A slowPerson notices only when it is let go that nobody waits for the login any more.
type slowPerson struct {
	oauth.Interaction
	waits, release chan struct{}
	once           *sync.Once
}

func (p slowPerson) Open(ctx context.Context, r oauth.Redirect) (oauth.Receiver, error) {
	p.once.Do(func() {
		close(p.waits)
		<-p.release
	})
	return p.Interaction.Open(ctx, r)
}

// TestCallerThatComesWhenALoginWasGivenUp gets a login of its own, and not the other's end.
func TestCallerThatComesWhenALoginWasGivenUp(t *testing.T) {
	s := newSite(t, nil, nil)
	p := slowPerson{waits: make(chan struct{}), release: make(chan struct{}), once: new(sync.Once)}
	source := s.source(t, func(o *oauth.Options) {
		p.Interaction, o.Interaction = o.Interaction, &p
	})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- s.call(ctx, source, "search") }()
	<-p.waits
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller got %v", err)
	}
	second := make(chan error, 1)
	go func() { second <- s.call(t.Context(), source, "search") }()
	for s.resource.Count(oauthtest.Call) < 2 {
		runtime.Gosched()
	}
	close(p.release)
	noError.check(t, <-second)
}

// TestLogoutEndsALogin: who waits for it is told so, and nobody is logged in.
func TestLogoutEndsALogin(t *testing.T) {
	s := newSite(t, nil, nil)
	waits := make(chan struct{})
	source := s.source(t, func(o *oauth.Options) {
		o.Interaction = &oauth.Loopback{Browse: func(context.Context, string) error {
			close(waits)
			return nil
		}}
	})
	called := make(chan error, 1)
	go func() { called <- s.call(t.Context(), source, "search") }()
	<-waits
	if err := source.Logout(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-called; err == nil || !strings.Contains(err.Error(), "Logout was called") {
		t.Errorf("got %v", err)
	}
}

const (
	childFolder   = "RONDO_OAUTH_FOLDER"
	childEndpoint = "RONDO_OAUTH_ENDPOINT"
	childRounds   = 60
)

var childKey = [32]byte{1, 2, 3}

// An expiringStore has all tokens look as if they had expired.
type expiringStore struct{ oauth.TokenStore }

func (s expiringStore) Load(ctx context.Context, k oauth.Key) ([]byte, error) {
	record, err := s.TokenStore.Load(ctx, k)
	if err != nil || k.Issuer == "" || k.Resource == "" {
		return record, err
	}
	var members map[string]any
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, err
	}
	members["expiry"] = time.Now().Add(-time.Hour)
	return json.Marshal(members)
}

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
	store, err := oauth.NewFileStore(folder, childKey)
	check(t, err)
	child := proctest.Start(t, proctest.Self(t, childFolder+"="+folder, childEndpoint+"="))
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
		source, err = oauth.New(endpoint, &oauth.Options{Store: expiringStore{store}})
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

// TestProcessesShareALogin: with rotation a refresh token that is used twice ends the login. The
// authorization server revokes the whole family then.
func TestProcessesShareALogin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes")
	}
	s := newSite(t, nil, nil)
	folder := t.TempDir()
	store, err := oauth.NewFileStore(folder, childKey)
	check(t, err)
	source := s.source(t, func(o *oauth.Options) { o.Store = store })
	noError.check(t, s.call(t.Context(), source, "search"))
	var children []*proctest.Process
	for range 8 {
		children = append(children, proctest.Start(t, proctest.Self(t, childFolder+"="+folder,
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
	if n := s.as.Families(); n != 1 {
		t.Errorf("%d logins are left, want 1", n)
	}
	left, err := filepath.Glob(filepath.Join(folder, "new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q were left behind, %v", left, err)
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 1})
	noError.check(t, s.call(t.Context(), source, "search")) // its token was replaced
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
