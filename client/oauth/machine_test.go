package oauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

const idToken = "urn:ietf:params:oauth:token-type:id_token"

// newKeys returns a key of each kind that signs client assertions.
func newKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, err384 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, errEd := ed25519.GenerateKey(rand.Reader)
	r, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	check(t, errors.Join(err, err384, errEd, errRSA))
	return map[string]crypto.Signer{"ES256": p256, "ES384": p384, "EdDSA": ed, "RS256": r}
}

// A kms is a key that does not show itself.
type kms struct{ crypto.Signer }

// machine returns a source without a person. r is its registration at the site's issuer.
func (s *site) machine(t *testing.T, m oauth.Machine, r oauth.Registration,
	change func(o *oauth.Options)) *oauth.Source {
	t.Helper()
	return s.source(t, func(o *oauth.Options) {
		r.Issuer = s.as.URL
		o.Interaction, o.Machine, o.Registrations = nil, m, []oauth.Registration{r}
		if change != nil {
			change(o)
		}
	})
}

// wantMachine makes calls before and after the token expires, and one that needs more scopes.
func (s *site) wantMachine(t *testing.T, source *oauth.Source) {
	t.Helper()
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	source.AgeLogin(time.Hour)
	noError.check(t, s.call(t.Context(), source, "search"))
	noError.check(t, s.call(t.Context(), source, "write"))
	s.wantCounts(t, counts{oauthtest.Authorize: 0, oauthtest.Register: 0,
		oauthtest.Token: 3, oauthtest.Refresh: 0})
	for _, r := range s.as.Requests(oauthtest.Token) {
		if r.Form.Get("resource") != s.resource.Identifier ||
			!strings.HasPrefix("read write", r.Form.Get("scope")) || !r.Form.Has("scope") {
			t.Errorf("got %q, want the resource and the scope", r.Form)
		}
	}
}

func TestClientCredentials(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.AddClient(oauthtest.Client{ID: "robot", Secret: "h+u/s h", Method: method})
			source := s.machine(t, oauth.ClientCredentials{}, oauth.Registration{
				ClientID: "robot", ClientSecret: "h+u/s h", Method: method}, nil)
			s.wantMachine(t, source)
		})
	}
	for alg, key := range newKeys(t) {
		t.Run(alg, func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.Edit(oauthtest.Metadata, oauthtest.Remove(challengeMethods))
			s.as.Edit(oauthtest.Metadata, oauthtest.Remove("authorization_endpoint"))
			s.as.Edit(oauthtest.Metadata, oauthtest.Set("scopes_supported",
				[]string{"offline_access"})) // not for machines
			s.as.AddClient(oauthtest.Client{ID: "robot", Key: key.Public()})
			s.as.Edit(oauthtest.Metadata, oauthtest.Set("token_endpoint_auth_methods_supported",
				[]string{"private_key_jwt"}))
			s.wantMachine(t, s.machine(t, oauth.ClientCredentials{}, oauth.Registration{
				ClientID: "robot", PrivateKey: kms{key}, KeyID: "key-1"}, nil))
		})
	}
}

// TestLoginWithAKey: a person logs in with a client that authenticates by its key.
func TestLoginWithAKey(t *testing.T) {
	s := newSite(t, nil, nil)
	key := newKeys(t)["ES256"]
	s.as.AddClient(oauthtest.Client{ID: "me", Key: key.Public(),
		RedirectURIs: []string{"http://127.0.0.1/callback"}})
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("token_endpoint_auth_methods_supported",
		[]string{"private_key_jwt"}))
	source := s.person(t, func(o *oauth.Options) {
		o.Registrations = []oauth.Registration{{Issuer: s.as.URL, ClientID: "me", PrivateKey: key}}
	})
	noError.check(t, s.call(t.Context(), source, "search"))
	s.as.Expire()
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Refresh: 1})
}

// TestAssertionOfEntraID: its audience is the token endpoint, and it has the thumbprint.
func TestAssertionOfEntraID(t *testing.T) {
	s := newSite(t, nil, nil)
	key := newKeys(t)["RS256"]
	s.as.AddClient(oauthtest.Client{ID: "robot", Key: key.Public()})
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("token_endpoint_auth_methods_supported",
		[]string{"private_key_jwt"}))
	s.as.Deviate(oauthtest.Deviations{TokenEndpointAudience: true})
	certificate := []byte("DER")
	r := oauth.Registration{ClientID: "robot", PrivateKey: key, Certificate: certificate}
	strict := s.machine(t, oauth.ClientCredentials{}, r, nil)
	tokenError.check(t, s.call(t.Context(), strict, "search"))
	source := s.machine(t, oauth.ClientCredentials{}, r, func(o *oauth.Options) {
		o.Providers = []oauth.Provider{{Issuer: s.as.URL, TokenEndpointAudience: true}}
	})
	noError.check(t, s.call(t.Context(), source, "search"))
	assertion := s.as.Requests(oauthtest.Token)[1].Form.Get("client_assertion")
	head, err := base64.RawURLEncoding.DecodeString(strings.Split(assertion, ".")[0])
	check(t, err)
	var header map[string]string
	sum := sha256.Sum256(certificate)
	if json.Unmarshal(head, &header) != nil || header["alg"] != "PS256" ||
		header["x5t#S256"] != base64.RawURLEncoding.EncodeToString(sum[:]) {
		t.Errorf("header %s", head)
	}
}

func TestWorkload(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.AddClient(oauthtest.Client{ID: "job"})
	soon := time.Now().Add(time.Minute)
	s.as.AddAssertion("good", oauthtest.Assertion{Subject: "job", Audience: s.as.URL,
		Expires: soon})
	s.as.AddAssertion("expired", oauthtest.Assertion{Audience: s.as.URL, Expires: time.Now()})
	s.as.AddAssertion("of another", oauthtest.Assertion{Audience: foreignIssuer, Expires: soon})
	s.wantMachine(t, s.machine(t, s.workload(t, "good"), oauth.Registration{ClientID: "job"}, nil))
	for _, assertion := range []string{"expired", "of another", "made up"} {
		before := s.as.Count(oauthtest.Token)
		source := s.machine(t, s.workload(t, assertion), oauth.Registration{ClientID: "job"}, nil)
		for range 3 {
			err := s.call(t.Context(), source, "search")
			wantedError{"a final TokenError", func(err error) bool {
				return tokenError.is(err) && !retryable.is(err)
			}}.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
		}
		if n := s.as.Count(oauthtest.Token) - before; n != 1 {
			t.Errorf("%s: it was sent %d times, want once", assertion, n)
		}
	}
}

// workload returns a platform that makes an assertion for the site's issuer alone.
func (s *site) workload(t *testing.T, assertion string) oauth.Workload {
	return oauth.Workload{Assertion: func(_ context.Context, issuer string) (string, error) {
		if issuer != s.as.URL {
			t.Errorf("an assertion for %s", issuer)
		}
		return assertion, nil
	}}
}

// enterprise returns a person who has logged in at an identity provider.
func enterprise(idp *oauthtest.Server) oauth.Enterprise {
	return oauth.Enterprise{TokenEndpoint: idp.URL + "/token", ClientID: "desk",
		Subject: func(context.Context) (string, string, error) { return "of alice", idToken, nil }}
}

func newEnterprise(t *testing.T) (s *site, idp *oauthtest.Server) {
	t.Helper()
	s, idp = newSite(t, nil, nil), oauthtest.NewServer(t, nil)
	idp.AddClient(oauthtest.Client{ID: "desk"})
	idp.AddAssertion("of alice", oauthtest.Assertion{Subject: "alice", Audience: "desk",
		Expires: time.Now().Add(time.Hour)})
	s.as.AddClient(oauthtest.Client{ID: "app", Secret: "hush"})
	s.as.Trust(idp)
	return s, idp
}

func TestEnterprise(t *testing.T) {
	s, idp := newEnterprise(t)
	source := s.machine(t, enterprise(idp), oauth.Registration{ClientID: "app",
		ClientSecret: "hush"}, nil)
	s.wantMachine(t, source)
	if r := idp.Requests(oauthtest.Token); len(r) != 3 || r[0].Form.Get("audience") != s.as.URL ||
		r[0].Form.Get("resource") != s.resource.Identifier {
		t.Errorf("the identity provider got %v", r)
	}
	idp.AddClient(oauthtest.Client{ID: "desk", Secret: "hush"})
	confidential := enterprise(idp)
	confidential.ClientSecret = "hush"
	source = s.machine(t, confidential, oauth.Registration{ClientID: "app",
		ClientSecret: "hush"}, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	idp.AddClient(oauthtest.Client{ID: "desk"})
	for name, f := range map[string]func(){
		"another type": func() {
			idp.Edit(oauthtest.Token, oauthtest.Set("issued_token_type", idToken))
		},
		"refused": func() {
			idp.Reply(oauthtest.Token, refusal(http.StatusBadRequest, "invalid_target"))
		},
		"a page": func() { idp.Reply(oauthtest.Token, page) },
	} {
		f()
		before := s.as.Count(oauthtest.Token)
		source := s.machine(t, enterprise(idp), oauth.Registration{ClientID: "app",
			ClientSecret: "hush"}, nil)
		err := s.call(t.Context(), source, "search")
		tokenError.check(t, err)
		s.wantNoSecrets(t, fmt.Sprint(err))
		if s.as.Count(oauthtest.Token) != before {
			t.Errorf("%s: the authorization server was asked", name)
		}
		idp.Behave()
	}
}

// TestMachineAtAnotherIssuer: what an MCP server names gets no secret, no assertion and no token of
// a person, also if it names the issuer of the host in its metadata.
func TestMachineAtAnotherIssuer(t *testing.T) {
	s, idp := newEnterprise(t)
	other := oauthtest.NewServer(t, nil)
	key := newKeys(t)["ES256"]
	for _, edit := range []bool{false, true} {
		if edit {
			other.Edit(oauthtest.Metadata, oauthtest.Set("issuer", s.as.URL))
		}
		for name, m := range map[string]oauth.Machine{"credentials": oauth.ClientCredentials{},
			"workload": s.workload(t, "good"), "enterprise": enterprise(idp)} {
			source := s.machine(t, m, oauth.Registration{ClientID: "app", PrivateKey: key}, nil)
			s.resource.SetServers(other)
			err := s.call(t.Context(), source, "search")
			if want := registrationError; !edit {
				want.check(t, err)
			} else {
				issuerError.check(t, err)
			}
			if n := other.Count(oauthtest.Token) + idp.Count(oauthtest.Token); n != 0 {
				t.Errorf("%s: %d token requests", name, n)
			}
		}
	}
}

// TestMachineWithAMetadataDocument: it is no credential of a machine, at an issuer that the host
// has not named.
func TestMachineWithAMetadataDocument(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.source(t, func(o *oauth.Options) {
		o.Interaction, o.Machine = nil, s.workload(t, "good")
		o.Client.MetadataURL = "https://client.example/metadata.json"
	})
	registrationError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Token: 0})
}

// TestIssuerThatAlwaysRefuses: 200 with an error, for ever, is one token request a minute.
func TestIssuerThatAlwaysRefuses(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Reply(oauthtest.Token, refusal(http.StatusOK, "made_up"))
	source := s.machine(t, oauth.ClientCredentials{}, oauth.Registration{ClientID: "robot",
		ClientSecret: "hush"}, nil)
	for range 5 {
		err := s.call(t.Context(), source, "search")
		tokenError.check(t, err)
		if !strings.Contains(err.Error(), `code "made_up"`) {
			t.Errorf("got %v, want the code of the issuer", err)
		}
	}
	s.wantCounts(t, counts{oauthtest.Token: 1})
	source.AgeFailures(time.Minute)
	tokenError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Token: 2})
}

// TestExtensions: each source names the capability that its client declares. That of a person has
// none, and the draft of workload identity federation names none.
func TestExtensions(t *testing.T) {
	s, idp := newEnterprise(t)
	for want, m := range map[string]oauth.Machine{
		`{"io.modelcontextprotocol/oauth-client-credentials":{}}`:         oauth.ClientCredentials{},
		`{"io.modelcontextprotocol/enterprise-managed-authorization":{}}`: enterprise(idp),
		`{}`: s.workload(t, "good")} {
		source := s.machine(t, m, oauth.Registration{ClientID: "c"}, nil)
		if got, err := json.Marshal(source.Extensions()); err != nil || string(got) != want {
			t.Errorf("%T: got %s, %v, want %s", m, got, err, want)
		}
	}
	if got := s.person(t, nil).Extensions(); len(got) != 0 {
		t.Errorf("a person: got %v", got)
	}
}

func TestMachineMistakes(t *testing.T) {
	const good, issuer = "https://mcp.example/mcp", "https://as.example"
	keys := newKeys(t)
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	check(t, err)
	one := []oauth.Registration{{Issuer: issuer, ClientID: "c", ClientSecret: "hush"}}
	with := func(change func(r *oauth.Registration)) oauth.Options {
		r := oauth.Registration{Issuer: issuer, ClientID: "c"}
		change(&r)
		return oauth.Options{Registrations: []oauth.Registration{r}}
	}
	for name, o := range map[string]oauth.Options{
		"an interaction": {Machine: oauth.ClientCredentials{}, Registrations: one,
			Interaction: &oauth.Loopback{}},
		"a redirect URI": {Machine: oauth.ClientCredentials{}, Registrations: one,
			RedirectURI: "https://app.example/back"},
		"no assertion": {Machine: oauth.Workload{}, Registrations: one},
		"no subject": {Machine: oauth.Enterprise{TokenEndpoint: issuer, ClientID: "c"},
			Registrations: one},
		"key and secret": with(func(r *oauth.Registration) {
			r.PrivateKey, r.ClientSecret = keys["ES256"], "hush"
		}),
		"key and method": with(func(r *oauth.Registration) {
			r.PrivateKey, r.Method = keys["ES256"], "client_secret_basic"
		}),
		"no key":      with(func(r *oauth.Registration) { r.Method = "private_key_jwt" }),
		"another key": with(func(r *oauth.Registration) { r.PrivateKey = p224 }),
		"audience of logins": {Machine: oauth.ClientCredentials{}, Registrations: one,
			Providers: []oauth.Provider{{Issuer: issuer, NoResource: true, Endpoint: good,
				AuthorizationParameters: map[string]string{"audience": "a"}}}},
	} {
		if _, err := oauth.New(good, &o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	s := newSite(t, nil, nil)
	public := s.machine(t, oauth.ClientCredentials{}, oauth.Registration{ClientID: "c"}, nil)
	registrationError.check(t, s.call(t.Context(), public, "search"))
	s.as.Edit(oauthtest.Metadata, oauthtest.Set("token_endpoint_auth_methods_supported",
		[]string{"private_key_jwt"}))
	secret := s.machine(t, oauth.ClientCredentials{}, oauth.Registration{ClientID: "c",
		ClientSecret: "hush"}, nil)
	registrationError.check(t, s.call(t.Context(), secret, "search"))
	s.wantCounts(t, counts{oauthtest.Token: 0})
	if _, err := public.Begin(t.Context(), nil); err == nil {
		t.Error("Begin of a machine: accepted")
	}
}

// TestKeysDoNotPrint: a registration shows neither its secret nor its key.
func TestKeysDoNotPrint(t *testing.T) {
	key := newKeys(t)["ES256"]
	r := oauth.Registration{Issuer: "https://as.example", ClientID: "me", PrivateKey: key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		opts := oauth.Options{Registrations: []oauth.Registration{r}}
		text := fmt.Sprintf(verb, []any{r, &r, opts})
		if strings.Contains(text, "PrivateKey") || !strings.Contains(text, "client me at") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
