package oauth_test

import (
	"net/http"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// noIss has an honest server that does not send iss, as RFC 9207 was not known when it was written.
func noIss(as *oauthtest.Server) {
	as.Edit(oauthtest.Metadata, oauthtest.Remove(sendsIssuer))
	as.Edit(oauthtest.Authorize, oauthtest.Remove("iss"))
}

// newMixUp returns a site with a login at an honest server without iss, whose resource then names a
// server of an attacker that sends people to the honest one.
func newMixUp(t *testing.T, change func(s *site, o *oauth.Options)) (s *site, source *oauth.Source,
	attacker *oauthtest.Server) {
	t.Helper()
	s = newSite(t, nil)
	noIss(s.as)
	source = s.source(func(o *oauth.Options) {
		if change != nil {
			change(s, o)
		}
	})
	s.run(source, "search")
	attacker = oauthtest.NewServer(t, nil)
	noIss(attacker)
	attacker.Edit(oauthtest.Metadata,
		oauthtest.Set("authorization_endpoint", s.as.URL+"/authorize"))
	s.resource.SetServers(attacker)
	return s, source, attacker
}

// TestMixUpWithOurClientID: the attacker hands out the client id of the honest server, where the
// redirect URI is not registered.
func TestMixUpWithOurClientID(t *testing.T) {
	s, source, attacker := newMixUp(t, nil)
	attacker.Edit(oauthtest.Register, oauthtest.Set("client_id",
		s.as.Requests(oauthtest.Authorize)[0].Form.Get("client_id")))
	s.run(source, "search:error authorize=2")
	if got := attacker.Requests(oauthtest.Token); len(got) > 0 {
		t.Errorf("the attacker got %q", got[0].Form)
	}
}

// TestMixUpWithOurRedirectURI: the attacker has registered the redirect URI of this client at the
// honest server. Only iss protects.
func TestMixUpWithOurRedirectURI(t *testing.T) {
	for _, c := range []struct {
		change  func(s *site, o *oauth.Options)
		sends   bool
		outcome string
		stolen  int
		says    string
	}{
		{outcome: "search:any", stolen: 1}, // or the attack does not work any more: mend this test
		{change: func(s *site, o *oauth.Options) {
			o.RequireIss = true
			o.Providers = []oauth.Provider{{Issuer: s.as.URL}} // the host trusts it without iss
		}, outcome: "search:metadata", says: "RequireIss"},
		{sends: true, outcome: "search:callback"},
	} {
		s, source, attacker := newMixUp(t, c.change)
		s.as.AddClient(oauthtest.Client{ID: "attack", RedirectURIs: []string{
			"http://127.0.0.1" + oauth.IssuerPath(attacker.URL)}})
		attacker.Edit(oauthtest.Register, oauthtest.Set("client_id", "attack"))
		if c.sends {
			s.as.Behave()
		}
		err := s.run(source, c.outcome)
		wantText(t, err, c.says)
		got := attacker.Requests(oauthtest.Token)
		if len(got) != c.stolen || c.stolen == 1 && got[0].Form.Get("code") == "" {
			t.Errorf("%s: the attacker got %d requests", c.outcome, len(got))
		}
	}
}

// TestRequireIss: an issuer that sends iss needs no name, and one of revision 2025-03-26 does.
func TestRequireIss(t *testing.T) {
	required := func(_ *site, o *oauth.Options) { o.RequireIss, o.Legacy = true, true }
	play(t, map[string]scenario{
		"sends iss": {opts: required, script: "search"},
		"of revision 2025-03-26": {opts: required, script: "search:metadata" + noLogin,
			fault: both(replied(oauthtest.ResourceMetadata,
				oauthtest.Answer{Status: http.StatusNotFound}),
				challenged(func(string) []string { return []string{"Bearer"} }))},
	})
}
