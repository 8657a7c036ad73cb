package oauth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

const aTenant = "00000000-0000-0000-0000-00000000000a"

// The function provided changes options to a provider of the site's issuer.
func provided(change func(s *site, p *oauth.Provider)) func(s *site, o *oauth.Options) {
	return func(s *site, o *oauth.Options) {
		p := oauth.Provider{Issuer: s.as.URL}
		change(s, &p)
		o.Providers = []oauth.Provider{p}
	}
}

// issuerSpelled makes the server's metadata name another issuer, and its redirects none.
func issuerSpelled(s *site, issuer string) {
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("issuer", issuer))
	noIss(s.as)
}

// refusesRequests makes e refuse requests with mistake's code, if any. mistake may change q.
func refusesRequests(e oauthtest.Endpoint, mistake func(q url.Values) (code string)) fault {
	return rewritten(e, func(r *oauthtest.Request, next oauthtest.Next) *oauthtest.Answer {
		code := mistake(r.Form)
		a := next()
		if code != "" {
			oauthtest.Failure(code)(a)
			a.Document["error_description"] = code + " is missing or wrong"
		}
		return a
	})
}

// noResource makes a server refuse the parameter resource. All its tokens are for the site.
func noResource(s *site) {
	for _, e := range []oauthtest.Endpoint{oauthtest.Authorize, oauthtest.Token,
		oauthtest.Refresh} {
		refusesRequests(e, func(q url.Values) (code string) {
			if q.Has("resource") {
				code = "invalid_target"
			}
			q.Set("resource", s.resource.Identifier)
			return code
		})(s)
	}
}

// The function needs makes a server require a parameter value; "" means that it must be absent.
func needs(name, value string) fault {
	return refusesRequests(oauthtest.Authorize, func(q url.Values) string {
		if q.Get(name) != value {
			return name
		}
		return ""
	})
}

// scopePrefix makes a server's scopes have a prefix, except offline_access.
func scopePrefix(prefix string) fault {
	named := func(name string) edit {
		return change(name, func(right string) string {
			scopes := strings.Fields(right)
			for i, scope := range scopes {
				if scope != "offline_access" {
					scopes[i] = prefix + scope
				}
			}
			return strings.Join(scopes, " ")
		})
	}
	strip := func(e oauthtest.Endpoint) fault {
		return refusesRequests(e, func(q url.Values) (code string) {
			scopes := strings.Fields(q.Get("scope"))
			for i, scope := range scopes {
				if !strings.HasPrefix(scope, prefix) && scope != "offline_access" {
					code = "invalid_scope"
				}
				scopes[i] = strings.TrimPrefix(scope, prefix)
			}
			if q.Has("scope") {
				q.Set("scope", strings.Join(scopes, " "))
			}
			return code
		})
	}
	return both(strip(oauthtest.Authorize), strip(oauthtest.Refresh),
		edited(oauthtest.Token, named("scope")), edited(oauthtest.Refresh, named("scope")))
}

// accessType makes a server give refresh tokens only after access_type=offline.
func accessType(s *site) {
	s.as.Edit(oauthtest.Token, func(a *oauthtest.Answer) {
		logins := s.as.Requests(oauthtest.Authorize)
		if logins[len(logins)-1].Form.Get("access_type") != "offline" {
			delete(a.Document, "refresh_token")
		}
	})
}

// The function forms makes a server answer token requests with forms, and errors with status 200.
func forms(s *site) {
	for _, e := range []oauthtest.Endpoint{oauthtest.Token, oauthtest.Refresh} {
		s.as.Edit(e, func(a *oauthtest.Answer) { a.Form, a.Status = true, http.StatusOK })
	}
}

func endpointsOf(s *site) *oauth.ServerEndpoints {
	return &oauth.ServerEndpoints{Authorization: s.as.URL + "/authorize",
		Token: s.as.URL + "/token", Registration: s.as.URL + "/register"}
}

// A deviation is a departure of a real authorization server from the specifications.
type deviation struct {
	name   string
	server *oauthtest.Options
	fault  fault
	// The field word names an option in the strict client's error; if empty, the login succeeds.
	word   string
	base   func(s *site, o *oauth.Options) // changes the options of both clients
	allow  func(s *site, o *oauth.Options)
	cannot string // explains why no field allows the deviation
	strict bool   // the strict client logs in, and cannot refresh
}

// deviations returns the deviations that clients see. All others are in tokens.
func deviations() []deviation {
	const tenant = "/{tenantid}"
	var key = newKey()
	return []deviation{
		{name: "Auth0: issuer with a slash", fault: func(s *site) {
			issuerSpelled(s, s.as.URL+"/")
			s.resource.Edit(oauthtest.ResourceMetadata,
				oauthtest.Set("authorization_servers", []string{s.as.URL + "/"}))
		}},
		{name: "Auth0: the parameter audience", fault: needs("audience", "https://notes.example"),
			word: "Provider.AuthorizationParameters", allow: provided(
				func(s *site, p *oauth.Provider) {
					p.Endpoint = s.resource.URL
					p.AuthorizationParameters = map[string]string{
						"audience": "https://notes.example"}
				})},
		{name: "Entra ID: no S256 in its metadata",
			fault: edited(oauthtest.Metadata, oauthtest.Remove(challengeMethods)),
			word:  "Provider.AssumeS256",
			allow: provided(func(_ *site, p *oauth.Provider) { p.AssumeS256 = true })},
		{name: "Entra ID: no resource", fault: noResource,
			word: "Provider.NoResource", allow: provided(func(s *site, p *oauth.Provider) {
				p.NoResource, p.Endpoint, p.Scopes = true, s.resource.URL, []string{"read"}
			})},
		{name: "Entra ID: long and short scopes", fault: scopePrefix("api://notes/"),
			word: "Provider.ScopeNames", allow: provided(func(_ *site, p *oauth.Provider) {
				p.ScopeNames = map[string]string{"read": "api://notes/read"}
			})},
		{name: "Entra ID: common", fault: func(s *site) { issuerSpelled(s, s.as.URL+tenant) },
			word: "Provider.NamedAs", allow: func(s *site, o *oauth.Options) {
				s.register(o)
				o.Registrations[0].Issuer += tenant
				o.Providers = []oauth.Provider{{Issuer: s.as.URL + tenant, NamedAs: s.as.URL}}
			}},
		{name: "Okta: appended metadata", server: &oauthtest.Options{Path: "/oauth2/default"}},
		{name: "no dynamic registration",
			fault: edited(oauthtest.Metadata, oauthtest.Remove("registration_endpoint")),
			word:  "Options.Registrations", allow: (*site).register},
		{name: "GitHub: no metadata", fault: replied(oauthtest.Metadata,
			oauthtest.Answer{Status: http.StatusNotFound}), word: "Provider.Endpoints",
			allow: provided(func(s *site, p *oauth.Provider) {
				p.AssumeS256, p.Endpoints = true, endpointsOf(s)
			})},
		{name: "GitHub: a form as response", fault: forms},
		{name: "GitHub: no expiry, no refresh", fault: edited(oauthtest.Token,
			oauthtest.Remove("expires_in"), oauthtest.Remove("refresh_token"))},
		{name: "Google: access_type", fault: accessType, strict: true,
			word: "Provider.AuthorizationParameters", allow: provided(
				func(_ *site, p *oauth.Provider) {
					p.AuthorizationParameters = map[string]string{"access_type": "offline"}
				})},
		{name: "only private_key_jwt, secret configured", base: (*site).register,
			fault: onlyMethod("private_key_jwt"),
			word:  "Registration.PrivateKey", allow: func(s *site, o *oauth.Options) {
				s.addKeyClient("me", key.Public(), s.as.URL)
				o.Registrations = []oauth.Registration{{Issuer: s.as.URL, ClientID: "me",
					PrivateKey: key}}
			}},
		{name: "expires_in as a text",
			fault: edited(oauthtest.Token, oauthtest.Set("expires_in", "3600"))},
		{name: "token_type absent",
			fault:  edited(oauthtest.Token, oauthtest.Remove("token_type")),
			cannot: "a token of no type may need a proof, and would be sent without one"},
		{name: "whatever is in tokens", server: &oauthtest.Options{Opaque: true}},
	}
}

// Each deviation works by default, or by the one field that the error names.
func TestDeviations(t *testing.T) {
	works := 0
	for _, d := range deviations() {
		t.Run(d.name, func(t *testing.T) {
			outcome := "search"
			if d.cannot != "" || d.word != "" && !d.strict {
				outcome = "search:error"
			}
			strict := scenario{server: d.server, fault: d.fault, opts: d.base, script: outcome}
			if outcome != "search" {
				strict.says = d.word
			}
			s, _ := strict.play(t)
			if d.word != "" {
				before := s.as.Count(oauthtest.Authorize)
				s.run(s.source(func(o *oauth.Options) { d.allow(s, o) }), fmt.Sprintf(
					"search expire search authorize=%d", before+1))
			}
			if d.cannot == "" && !t.Failed() {
				works++
			}
		})
	}
	if all := len(deviations()); all != 16 || works != 15 {
		t.Errorf("%d of %d deviations work", works, all)
	}
}

// A list of challenge methods without S256 is refused, even with AssumeS256.
func TestListWithoutS256(t *testing.T) {
	for _, list := range []any{[]string{"plain"}, []string{}} {
		scenario{fault: edited(oauthtest.Metadata, oauthtest.Set(challengeMethods, list)),
			opts:   provided(func(_ *site, p *oauth.Provider) { p.AssumeS256 = true }),
			script: "search:metadata" + noLogin}.play(t)
	}
}

// A Provider does not apply to another issuer, even if that one's metadata takes its name.
func TestProviderOfAnotherIssuer(t *testing.T) {
	other := oauthtest.NewServer(t, nil)
	lenient := func(s *site, o *oauth.Options) {
		o.Providers = []oauth.Provider{{Issuer: other.URL, AssumeS256: true, NoResource: true,
			Endpoint: s.resource.URL, Scopes: []string{"admin"}}}
	}
	noS256 := edited(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
	scenario{opts: lenient, fault: noS256, script: "search:metadata" + noLogin}.play(t)
	scenario{opts: lenient, fault: both(noS256, edited(oauthtest.Metadata,
		oauthtest.Set("issuer", other.URL))), script: "search:issuer" + noLogin}.play(t)
	s, _ := scenario{opts: lenient, script: "search"}.play(t)
	if r := s.as.Requests(oauthtest.Authorize)[0]; r.Form.Get("resource") != s.resource.URL ||
		r.Form.Get("scope") != "read" {
		t.Errorf("got %q, want a strict request", r.Form)
	}
}

// With two issuers a login has its own issuer's overrides, even in a mix-up.
func TestTwoIssuersWithOtherOverrides(t *testing.T) {
	s, other := newSite(t, nil), &site{t: t, as: oauthtest.NewServer(t, nil)}
	noS256, audience := edited(oauthtest.Metadata, oauthtest.Remove(challengeMethods)),
		needs("audience", "mail")
	source := s.source(func(o *oauth.Options) {
		o.Providers = []oauth.Provider{{Issuer: s.as.URL, AssumeS256: true, NoResource: true,
			Endpoint: s.resource.URL, Scopes: []string{"read"},
			ScopeNames:      map[string]string{"read": "api://notes/read"},
			TokenParameters: map[string]string{"tier": "gold"}},
			{Issuer: other.as.URL, Endpoint: s.resource.URL,
				AuthorizationParameters: map[string]string{"audience": "mail"}}}
	})
	both(scopePrefix("api://notes/"), noResource, noS256)(s)
	noS256(other)
	s.resource.SetServers(other.as)
	s.run(source, "search:metadata") // only the first issuer's provider assumes S256
	other.as.Behave()
	both(audience, edited(oauthtest.Authorize, oauthtest.Set("iss", s.as.URL)))(other)
	s.run(source, "search:callback age=1m")
	other.as.Behave()
	audience(other)
	s.run(source, "search")
	s.resource.SetServers(s.as)
	s.run(source, "search")

	for _, want := range []struct {
		as   *oauthtest.Server
		e    oauthtest.Endpoint
		form [4]string
	}{
		{other.as, oauthtest.Authorize, [4]string{s.resource.Identifier, "mail", "read", ""}},
		{other.as, oauthtest.Token, [4]string{s.resource.Identifier, "", "", ""}},
		{s.as, oauthtest.Authorize, [4]string{"", "", "api://notes/read", ""}},
		{s.as, oauthtest.Token, [4]string{"", "", "", "gold"}},
	} {
		requests := want.as.Requests(want.e)
		for _, r := range requests {
			for i, name := range []string{"resource", "audience", "scope", "tier"} {
				wantEqual(t, fmt.Sprintf("%s: %s", want.e, name), r.Form.Get(name), want.form[i])
			}
		}
		if len(requests) == 0 {
			t.Errorf("%s: there was no request", want.e)
		}
	}
}

// A server cannot choose the scopes of the host's tokens. Some scope is always requested, because
// an authorization server would else choose its default.
func TestScopesOfTheHost(t *testing.T) {
	long := map[string]string{"read": "api://notes/read", "write": "api://notes/write"}
	chosen := func(more string) func(_ *site, o *oauth.Options) {
		return func(_ *site, o *oauth.Options) {
			o.Scopes = func(_ context.Context, c oauth.ScopeChoice) ([]string, error) {
				return append(slices.Concat(c.Challenge, c.Requested), more), nil
			}
		}
	}
	for name, c := range map[string]struct {
		scenario
		scopes []string // the scopes of each login
	}{
		"without the parameter resource": {scenario{fault: both(noResource,
			challengedWith(`scope="`, `scope="graph/Mail.Read `)),
			opts: provided(func(s *site, p *oauth.Provider) {
				p.NoResource, p.Endpoint, p.Scopes = true, s.resource.URL, []string{"read"}
			}), script: "search write:scopes", says: "Provider.Scopes"}, []string{"read"}},
		"chosen by a function": {scenario{opts: chosen("more"), script: "search write"},
			[]string{"read more", "read write more"}},
		"chosen, and no scope": {scenario{opts: chosen("a b"), script: "search:error opened=0",
			says: `returned "a b", which is no scope`}, nil},
		"none of them in the challenge": {scenario{
			fault: challengedWith(`scope="read"`, `scope="graph/Mail.Read"`),
			opts: provided(func(_ *site, p *oauth.Provider) {
				p.Scopes = []string{"read", "write"}
			}), script: "search"}, []string{"read write"}},
		"named as the authorization server does": {scenario{fault: both(
			scopePrefix("api://notes/"), challengedWith(`scope="read`, `scope="api://notes/read`,
				` write"`, ` api://notes/write"`)),
			opts: provided(func(_ *site, p *oauth.Provider) {
				p.Scopes, p.ScopeNames = []string{"read", "write"}, long
			}), script: "search write"},
			[]string{"api://notes/read", "api://notes/read api://notes/write"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := c.play(t)
			var got []string
			for _, r := range s.as.Requests(oauthtest.Authorize) {
				got = append(got, r.Form.Get("scope"))
			}
			if !slices.Equal(got, c.scopes) {
				t.Errorf("the scopes %q were requested, want %q", got, c.scopes)
			}
		})
	}
}

// Additional parameters are in every request of their kind, and in no other request.
func TestAdditionalParameters(t *testing.T) {
	s, _ := scenario{opts: provided(func(_ *site, p *oauth.Provider) {
		p.AuthorizationParameters = map[string]string{"domain_hint": "example.com"}
		p.TokenParameters = map[string]string{"tier": "gold"}
	}), script: "search expire search"}.play(t)
	for e, token := range map[oauthtest.Endpoint]bool{oauthtest.Authorize: false,
		oauthtest.Token: true, oauthtest.Refresh: true} {
		form := s.as.Requests(e)[0].Form
		if (form.Get("tier") == "gold") != token || form.Has("domain_hint") == token {
			t.Errorf("%s: got %q", e, form)
		}
	}
}

// Configured endpoints follow the same rules as those of metadata.
func TestConfiguredEndpoints(t *testing.T) {
	configured := func(token string) func(s *site, o *oauth.Options) {
		return provided(func(s *site, p *oauth.Provider) {
			p.AssumeS256, p.Endpoints = true, endpointsOf(s)
			if token != "" {
				p.Endpoints.Token = token
			}
		})
	}
	play(t, map[string]scenario{
		"address": {opts: configured("https://169.254.169.254/token"),
			script: "search:blocked" + noLogin},
		"issuer": {opts: configured(""), fault: edited(oauthtest.Authorize,
			oauthtest.Set("iss", foreignIssuer)), script: "search:callback token=0 metadata=0"},
	})
}

func TestProviderMistakes(t *testing.T) {
	parameter := func(name, value string) oauth.Provider {
		return oauth.Provider{Issuer: anIssuer, Endpoint: goodEndpoint,
			TokenParameters: map[string]string{name: value}}
	}
	gitHub := oauth.GitHub(goodEndpoint, "repo")
	all := map[string]oauth.Options{
		"two providers for an issuer": {Providers: []oauth.Provider{gitHub, gitHub}},
		"two providers for a name": {Providers: []oauth.Provider{{Issuer: anIssuer},
			{Issuer: anIssuer + "/other", NamedAs: anIssuer}}},
	}
	for name, p := range map[string]oauth.Provider{
		"no issuer":        {},
		"named as no URL":  {Issuer: anIssuer, NamedAs: "as"},
		"resource chooses": {Issuer: anIssuer, NoResource: true, Endpoint: goodEndpoint},
		"no endpoint":      {Issuer: anIssuer, NoResource: true, Scopes: []string{"a"}},
		"audience, no endpoint": {Issuer: anIssuer,
			TokenParameters: map[string]string{"audience": "a"}},
		"another endpoint": {Issuer: anIssuer, NoResource: true, Scopes: []string{"a"},
			Endpoint: goodEndpoint + "/"},
		"empty scopes":      {Issuer: anIssuer, Scopes: []string{}},
		"no scope":          {Issuer: anIssuer, Scopes: []string{"a b"}},
		"no scope name":     {Issuer: anIssuer, ScopeNames: map[string]string{"a": ""}},
		"scope names twice": {Issuer: anIssuer, ScopeNames: map[string]string{"a": "x", "b": "x"}},
		"two prompts": {Issuer: anIssuer, NoPrompt: true,
			AuthorizationParameters: map[string]string{"prompt": "login"}},
		"no token endpoint": {Issuer: anIssuer,
			Endpoints: &oauth.ServerEndpoints{Authorization: anIssuer}},
		"reserved":        parameter("resource", "https://other.example"),
		"reserved code":   parameter("code_verifier", "x"),
		"request object":  parameter("request_uri", "x"),
		"empty parameter": parameter("x", ""),
		"no parameter":    parameter("", "x"),
		"empty tenant":    oauth.EntraID("", goodEndpoint, "api://notes", "read"),
		"common":          oauth.EntraID("common", goodEndpoint, "api://notes", "read"),
		"no API":          oauth.EntraID(aTenant, goodEndpoint, "", "read"),
		"no Entra scopes": oauth.EntraID(aTenant, goodEndpoint, "api://notes"),
		"Google":          oauth.Google(goodEndpoint),
		"GitHub":          oauth.GitHub("", "repo"),
		"no pool":         oauth.Cognito("eu-west-1", "", goodEndpoint, "notes", "read"),
	} {
		all[name] = oauth.Options{Providers: []oauth.Provider{p}}
	}
	wantMistakes(t, all)
	for _, p := range []oauth.Provider{gitHub, oauth.Google(goodEndpoint, "openid"),
		oauth.EntraID(aTenant, goodEndpoint, "api://notes", "read"),
		oauth.Cognito("eu-west-1", "eu-west-1_a", goodEndpoint, "notes", "read")} {
		_, err := oauth.New(goodEndpoint, &oauth.Options{Providers: []oauth.Provider{p}})
		noError.check(t, err)
	}
}

// A preset works with all deviations of its provider at once, and without iss.
func TestPresetsAgainstFakes(t *testing.T) {
	noS256 := edited(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
	for name, c := range map[string]struct {
		preset func(endpoint string) oauth.Provider
		scope  string
		fault  fault
	}{
		"Entra ID": {func(endpoint string) oauth.Provider {
			return oauth.EntraID(aTenant, endpoint, "api://notes", "read")
		}, "api://notes/read offline_access", both(noS256, edited(oauthtest.Metadata, oauthtest.Set(
			"scopes_supported", []string{"openid", "offline_access"})), noResource,
			needs("prompt", ""), scopePrefix("api://notes/"))},
		"Google": {func(endpoint string) oauth.Provider { return oauth.Google(endpoint, "read") },
			"read", both(noResource, accessType)},
		"GitHub": {func(endpoint string) oauth.Provider { return oauth.GitHub(endpoint, "read") },
			"read", both(replied(oauthtest.Metadata, oauthtest.Answer{
				Status: http.StatusNotFound}), noResource, forms)},
		"Cognito": {func(endpoint string) oauth.Provider {
			return oauth.Cognito("eu-west-1", "eu-west-1_a", endpoint, "notes", "read")
		}, "notes/read", both(noS256, scopePrefix("notes/"), needs("prompt", ""))},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := scenario{fault: func(s *site) {
				c.fault(s)
				noIss(s.as)
			}, opts: func(s *site, o *oauth.Options) {
				s.register(o)
				p := c.preset(s.resource.URL)
				p.Issuer = s.as.URL
				if p.Endpoints != nil {
					p.Endpoints = endpointsOf(s)
				}
				o.Providers = []oauth.Provider{p}
			}, script: "search expire search authorize=1 refresh=1"}.play(t)
			if got := s.as.Requests(oauthtest.Authorize)[0].Form.Get("scope"); got != c.scope {
				t.Errorf("scope %q was requested, want %q", got, c.scope)
			}
		})
	}
}

// Token responses may be forms. Duplicate members are no response; an error may have status 200.
func TestFormsOfTokenEndpoint(t *testing.T) {
	all := map[string]scenario{}
	for name, body := range map[string]string{
		"a member twice": "access_token=a&access_token=b&token_type=bearer",
		"another member": "access_token=a&token_type=bearer&x=1&x=2",
		"an error twice": "error=invalid_grant&error=x",
		"no form":        "%zz",
		"an error":       "error=bad_verification_code&error_description=The+code+is+wrong",
	} {
		c := scenario{fault: replied(oauthtest.Token, oauthtest.Answer{Body: body,
			Header: http.Header{"Content-Type": {
				"application/x-www-form-urlencoded; charset=utf-8"}}}), script: "search:token"}
		if name == "an error" {
			c.script, c.says = "search:final", `"The code is wrong"`
		}
		all[name] = c
	}
	play(t, all)
}
