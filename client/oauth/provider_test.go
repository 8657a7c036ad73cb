package oauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// A deviation is what an authorization server of the world does in another way.
type deviation struct {
	name    string
	server  oauthtest.Options
	deviate func(s *site)
	// word is the field that allows it, and is in the error of the strict client. Empty: the strict
	// client logs in.
	word  string
	allow func(s *site, o *oauth.Options)
	// cannot is the reason why no field allows it.
	cannot string
	strict bool // the strict client logs in, and cannot refresh
}

const (
	challengeMethods = "code_challenge_methods_supported"
	sendsIssuer      = "authorization_response_iss_parameter_supported"
)

// provide returns the allow function of a provider of the site's issuer.
func provide(change func(s *site, p *oauth.Provider)) func(s *site, o *oauth.Options) {
	return func(s *site, o *oauth.Options) {
		p := oauth.Provider{Issuer: s.as.URL}
		change(s, &p)
		o.Providers = []oauth.Provider{p}
	}
}

// provided returns the options of a source with a provider of the site's issuer.
func provided(s *site, change func(p *oauth.Provider)) func(o *oauth.Options) {
	return func(o *oauth.Options) {
		provide(func(_ *site, p *oauth.Provider) { change(p) })(s, o)
	}
}

// register has the client registered beforehand.
func register(s *site, o *oauth.Options, issuer string) {
	s.as.AddClient(oauthtest.Client{ID: "me", Secret: "hush",
		RedirectURIs: []string{"http://127.0.0.1/callback"}})
	o.Registrations = []oauth.Registration{{Issuer: issuer, ClientID: "me", ClientSecret: "hush"}}
}

// issuerSpelled has the metadata of the server name another issuer, and the redirect nothing.
func issuerSpelled(s *site, issuer string) {
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("issuer", issuer))
	s.as.Edit(oauthtest.Metadata, oauthtest.Remove(sendsIssuer))
	s.as.Edit(oauthtest.Authorize, oauthtest.Remove("iss"))
}

func noFault(*site) {}

// deviations are those that a client meets. All others are in tokens, which it does not read.
func deviations() []deviation {
	return []deviation{
		{name: "Auth0: issuer with a slash", deviate: func(s *site) {
			issuerSpelled(s, s.as.URL+"/")
			s.resource.Edit(oauthtest.ResourceMetadata,
				oauthtest.Set("authorization_servers", []string{s.as.URL + "/"}))
		}},
		{name: "Auth0: the parameter audience", deviate: func(s *site) {
			s.as.Deviate(oauthtest.Deviations{Audience: "https://notes.example"})
			s.as.Edit(oauthtest.Authorize, change("error_description",
				func(string) string { return "audience is missing" }))
		}, word: "Provider.AuthorizationParameters", allow: provide(
			func(s *site, p *oauth.Provider) {
				s.as.Behave()
				p.Endpoint = s.resource.URL
				p.AuthorizationParameters = map[string]string{"audience": "https://notes.example"}
			})},
		{name: "Entra ID: no S256 in its metadata",
			deviate: edited(oauthtest.Metadata, oauthtest.Remove(challengeMethods)),
			word:    "Provider.AssumeS256",
			allow:   provide(func(_ *site, p *oauth.Provider) { p.AssumeS256 = true })},
		{name: "Entra ID: no resource", deviate: func(s *site) {
			s.as.Deviate(oauthtest.Deviations{Resource: s.resource.Identifier})
		}, word: "Provider.NoResource", allow: provide(func(s *site, p *oauth.Provider) {
			p.NoResource, p.Endpoint, p.Scopes = true, s.resource.URL, []string{"read"}
		})},
		{name: "Entra ID: long and short scopes", deviate: func(s *site) {
			s.as.Deviate(oauthtest.Deviations{ScopePrefix: "api://notes/"})
		}, word: "Provider.ScopeNames", allow: provide(func(_ *site, p *oauth.Provider) {
			p.ScopeNames = map[string]string{"read": "api://notes/read"}
		})},
		{name: "Entra ID: common", deviate: func(s *site) {
			issuerSpelled(s, s.as.URL+"/{tenantid}")
		}, word: "Provider.NamedAs", allow: func(s *site, o *oauth.Options) {
			register(s, o, s.as.URL+"/{tenantid}")
			o.Providers = []oauth.Provider{{Issuer: s.as.URL + "/{tenantid}", NamedAs: s.as.URL}}
		}},
		{name: "Okta: appended metadata", server: oauthtest.Options{Path: "/oauth2/default"},
			deviate: noFault},
		{name: "no dynamic registration",
			server:  oauthtest.Options{NoDynamic: true, NoDocuments: true},
			deviate: noFault, word: "Options.Registrations",
			allow: func(s *site, o *oauth.Options) { register(s, o, s.as.URL) }},
		{name: "GitHub: no metadata", deviate: func(s *site) {
			s.as.Reply(oauthtest.Metadata, oauthtest.Reply{Status: http.StatusNotFound})
		}, word: "Provider.Endpoints", allow: provide(func(s *site, p *oauth.Provider) {
			p.AssumeS256 = true
			p.Endpoints = &oauth.ServerEndpoints{Authorization: s.as.URL + "/authorize",
				Token: s.as.URL + "/token", Registration: s.as.URL + "/register"}
		})},
		{name: "GitHub: a form as response", deviate: func(s *site) {
			s.as.Deviate(oauthtest.Deviations{Form: true})
		}},
		{name: "GitHub: no expiry, no refresh", server: oauthtest.Options{NoRefresh: true},
			deviate: edited(oauthtest.Token, oauthtest.Remove("expires_in"))},
		{name: "Google: access_type", deviate: func(s *site) {
			s.as.Deviate(oauthtest.Deviations{AccessType: true})
		}, word: "Provider.AuthorizationParameters", strict: true, allow: provide(
			func(_ *site, p *oauth.Provider) {
				p.AuthorizationParameters = map[string]string{"access_type": "offline"}
			})},
		{name: "only private_key_jwt, secret configured", deviate: func(s *site) {
			s.as.Edit(oauthtest.Metadata, oauthtest.Set("token_endpoint_auth_methods_supported",
				[]string{"private_key_jwt"}))
		}, word: "Registration.PrivateKey", allow: func(s *site, o *oauth.Options) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				panic(err)
			}
			s.as.AddClient(oauthtest.Client{ID: "me", Key: key.Public(),
				RedirectURIs: []string{"http://127.0.0.1/callback"}})
			o.Registrations = []oauth.Registration{{Issuer: s.as.URL, ClientID: "me",
				PrivateKey: key}}
		}},
		{name: "expires_in as a text",
			deviate: edited(oauthtest.Token, oauthtest.Set("expires_in", "3600"))},
		{name: "token_type absent",
			deviate: edited(oauthtest.Token, oauthtest.Remove("token_type")),
			cannot:  "a token of no type may need a proof, and would be sent without one"},
		{name: "whatever is in tokens", server: oauthtest.Options{Opaque: true}, deviate: noFault},
	}
}

// TestDeviations: each deviation works by default, or by the one field that the error names.
func TestDeviations(t *testing.T) {
	var table strings.Builder
	works, all := 0, deviations()
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			how := d.check(t)
			if d.cannot == "" && !t.Failed() {
				works++
			}
			fmt.Fprintf(&table, "%-40s %s\n", d.name, how)
		})
	}
	t.Logf("%d of %d work\n%s", works, len(all), table.String())
	if len(all) != 16 || works != 15 {
		t.Errorf("%d of %d deviations work", works, len(all))
	}
}

// check logs in at a site with the deviation, strictly and with the field that allows it.
func (d *deviation) check(t *testing.T) (how string) {
	t.Helper()
	server := d.server
	s := newSite(t, &server, nil)
	d.deviate(s)
	configure := func(o *oauth.Options) {
		if d.word == "Registration.PrivateKey" {
			register(s, o, s.as.URL)
		}
	}
	err := s.call(t.Context(), s.person(t, configure), "search")
	switch {
	case d.cannot != "":
		if err == nil {
			t.Error("accepted")
		}
		return "cannot: " + d.cannot
	case d.word == "":
		noError.check(t, err)
		return "by default"
	case d.strict:
		noError.check(t, err)
	case err == nil || !strings.Contains(err.Error(), d.word):
		t.Errorf("got %v, want an error that names %s", err, d.word)
	}
	before := s.as.Count(oauthtest.Authorize)
	source := s.person(t, func(o *oauth.Options) {
		configure(o)
		d.allow(s, o)
	})
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	noError.check(t, s.call(t.Context(), source, "search"))
	if got := s.as.Count(oauthtest.Authorize) - before; got != 1 {
		t.Errorf("%d logins, want one and a refresh", got)
	}
	return d.word
}

// TestListWithoutS256 is refused, also with AssumeS256.
func TestListWithoutS256(t *testing.T) {
	for _, list := range []any{[]string{"plain"}, []string{}} {
		s := newSite(t, nil, nil)
		s.as.Edit(oauthtest.Metadata, oauthtest.Set(challengeMethods, list))
		source := s.person(t, provided(s, func(p *oauth.Provider) { p.AssumeS256 = true }))
		metadataError.check(t, s.call(t.Context(), source, "search"))
		s.wantNoLogin(t)
	}
}

// TestProviderOfAnotherIssuer: what is allowed at one issuer is not at another one, also when the
// other one names itself so in its metadata.
func TestProviderOfAnotherIssuer(t *testing.T) {
	lenient := func(issuer string, s *site, o *oauth.Options) {
		o.Providers = []oauth.Provider{{Issuer: issuer, AssumeS256: true, NoResource: true,
			Endpoint: s.resource.URL, Scopes: []string{"admin"}}}
	}
	s := newSite(t, nil, nil)
	s.as.Edit(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
	other := oauthtest.NewServer(t, nil)
	source := s.person(t, func(o *oauth.Options) { lenient(other.URL, s, o) })
	metadataError.check(t, s.call(t.Context(), source, "search"))
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("issuer", other.URL))
	issuerError.check(t, s.call(t.Context(), source, "search"))
	s.wantNoLogin(t)

	s = newSite(t, nil, nil)
	source = s.person(t, func(o *oauth.Options) { lenient(other.URL, s, o) })
	noError.check(t, s.call(t.Context(), source, "search"))
	if r := s.as.Requests(oauthtest.Authorize)[0]; r.Form.Get("resource") != s.resource.URL ||
		r.Form.Get("scope") != "read" {
		t.Errorf("got %q, want a strict request", r.Form)
	}
}

// TestTwoIssuersWithOtherOverrides: a login has those of the issuer at which it was begun alone,
// also when the two are mixed up.
func TestTwoIssuersWithOtherOverrides(t *testing.T) {
	s := newSite(t, nil, nil)
	other := oauthtest.NewServer(t, nil)
	s.as.Edit(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
	source := s.person(t, func(o *oauth.Options) {
		o.Providers = []oauth.Provider{{Issuer: s.as.URL, AssumeS256: true, NoResource: true,
			Endpoint: s.resource.URL, Scopes: []string{"read"},
			ScopeNames:      map[string]string{"read": "api://notes/read"},
			TokenParameters: map[string]string{"tier": "gold"}},
			{Issuer: other.URL, Endpoint: s.resource.URL,
				AuthorizationParameters: map[string]string{"audience": "mail"}}}
	})
	s.as.Deviate(oauthtest.Deviations{ScopePrefix: "api://notes/",
		Resource: s.resource.Identifier})
	other.Deviate(oauthtest.Deviations{Audience: "mail"})
	other.Edit(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
	s.resource.SetServers(other)
	metadataError.check(t, s.call(t.Context(), source, "search")) // S256 is assumed at the first
	other.Behave()
	other.Edit(oauthtest.Authorize, oauthtest.Set("iss", s.as.URL))
	callbackError.check(t, s.call(t.Context(), source, "search"))
	source.AgeFailures(time.Minute)
	other.Behave()
	noError.check(t, s.call(t.Context(), source, "search"))
	s.resource.SetServers(s.as)
	noError.check(t, s.call(t.Context(), source, "search"))

	want := func(as *oauthtest.Server, e oauthtest.Endpoint, form map[string]string) {
		t.Helper()
		for _, r := range as.Requests(e) {
			for _, name := range []string{"resource", "audience", "scope", "tier"} {
				if r.Form.Get(name) != form[name] {
					t.Errorf("%s: %s is %q, want %q", e, name, r.Form.Get(name), form[name])
				}
			}
		}
		if as.Count(e) == 0 {
			t.Errorf("%s: there was no request", e)
		}
	}
	want(other, oauthtest.Authorize, map[string]string{"resource": s.resource.Identifier,
		"audience": "mail", "scope": "read"})
	want(other, oauthtest.Token, map[string]string{"resource": s.resource.Identifier})
	want(s.as, oauthtest.Authorize, map[string]string{"scope": "api://notes/read"})
	want(s.as, oauthtest.Token, map[string]string{"tier": "gold"})
}

// TestServerCannotChooseScopes: without the parameter resource the scopes of a challenge would
// choose what the token is for.
func TestServerCannotChooseScopes(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Deviate(oauthtest.Deviations{Resource: s.resource.Identifier})
	s.resource.Challenge(func(status int, right string) []string {
		return []string{strings.Replace(right, `scope="`, `scope="graph/Mail.Read `, 1)}
	})
	source := s.person(t, provided(s, func(p *oauth.Provider) {
		p.NoResource, p.Endpoint, p.Scopes = true, s.resource.URL, []string{"read"}
	}))
	noError.check(t, s.call(t.Context(), source, "search"))
	err := s.call(t.Context(), source, "write")
	wantedError{"a ScopeError", isA[*oauth.InsufficientScopeError]}.check(t, err)
	if !strings.Contains(fmt.Sprint(err), "Provider.Scopes") {
		t.Errorf("%v does not name Provider.Scopes", err)
	}
	if r := s.as.Requests(oauthtest.Authorize); len(r) != 1 || r[0].Form.Get("scope") != "read" {
		t.Errorf("got %v, want one login for read", r)
	}
}

// TestAdditionalParameters are in each request of their kind, and in no other.
func TestAdditionalParameters(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, provided(s, func(p *oauth.Provider) {
		p.AuthorizationParameters = map[string]string{"domain_hint": "example.com"}
		p.TokenParameters = map[string]string{"tier": "gold"}
	}))
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	noError.check(t, s.call(t.Context(), source, "search"))
	for e, token := range map[oauthtest.Endpoint]bool{oauthtest.Authorize: false,
		oauthtest.Token: true, oauthtest.Refresh: true} {
		form := s.as.Requests(e)[0].Form
		if (form.Get("tier") == "gold") != token || form.Has("domain_hint") == token {
			t.Errorf("%s: got %q", e, form)
		}
	}
}

// TestMethodOfTheHost: a method that the host names is used, whatever the metadata lists.
func TestMethodOfTheHost(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("token_endpoint_auth_methods_supported",
		[]string{"private_key_jwt"}))
	source := s.person(t, func(o *oauth.Options) {
		register(s, o, s.as.URL)
		o.Registrations[0].Method = "client_secret_basic"
	})
	noError.check(t, s.call(t.Context(), source, "search"))
}

// TestChallengeWithoutScopesOfTheHost: if a server names none of them, all are requested, and never
// none: an authorization server would choose its default.
func TestChallengeWithoutScopesOfTheHost(t *testing.T) {
	s := newSite(t, nil, nil)
	challengedWith(`scope="read"`, `scope="graph/Mail.Read"`)(s)
	source := s.person(t, provided(s, func(p *oauth.Provider) {
		p.Scopes = []string{"read", "write"}
	}))
	noError.check(t, s.call(t.Context(), source, "search"))
	if got := s.as.Requests(oauthtest.Authorize)[0].Form.Get("scope"); got != "read write" {
		t.Errorf("scope %q was requested, want those of the host", got)
	}
}

// TestServerThatNamesLongScopes: a server may name scopes as the authorization server does.
func TestServerThatNamesLongScopes(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Deviate(oauthtest.Deviations{ScopePrefix: "api://notes/"})
	s.resource.Challenge(func(_ int, right string) []string {
		right = strings.Replace(right, `scope="read`, `scope="api://notes/read`, 1)
		return []string{strings.Replace(right, ` write"`, ` api://notes/write"`, 1)}
	})
	source := s.person(t, provided(s, func(p *oauth.Provider) {
		p.Scopes = []string{"read", "write"}
		p.ScopeNames = map[string]string{"read": "api://notes/read", "write": "api://notes/write"}
	}))
	noError.check(t, s.call(t.Context(), source, "search"))
	noError.check(t, s.call(t.Context(), source, "write"))
	for i, want := range []string{"api://notes/read", "api://notes/read api://notes/write"} {
		if got := s.as.Requests(oauthtest.Authorize)[i].Form.Get("scope"); got != want {
			t.Errorf("scope %q was requested, want %q", got, want)
		}
	}
}

// TestConfiguredEndpoints are requested under the same rules as those of metadata.
func TestConfiguredEndpoints(t *testing.T) {
	s := newSite(t, nil, nil)
	configured := func(token string) *oauth.Source {
		return s.person(t, provided(s, func(p *oauth.Provider) {
			p.AssumeS256 = true
			p.Endpoints = &oauth.ServerEndpoints{Authorization: s.as.URL + "/authorize",
				Token: token, Registration: s.as.URL + "/register"}
		}))
	}
	blockedError.check(t, s.call(t.Context(), configured("https://169.254.169.254/token"),
		"search"))
	s.wantNoLogin(t)
	s.as.Edit(oauthtest.Authorize, oauthtest.Set("iss", foreignIssuer))
	callbackError.check(t, s.call(t.Context(), configured(s.as.URL+"/token"), "search"))
	s.wantCounts(t, counts{oauthtest.Token: 0, oauthtest.Metadata: 0})
}

func TestProviderMistakes(t *testing.T) {
	const good, issuer = "https://mcp.example/mcp", "https://as.example"
	const tenant = "00000000-0000-0000-0000-00000000000a"
	parameter := func(name, value string) oauth.Provider {
		return oauth.Provider{Issuer: issuer, Endpoint: good,
			TokenParameters: map[string]string{name: value}}
	}
	for name, p := range map[string]oauth.Provider{
		"no issuer":        {},
		"named as no URL":  {Issuer: issuer, NamedAs: "as"},
		"resource chooses": {Issuer: issuer, NoResource: true, Endpoint: good},
		"no endpoint":      {Issuer: issuer, NoResource: true, Scopes: []string{"a"}},
		"audience, no endpoint": {Issuer: issuer,
			TokenParameters: map[string]string{"audience": "a"}},
		"another endpoint": {Issuer: issuer, NoResource: true, Scopes: []string{"a"},
			Endpoint: good + "/"},
		"empty scopes":      {Issuer: issuer, Scopes: []string{}},
		"no scope":          {Issuer: issuer, Scopes: []string{"a b"}},
		"no scope name":     {Issuer: issuer, ScopeNames: map[string]string{"a": ""}},
		"scope names twice": {Issuer: issuer, ScopeNames: map[string]string{"a": "x", "b": "x"}},
		"two prompts": {Issuer: issuer, NoPrompt: true,
			AuthorizationParameters: map[string]string{"prompt": "login"}},
		"no token endpoint": {Issuer: issuer,
			Endpoints: &oauth.ServerEndpoints{Authorization: issuer}},
		"reserved":        parameter("resource", "https://other.example"),
		"reserved code":   parameter("code_verifier", "x"),
		"request object":  parameter("request_uri", "x"),
		"empty parameter": parameter("x", ""),
		"no parameter":    parameter("", "x"),
		"empty tenant":    oauth.EntraID("", good, "api://notes", "read"),
		"common":          oauth.EntraID("common", good, "api://notes", "read"),
		"organizations":   oauth.EntraID("organizations", good, "api://notes", "read"),
		"consumers":       oauth.EntraID("consumers", good, "api://notes", "read"),
		"no API":          oauth.EntraID(tenant, good, "", "read"),
		"no Entra scopes": oauth.EntraID(tenant, good, "api://notes"),
		"Google":          oauth.Google(good),
		"GitHub":          oauth.GitHub("", "repo"),
		"no pool":         oauth.Cognito("eu-west-1", "", good, "notes", "read"),
	} {
		if _, err := oauth.New(good, &oauth.Options{Providers: []oauth.Provider{p}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	twice := oauth.GitHub(good, "repo")
	if _, err := oauth.New(good, &oauth.Options{
		Providers: []oauth.Provider{twice, twice}}); err == nil {
		t.Error("two providers for an issuer: accepted")
	}
	if _, err := oauth.New(good, &oauth.Options{Providers: []oauth.Provider{{Issuer: issuer},
		{Issuer: issuer + "/other", NamedAs: issuer}}}); err == nil {
		t.Error("two providers for a name: accepted")
	}
	for _, p := range []oauth.Provider{oauth.EntraID(tenant, good, "api://notes", "read"),
		oauth.Google(good, "openid"), oauth.GitHub(good, "repo"),
		oauth.Cognito("eu-west-1", "eu-west-1_a", good, "notes", "read")} {
		if _, err := oauth.New(good, &oauth.Options{Providers: []oauth.Provider{p}}); err != nil {
			t.Error(err)
		}
	}
}

// TestPresetsAgainstFakes: the fields of each preset log in at a server with all the deviations of
// that provider at once.
func TestPresetsAgainstFakes(t *testing.T) {
	const tenant = "00000000-0000-0000-0000-00000000000a"
	for name, c := range map[string]struct {
		preset  func(endpoint string) oauth.Provider
		scope   string
		deviate func(s *site) oauthtest.Deviations
	}{
		"Entra ID": {func(endpoint string) oauth.Provider {
			return oauth.EntraID(tenant, endpoint, "api://notes", "read")
		}, "api://notes/read offline_access", func(s *site) oauthtest.Deviations {
			s.as.Edit(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
			s.as.Edit(oauthtest.Metadata, oauthtest.Set("scopes_supported",
				[]string{"openid", "offline_access"}))
			return oauthtest.Deviations{Resource: s.resource.Identifier, NoPrompt: true,
				ScopePrefix: "api://notes/"}
		}},
		"Google": {func(endpoint string) oauth.Provider { return oauth.Google(endpoint, "read") },
			"read", func(s *site) oauthtest.Deviations {
				return oauthtest.Deviations{Resource: s.resource.Identifier, AccessType: true}
			}},
		"GitHub": {func(endpoint string) oauth.Provider { return oauth.GitHub(endpoint, "read") },
			"read", func(s *site) oauthtest.Deviations {
				s.as.Reply(oauthtest.Metadata, oauthtest.Reply{Status: http.StatusNotFound})
				return oauthtest.Deviations{Resource: s.resource.Identifier, Form: true}
			}},
		"Cognito": {func(endpoint string) oauth.Provider {
			return oauth.Cognito("eu-west-1", "eu-west-1_a", endpoint, "notes", "read")
		}, "notes/read", func(s *site) oauthtest.Deviations {
			s.as.Edit(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
			return oauthtest.Deviations{ScopePrefix: "notes/", NoPrompt: true}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, &oauthtest.Options{NoDynamic: true, NoDocuments: true}, nil)
			issuerSpelled(s, s.as.URL) // none of them sends iss
			s.as.Deviate(c.deviate(s))
			source := s.person(t, func(o *oauth.Options) {
				register(s, o, s.as.URL)
				p := c.preset(s.resource.URL)
				p.Issuer = s.as.URL
				if p.Endpoints != nil {
					p.Endpoints = &oauth.ServerEndpoints{Authorization: s.as.URL + "/authorize",
						Token: s.as.URL + "/token"}
				}
				o.Providers = []oauth.Provider{p}
			})
			noError.check(t, s.call(t.Context(), source, "search"))
			s.as.Expire()
			noError.check(t, s.call(t.Context(), source, "search"))
			s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 1})
			if got := s.as.Requests(oauthtest.Authorize)[0].Form.Get("scope"); got != c.scope {
				t.Errorf("scope %q was requested, want %q", got, c.scope)
			}
		})
	}
}

// TestFormsOfTokenEndpoint: a member twice is no response, and an error is one with 200, too.
func TestFormsOfTokenEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want wantedError
	}{
		"a member twice": {"access_token=a&access_token=b&token_type=bearer", tokenError},
		"another member": {"access_token=a&token_type=bearer&x=1&x=2", tokenError},
		"an error twice": {"error=invalid_grant&error=x", tokenError},
		"no form":        {"%zz", tokenError},
		"an error": {url.Values{"error": {"bad_verification_code"},
			"error_description": {"The code is wrong"}}.Encode(),
			wantedError{"its description", func(err error) bool {
				return tokenError.is(err) && !retryable.is(err) &&
					strings.Contains(err.Error(), `"The code is wrong"`)
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, replied(oauthtest.Token, oauthtest.Reply{Status: http.StatusOK,
				ContentType: "application/x-www-form-urlencoded; charset=utf-8", Body: test.body}),
				name)
			test.want.check(t, s.call(t.Context(), source, "search"))
		})
	}
}

// TestDescriptionWithASecret: the description of an error is not shown if it quotes a secret. That
// of the client need not be in the form.
func TestDescriptionWithASecret(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Edit(oauthtest.Token, func(d *oauthtest.Document) {
		r := s.as.Requests(oauthtest.Token)
		quoted := "the client secret is not hush"
		if len(r)%2 == 1 {
			quoted = "unknown code " + r[len(r)-1].Form.Get("code")
		}
		*d = oauthtest.Document{{Name: "error", Value: "invalid_grant"},
			{Name: "error_description", Value: quoted}}
	})
	source := s.person(t, func(o *oauth.Options) { register(s, o, s.as.URL) })
	for range 2 {
		err := s.call(t.Context(), source, "search")
		tokenError.check(t, err)
		s.wantNoSecrets(t, fmt.Sprint(err))
		source.AgeFailures(time.Minute)
	}
	s.wantCounts(t, counts{oauthtest.Token: 2})
}
