package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		if endpoint := os.Getenv(childEndpoint); endpoint != "" {
			refreshOften(folder, endpoint)
		} else {
			holdLock(folder)
		}
		return
	}
	testkit.Main(m)
}

// A site is an authorization server, a resource that names it, and a person with a browser.
type site struct {
	as       *oauthtest.Server
	resource *oauthtest.Resource
	browser  *oauthtest.Browser
	looking  sync.Mutex // held while an impatientPerson looks at a page
}

func newSite(t testing.TB, server *oauthtest.Options, resource *oauthtest.ResourceOptions) *site {
	t.Helper()
	as := oauthtest.NewServer(t, server)
	if resource == nil {
		resource = &oauthtest.ResourceOptions{Scopes: []string{"read"},
			Need: func(_, target string) []string {
				if target == "write" {
					return []string{"write"}
				}
				return nil
			}}
	}
	resource.Servers = append(resource.Servers, as)
	return &site{as: as, resource: oauthtest.NewResource(t, resource),
		browser: oauthtest.NewBrowser(t)}
}

// source logs the person in by their browser.
func (s *site) source(t testing.TB, change func(o *oauth.Options)) *oauth.Source {
	t.Helper()
	opts := &oauth.Options{Interaction: &oauth.Loopback{Browse: s.browser.Open},
		Client: oauth.ClientInfo{Name: "test"}}
	if change != nil {
		change(opts)
	}
	source, err := oauth.New(s.resource.URL, opts)
	check(t, err)
	return source
}

// newLogin returns a site whose person, of the function, has logged in with the source.
func newLogin(t *testing.T, person func(s *site, t testing.TB,
	change func(o *oauth.Options)) *oauth.Source) (*site, *oauth.Source) {
	t.Helper()
	s := newSite(t, nil, nil)
	source := person(s, t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	return s, source
}

// begin begins a login, and returns what the browser of its person comes back with.
func (s *site) begin(t *testing.T, source *oauth.Source, cause error) (*oauth.Login, *url.URL) {
	t.Helper()
	login, err := source.Begin(t.Context(), cause)
	check(t, err)
	callback, err := s.browser.Visit(t.Context(), login.URL)
	check(t, err)
	return login, callback
}

// call sends a request as clienthttp does, with the credentials of the source.
func (s *site) call(ctx context.Context, source *oauth.Source, tool string) error {
	for attempt := 1; ; attempt++ {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q}}`,
			tool)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.resource.URL,
			strings.NewReader(body))
		if err != nil {
			return err
		}
		out := clienthttp.Outgoing{Method: http.MethodPost, URL: r.URL, RPC: "tools/call",
			Target: tool}
		sent, err := source.Credentials(ctx, out)
		if err != nil {
			return err
		}
		for name, values := range sent {
			r.Header[name] = values
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		refused := response.StatusCode == http.StatusUnauthorized ||
			response.StatusCode == http.StatusForbidden
		again := false
		if refused && attempt < 4 {
			again, err = source.Refused(ctx, clienthttp.Refusal{Outgoing: out, Sent: sent,
				Status: response.StatusCode, Header: response.Header, Attempt: attempt})
		}
		if err != nil || !again {
			return errors.Join(err, fmt.Errorf("status %d", response.StatusCode))
		}
	}
}

// counts are numbers of requests to the authorization server.
type counts = map[oauthtest.Endpoint]int

func (s *site) wantCounts(t *testing.T, want counts) {
	t.Helper()
	for endpoint, n := range want {
		if got := s.as.Count(endpoint); got != n {
			t.Errorf("%s was asked %d times, want %d", endpoint, got, n)
		}
	}
}

func TestFirstCallLogsIn(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, nil)
	before := source.Partition(t.Context())
	check(t, s.call(t.Context(), source, "search"))
	check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Token: 1,
		oauthtest.Register: 1, oauthtest.Refresh: 0})
	if source.Partition(t.Context()) == before {
		t.Error("the login has no name")
	}
}

// TestFirstCallersShareALogin: 64 calls lead to one browser, one registration and one login.
func TestFirstCallersShareALogin(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := s.as.Hold(oauthtest.Token)
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.call(ctx, source, "search"); !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v", err)
		}
	})
	<-gate.Arrived // the first caller waits for its login
	for range 63 {
		all.Go(func() {
			if err := s.call(t.Context(), source, "search"); err != nil {
				t.Error(err)
			}
		})
	}
	for s.resource.Count(oauthtest.Call) < 64 {
		runtime.Gosched()
	}
	cancel()
	gate.Release()
	all.Wait()
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Token: 1, oauthtest.Register: 1})
	if n := len(s.browser.Opened()); n != 1 {
		t.Errorf("%d browsers, want 1", n)
	}
}

// TestStepUpAsksForTheUnion: also where the challenge names only what is new.
func TestStepUpAsksForTheUnion(t *testing.T) {
	s := newSite(t, nil, nil)
	s.resource.Challenge(func(status int, right string) []string {
		if status == http.StatusForbidden {
			right = strings.Replace(right, `scope="read write"`, `scope="write"`, 1)
		}
		return []string{right}
	})
	source := s.source(t, nil)
	check(t, s.call(t.Context(), source, "search"))
	check(t, s.call(t.Context(), source, "write"))
	opened := s.browser.Opened()
	if len(opened) != 2 || !strings.Contains(opened[1], "scope=read+write") {
		t.Errorf("opened %q", opened)
	}
	s.wantCounts(t, counts{oauthtest.Register: 1, oauthtest.Token: 2})
}

// TestEveryTokenEnds: the end of a token is known after a login and after each refresh, so that the
// next refresh comes before the server refuses the token.
func TestEveryTokenEnds(t *testing.T) {
	s := newSite(t, &oauthtest.Options{Lifetime: time.Minute}, nil)
	source := s.source(t, nil)
	for refreshes := range 3 {
		before := time.Now()
		check(t, s.call(t.Context(), source, "search"))
		s.wantCounts(t, counts{oauthtest.Refresh: refreshes})
		ends := source.TokenEnds()
		if ends.Before(before.Add(30*time.Second)) || ends.After(time.Now().Add(time.Minute)) {
			t.Errorf("after %d refreshes the token ends at %v, want in a minute", refreshes, ends)
		}
		s.as.Expire()
	}
}

// TestLogoutWithoutARefreshToken revokes the access token. A client that is no longer configured
// cannot do so: the login is removed all the same.
func TestLogoutWithoutARefreshToken(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		s, store := newSite(t, &oauthtest.Options{NoRefresh: true}, nil), oauth.NewMemoryStore()
		source := s.source(t, func(o *oauth.Options) {
			o.Store = store
			register(s, o, s.as.URL)
		})
		noError.check(t, s.call(t.Context(), source, "search"))
		sent, err := source.Credentials(t.Context(), s.post(t))
		noError.check(t, err)
		token, want := strings.TrimPrefix(sent.Get("Authorization"), "Bearer "), 1
		if forgotten {
			source, want = s.source(t, func(o *oauth.Options) { o.Store = store }), 0
		}
		noError.check(t, source.Logout(t.Context()))
		s.wantCounts(t, counts{oauthtest.Revoke: want})
		for _, r := range s.as.Requests(oauthtest.Revoke) {
			if r.Form.Get("token") != token || r.Form.Get("token_type_hint") != "access_token" {
				t.Errorf("got %q, want the access token", r.Form)
			}
		}
		if sent, err := source.Credentials(t.Context(), s.post(t)); err != nil || len(sent) > 0 {
			t.Errorf("got %d headers, %v after a logout", len(sent), err)
		}
	}
}

// TestLogoutWhereTokensAreNotRevoked: that an authorization server revokes no access tokens is no
// failure; that it revokes no refresh tokens is one, since they live on.
func TestLogoutWhereTokensAreNotRevoked(t *testing.T) {
	for _, tt := range []struct {
		code      string
		noRefresh bool
		want      string // part of the error; empty: none
	}{
		{"unsupported_token_type", true, ""},
		{"unsupported_token_type", false, "status 400"},
		{"invalid_request", true, "status 400"},
	} {
		s := newSite(t, &oauthtest.Options{NoRefresh: tt.noRefresh}, nil)
		source := s.source(t, func(o *oauth.Options) {
			o.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (
				*http.Response, error) {
				if !strings.HasSuffix(r.URL.Path, "/revoke") {
					return http.DefaultTransport.RoundTrip(r)
				}
				w := httptest.NewRecorder()
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"error":%q}`, tt.code)
				return w.Result(), nil
			})}
		})
		noError.check(t, s.call(t.Context(), source, "search"))
		err := source.Logout(t.Context())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil ||
			!strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.code, err, tt.want)
		}
	}
}

func TestLogoutTakesTokensBack(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, nil)
	before := source.Partition(t.Context())
	check(t, s.call(t.Context(), source, "search"))
	loggedIn := source.Partition(t.Context())
	check(t, source.Logout(t.Context()))
	s.wantCounts(t, counts{oauthtest.Revoke: 1})
	if name := source.Partition(t.Context()); name == before || name == loggedIn {
		t.Errorf("%s is the name of a time before the logout", name)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
