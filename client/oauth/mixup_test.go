package oauth_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// noIss has an honest server that does not send iss, as RFC 9207 was not known when it was written.
func noIss(as *oauthtest.Server) {
	as.Edit(oauthtest.Metadata, oauthtest.Remove(sendsIssuer))
	as.Edit(oauthtest.Authorize, oauthtest.Remove("iss"))
}

// newMixUp returns a site whose person has logged in at an honest server without iss, and whose
// resource then names a server of an attacker, which sends people to the honest one.
func newMixUp(t *testing.T, change func(s *site, o *oauth.Options)) (s *site, source *oauth.Source,
	attacker *oauthtest.Server) {
	t.Helper()
	s = newSite(t, nil, nil)
	noIss(s.as)
	source = s.person(t, func(o *oauth.Options) {
		if change != nil {
			change(s, o)
		}
	})
	noError.check(t, s.call(t.Context(), source, "search"))
	attacker = oauthtest.NewServer(t, nil)
	noIss(attacker)
	attacker.Edit(oauthtest.Metadata,
		oauthtest.Set("authorization_endpoint", s.as.URL+"/authorize"))
	s.resource.SetServers(attacker)
	return s, source, attacker
}

// TestMixUpWithOurClientID: the attacker hands out the id that this client has at the honest
// server. The redirect URI is not registered for it there.
func TestMixUpWithOurClientID(t *testing.T) {
	s, source, attacker := newMixUp(t, nil)
	attacker.Edit(oauthtest.Register, oauthtest.Set("client_id", s.as.ClientIDs()[0]))
	if err := s.call(t.Context(), source, "search"); err == nil {
		t.Error("logged in")
	}
	if got := attacker.Requests(oauthtest.Token); len(got) > 0 {
		t.Errorf("the attacker got %q", got[0].Form)
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 2})
}

// TestMixUpWithOurRedirectURI: the attacker has registered the redirect URI of this client at the
// honest server. Only iss is a defence: RequireIss refuses the attacker, and an honest server that
// sends iss is not taken for the attacker.
func TestMixUpWithOurRedirectURI(t *testing.T) {
	attack := func(s *site, attacker *oauthtest.Server) {
		s.as.AddClient(oauthtest.Client{ID: "attack", RedirectURIs: []string{
			"http://127.0.0.1" + oauth.IssuerPath(attacker.URL)}})
		attacker.Edit(oauthtest.Register, oauthtest.Set("client_id", "attack"))
	}
	s, source, attacker := newMixUp(t, nil)
	attack(s, attacker)
	_ = s.call(t.Context(), source, "search")
	if got := attacker.Requests(oauthtest.Token); len(got) != 1 || got[0].Form.Get("code") == "" {
		t.Error("the attack does not work any more: mend this test")
	}

	s, source, attacker = newMixUp(t, func(s *site, o *oauth.Options) {
		o.RequireIss = true
		o.Providers = []oauth.Provider{{Issuer: s.as.URL}} // the host trusts it without iss
	})
	attack(s, attacker)
	err := s.call(t.Context(), source, "search")
	metadataError.check(t, err)
	if !strings.Contains(err.Error(), "RequireIss") {
		t.Errorf("%v does not name RequireIss", err)
	}
	if n := attacker.Count(oauthtest.Token); n != 0 {
		t.Errorf("the attacker got %d requests", n)
	}

	s, source, attacker = newMixUp(t, nil)
	attack(s, attacker)
	s.as.Behave() // sends iss
	callbackError.check(t, s.call(t.Context(), source, "search"))
	if n := attacker.Count(oauthtest.Token); n != 0 {
		t.Errorf("the attacker got %d requests", n)
	}
}

// TestRequireIss: an issuer that sends iss needs no name, and one of revision 2025-03-26 does.
func TestRequireIss(t *testing.T) {
	required := func(o *oauth.Options) { o.RequireIss, o.Legacy = true, true }
	s := newSite(t, nil, nil)
	noError.check(t, s.call(t.Context(), s.person(t, required), "search"))

	s = newSite(t, nil, nil)
	s.resource.Reply(oauthtest.ResourceMetadata, oauthtest.Reply{Status: http.StatusNotFound})
	s.resource.Challenge(func(int, string) []string { return []string{"Bearer"} })
	metadataError.check(t, s.call(t.Context(), s.person(t, required), "search"))
	s.wantNoLogin(t)
}

// TestRedirectURIOfEachIssuer: each issuer has a redirect URI of its own, and Finish takes no
// callback of another one. Hosts may see another authority than the browser.
func TestRedirectURIOfEachIssuer(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, func(o *oauth.Options) {
		o.Interaction, o.RedirectURI = nil, "https://app.example/back?issuer={issuer}"
	})
	login, callback := s.begin(t, source, nil)
	callback.Host = "10.0.0.1"
	for name, change := range map[string]func(u *url.URL, q url.Values){
		"another path":  func(u *url.URL, _ url.Values) { u.Path = "/other" },
		"another query": func(_ *url.URL, q url.Values) { q.Set("issuer", foreignIssuer) },
		"no query":      func(_ *url.URL, q url.Values) { q.Del("issuer") },
	} {
		wrong, q := *callback, callback.Query()
		change(&wrong, q)
		wrong.RawQuery = q.Encode()
		if err := source.Finish(t.Context(), login, &wrong); !callbackError.is(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	noError.check(t, source.Finish(t.Context(), login, callback))

	if got := callback.Query().Get("issuer"); got != s.as.URL {
		t.Errorf("the callback is for %q", got)
	}
	for _, wrong := range []string{"javascript:{issuer}", "https://{issuer}.example/back",
		"https://{issuer}/back", "{issuer}", "https://app.example/back#{issuer}"} {
		if _, err := oauth.New(s.resource.URL, &oauth.Options{RedirectURI: wrong}); err == nil {
			t.Errorf("%s: accepted", wrong)
		}
	}
}

// TestPathOfTheLogin: a Loopback takes the callback at the path of its redirect URI alone.
func TestPathOfTheLogin(t *testing.T) {
	s := newSite(t, nil, nil)
	var wrong oauthtest.Page
	s.browser.Deliver = func(ctx context.Context, callback *url.URL) {
		other := *callback
		other.Path = "/callback/other"
		wrong, _ = s.browser.Load(ctx, other.String())
		_, _ = s.browser.Load(ctx, callback.String())
	}
	source := s.source(t, func(o *oauth.Options) { register(s, o, s.as.URL) })
	noError.check(t, s.call(t.Context(), source, "search"))
	s.browser.Wait()
	if wrong.Status != http.StatusBadRequest {
		t.Errorf("another path: got %v, want status 400", wrong)
	}
}

// TestPathOfEachIssuer: registrations have a path for each issuer. A client that was registered
// beforehand keeps its redirect URI.
func TestPathOfEachIssuer(t *testing.T) {
	s := newSite(t, nil, nil)
	noError.check(t, s.call(t.Context(), s.person(t, nil), "search"))
	beforehand := s.person(t, func(o *oauth.Options) { register(s, o, s.as.URL) })
	noError.check(t, s.call(t.Context(), beforehand, "search"))
	for i, want := range []string{oauth.IssuerPath(s.as.URL), "/callback"} {
		u, err := url.Parse(s.as.Requests(oauthtest.Authorize)[i].Form.Get("redirect_uri"))
		if err != nil || u.Path != want {
			t.Errorf("the redirect URI is %v, want the path %s", u, want)
		}
	}
}
