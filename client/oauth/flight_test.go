package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/oauthtest"
)

// A countingStore counts how often locks of endpoints are taken.
type countingStore struct {
	oauth.Store
	locks *atomic.Int32
}

func (s countingStore) Lock(ctx context.Context, k oauth.Key) (func(), error) {
	if k.Resource != "" {
		s.locks.Add(1)
	}
	return s.Store.Lock(ctx, k)
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
	if err != nil {
		t.Fatal(err)
	}
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
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Refresh: 1, oauthtest.Authorize: 1})
	if n := store.locks.Load(); n != 1 {
		t.Errorf("the lock of the endpoint was taken %d times, want once", n)
	}
}

// TestWorkIsDoneOnceForAllWhoWait: it is not the store that keeps callers of one process apart.
func TestWorkIsDoneOnceForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := oauth.New("https://mcp.example/mcp", nil)
		noError.check(t, err)
		var works atomic.Int32
		release := make(chan struct{})
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				_, err := source.Mend(t.Context(), "", time.Minute,
					func(context.Context, string) error {
						works.Add(1)
						<-release
						return nil
					})
				noError.check(t, err)
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if n := works.Load(); n != 1 {
			t.Errorf("the work was done %d times, want once", n)
		}
	})
}

// TestWorkThatWasGivenUpIsNotJoined: who comes while it ends begins anew, and gets no error of it.
func TestWorkThatWasGivenUpIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := oauth.New("https://mcp.example/mcp", nil)
		noError.check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := source.Mend(ctx, "", time.Minute, func(ctx context.Context, _ string) error {
				<-release // it takes its time to notice
				return context.Cause(ctx)
			})
			first <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
		works := 0
		go func() {
			_, err := source.Mend(t.Context(), "", time.Minute,
				func(context.Context, string) error {
					works++
					return nil
				})
			second <- err
		}()
		synctest.Wait()
		if works != 0 {
			t.Error("two works overlap")
		}
		close(release)
		noError.check(t, <-second)
		if works != 1 {
			t.Errorf("the second caller's work was done %d times, want once", works)
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
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Refresh: 1, oauthtest.Authorize: 2})
}

// An editingStore changes members of records while it is on.
type editingStore struct {
	oauth.Store
	on   *atomic.Bool
	edit func(k oauth.Key, record map[string]any)
}

func (s editingStore) Load(ctx context.Context, k oauth.Key) ([]byte, error) {
	record, err := s.Store.Load(ctx, k)
	if err != nil || !s.on.Load() {
		return record, err
	}
	var members map[string]any
	if err := json.Unmarshal(record, &members); err != nil {
		return nil, err
	}
	s.edit(k, members)
	return json.Marshal(members)
}

// TestRegistrationWhoseSecretHasExpired: it is used neither for a refresh nor for a login.
func TestRegistrationWhoseSecretHasExpired(t *testing.T) {
	s := newSite(t, &oauthtest.Options{AuthMethods: []string{"client_secret_basic"}}, nil)
	store := editingStore{oauth.NewMemoryStore(), new(atomic.Bool),
		func(k oauth.Key, record map[string]any) {
			clients, _ := record["clients"].([]any)
			for _, c := range clients {
				c.(map[string]any)["expiry"] = time.Now().Add(-time.Second)
			}
		}}
	source := s.source(t, func(o *oauth.Options) { o.Store = store })
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	store.on.Store(true)
	s.browser.Deliver = func(ctx context.Context, callback *url.URL) {
		store.on.Store(false) // the new one is not over
		// The login may end before the page is read.
		_, err := s.browser.Load(context.WithoutCancel(ctx), callback.String())
		noError.check(t, err)
	}
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Register: 2, oauthtest.Authorize: 2,
		oauthtest.Refresh: 0})
}

// TestSecretThatHasExpiredAlready is no registration.
func TestSecretThatHasExpiredAlready(t *testing.T) {
	s := newSite(t, &oauthtest.Options{AuthMethods: []string{"client_secret_basic"}}, nil)
	s.as.Misbehave(oauthtest.RegistrationExpired)
	registrationError.check(t, s.call(t.Context(), s.person(t, nil), "search"))
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 0})
}

// TestRefreshThatNarrowsTheScopes: what was granted last is what the next refresh asks for, and a
// login for more asks for all that was ever asked for.
func TestRefreshThatNarrowsTheScopes(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	noError.check(t, s.call(t.Context(), source, "write"))
	s.as.Misbehave(oauthtest.RefreshNarrows)
	for range 2 {
		s.as.Expire()
		noError.check(t, s.call(t.Context(), source, "search"))
	}
	refreshes := s.as.Requests(oauthtest.Refresh)
	if len(refreshes) != 2 || refreshes[0].Form.Get("scope") != "read write" ||
		refreshes[1].Form.Get("scope") != "read" {
		t.Errorf("got the refreshes %+v", refreshes)
	}
	request := s.post(t)
	sent, err := source.Credentials(t.Context(), request)
	noError.check(t, err)
	again, err := source.Refused(t.Context(), clienthttp.Refusal{Outgoing: request, Sent: sent,
		Status: http.StatusForbidden, Attempt: 1, Header: http.Header{"Www-Authenticate": {
			`Bearer error="insufficient_scope", scope="delete"`}}})
	if !again || err != nil {
		t.Fatalf("got %v, %v, want a login", again, err)
	}
	logins := s.as.Requests(oauthtest.Authorize)
	asked := strings.Fields(logins[len(logins)-1].Form.Get("scope"))
	if !slices.Equal(asked, []string{"read", "write", "delete"}) {
		t.Errorf("the login asked for %q", asked)
	}
}

// TestChallengesThatSayNothing: the metadata is where it is without them, and a 403 is no reason
// for a login.
func TestChallengesThatSayNothing(t *testing.T) {
	for _, fault := range []oauthtest.ResourceFault{oauthtest.NoChallenge,
		oauthtest.BrokenChallenge} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, &oauthtest.ResourceOptions{Supported: []string{"read"},
				Scopes: []string{"read"}, Need: func(_, target string) []string {
					if target == "write" {
						return []string{"write"}
					}
					return nil
				}})
			s.resource.Misbehave(fault)
			source := s.person(t, nil)
			noError.check(t, s.call(t.Context(), source, "search"))
			if err := s.call(t.Context(), source, "write"); err == nil ||
				err.Error() != "status 403" {
				t.Errorf("got %v, want the status alone", err)
			}
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
		})
	}
}

// TestForbiddenWithoutACode: the error says that the code is missing, and nobody has to log in.
func TestForbiddenWithoutACode(t *testing.T) {
	s := newSite(t, nil, nil)
	s.resource.Misbehave(oauthtest.ForbiddenWithoutCode)
	source := s.person(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	err := s.call(t.Context(), source, "write")
	status, ok := errors.AsType[*clienthttp.StatusError](err)
	if !ok || status.Status != http.StatusForbidden ||
		!strings.Contains(err.Error(), "has no error code") {
		t.Errorf("got %v", err)
	}
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
}

// TestForbiddenForAnotherReason: the code says that scopes would not help, or another scheme is
// asked for.
func TestForbiddenForAnotherReason(t *testing.T) {
	for _, header := range []string{`Bearer error="invalid_request"`, `Basic realm="x"`} {
		s := newSite(t, nil, nil)
		source := s.person(t, nil)
		noError.check(t, s.call(t.Context(), source, "search"))
		s.resource.Challenge(func(int, string) []string { return []string{header} })
		if err := s.call(t.Context(), source, "write"); err == nil || err.Error() != "status 403" {
			t.Errorf("%s: got %v, want the status alone", header, err)
		}
		s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
	}
}

// TestLifetimeAsText: RFC 6749 has expires_in be a number, and some authorization servers send the
// number as a text, which means the same to everybody. What is no number is refused.
func TestLifetimeAsText(t *testing.T) {
	for text, valid := range map[string]bool{"60": true, "": false, "1h": false, "-60": false,
		"99999999999999999999": false} {
		s := newSite(t, nil, nil)
		s.as.Edit(oauthtest.Token, oauthtest.Set("expires_in", text))
		source, before := s.person(t, nil), time.Now()
		err := s.call(t.Context(), source, "search")
		if !valid {
			tokenError.check(t, err)
			continue
		}
		noError.check(t, err)
		if ends := source.TokenEnds(); ends.Before(before.Add(time.Minute)) ||
			ends.After(time.Now().Add(time.Minute)) {
			t.Errorf("%q: the token ends at %v, want in a minute", text, ends)
		}
	}
}

// TestNameOfAnEndpointOnAPrivateNetwork: it gets what is on that network and the public one, by
// https, and neither this machine nor services of metadata.
func TestNameOfAnEndpointOnAPrivateNetwork(t *testing.T) {
	resolveTo(t, "10.1.2.3")
	const endpoint = "https://mcp.corp.example/mcp"
	for address, allowed := range map[string]bool{"10.9.9.9": true, "192.168.0.1": true,
		"93.184.216.34": true, "127.0.0.1": false, "::1": false, "169.254.169.254": false,
		"fd00:ec2::254": false} {
		if err := oauth.CheckAddress(endpoint, address); (err == nil) != allowed {
			t.Errorf("%s: got %v", address, err)
		}
	}
	for _, target := range []string{"http://10.9.9.9/", "http://127.0.0.1/",
		"https://localhost/"} {
		if oauth.CheckURL(endpoint, target) == nil {
			t.Errorf("%s may be asked", target)
		}
	}
}

// TestNameThatDoesNotResolveAtFirst: the endpoint counts as public meanwhile, and not for ever.
func TestNameThatDoesNotResolveAtFirst(t *testing.T) {
	source, err := oauth.New("https://mcp.corp.example/mcp", nil)
	noError.check(t, err)
	saved := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = saved })
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server")
		}}
	blockedError.check(t, source.CheckAddress("10.9.9.9"))
	resolveTo(t, "10.1.2.3")
	noError.check(t, source.CheckAddress("10.9.9.9"))
}

// TestRefusedMetadataOfTheFirstPlaceEndsTheSearch: the server has not said where its metadata is,
// and the one before its path is wrong. That at the root is not asked for.
func TestRefusedMetadataOfTheFirstPlaceEndsTheSearch(t *testing.T) {
	for fault, want := range map[oauthtest.ResourceFault]wantedError{
		oauthtest.ResourceForeign: resourceError, oauthtest.ResourceParent: resourceError,
		oauthtest.ServersEmpty: metadataError, oauthtest.ResourceHTML: metadataError,
		oauthtest.ResourceUnavailable: metadataError, oauthtest.ResourceRedirected: metadataError,
	} {
		t.Run(string(fault), func(t *testing.T) {
			s := newSite(t, nil, &oauthtest.ResourceOptions{NoHeader: true})
			s.resource.Misbehave(fault)
			want.check(t, s.call(t.Context(), s.person(t, nil), "search"))
			if n := s.resource.Count(oauthtest.ResourceMetadata); n != 1 {
				t.Errorf("metadata was asked for %d times, want once", n)
			}
			s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Metadata: 0})
		})
	}
}

// TestServerThatNamesAnotherIssuerEachTime: what is remembered of them does not grow.
func TestServerThatNamesAnotherIssuerEachTime(t *testing.T) {
	source, err := oauth.New("https://mcp.example/mcp", nil)
	noError.check(t, err)
	for i := range 1000 {
		issuer := fmt.Sprintf("https://as.example/%d", i)
		_, err := source.ReadServer(issuer, fmt.Appendf(nil, `{"issuer":%q,
			"authorization_endpoint":"https://as.example/a",
			"token_endpoint":"https://as.example/t",
			"code_challenge_methods_supported":["S256"]}`, issuer))
		noError.check(t, err)
	}
	if n := source.KnownServers(); n == 0 || n > 100 {
		t.Errorf("%d authorization servers are remembered", n)
	}
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
		o.Observe = func(e oauth.Event) { refreshed <- e.Err }
	})
	s.as.Misbehave(oauthtest.RefreshLimited)
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
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Refresh: 1, oauthtest.Authorize: 1})
}

// TestWorkOutlivesItsFirstCaller, also where the first one goes away.
func TestWorkOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, err := oauth.New("https://mcp.example/mcp", nil)
		noError.check(t, err)
		release, first, second := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		mend := func(ctx context.Context, done chan<- error) {
			_, err := source.Mend(ctx, "", time.Minute, func(ctx context.Context, _ string) error {
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
		go mend(ctx, first)
		synctest.Wait()
		go mend(t.Context(), second)
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

// TestQueryOfTheAuthorizationEndpointStays, but for what it has of the names of ours.
func TestQueryOfTheAuthorizationEndpointStays(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Misbehave(oauthtest.QueryEndpoint)
	noError.check(t, s.call(t.Context(), s.person(t, nil), "search"))
	form := s.as.Requests(oauthtest.Authorize)[0].Form
	if !slices.Equal(form["tenant"], []string{"1"}) || !slices.Equal(form["scope"],
		[]string{"read"}) {
		t.Errorf("got %q", form)
	}
}

// TestPlacesOfServerMetadata: a slash at the end of the issuer is left out before the well-known
// part is inserted (RFC 8414, 3.1), and the root of an issuer with a path is never asked.
func TestPlacesOfServerMetadata(t *testing.T) {
	const origin = "https://as.example"
	root := []string{origin + "/.well-known/oauth-authorization-server",
		origin + "/.well-known/openid-configuration"}
	tenant := []string{origin + "/.well-known/oauth-authorization-server/a/b",
		origin + "/.well-known/openid-configuration/a/b",
		origin + "/a/b/.well-known/openid-configuration"}
	for issuer, want := range map[string][]string{origin: root, origin + "/": root,
		origin + "/a/b": tenant, origin + "/a/b/": tenant} {
		if got := oauth.ServerMetadataURLs(issuer); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", issuer, got, want)
		}
	}
}

// TestMetadataAtTheRoot is about the origin, which is one resource with its slash and without.
func TestMetadataAtTheRoot(t *testing.T) {
	const well = "/.well-known/oauth-protected-resource"
	for suffix, valid := range map[string]bool{"": true, "/": true, "//": false, "/m": false,
		"/mcp": true, "/mcp/": false, "?": false, "/?": false, "#": false} {
		s := newSite(t, nil, &oauthtest.ResourceOptions{NoHeader: true, Location: well})
		s.resource.Edit(oauthtest.ResourceMetadata,
			oauthtest.Set("resource", s.resource.Origin+suffix))
		d, err := oauth.Discover(t.Context(), s.resource.URL, nil)
		if !valid {
			resourceError.check(t, err)
			continue
		}
		noError.check(t, err)
		if err == nil && d.Resource != s.resource.Origin+suffix {
			t.Errorf("%q: tokens would be for %s", suffix, d.Resource)
		}
	}
}
