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
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

const (
	idToken   = "urn:ietf:params:oauth:token-type:id_token"
	idJAG     = "urn:ietf:params:oauth:token-type:id-jag"
	jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	exchange  = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// newKeys returns one key of each kind that signs client assertions.
func newKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	p384, err384 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, errEd := ed25519.GenerateKey(rand.Reader)
	r, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	check(t, errors.Join(err384, errEd, errRSA))
	return map[string]crypto.Signer{"ES256": newKey(), "ES384": p384, "EdDSA": ed, "RS256": r}
}

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // internal error: the curve is valid
	}
	return key
}

// A kms is a signer that hides its private key.
type kms struct{ crypto.Signer }

// addKeyClient registers a client that authenticates by an assertion for the audience (RFC 7523,
// section 3), single-use and unexpired. The server replaces it with the client's secret.
func (s *site) addKeyClient(id string, key crypto.PublicKey, audience string) {
	const secret = "of the client with a key"
	s.as.AddClient(oauthtest.Client{ID: id, Secret: secret, Method: "client_secret_post",
		RedirectURIs: []string{"http://127.0.0.1/callback"}})
	seen := map[string]bool{}
	is := func(r *oauthtest.Request) bool {
		parsed, err := jwt.ParseSigned(r.Form.Get("client_assertion"), []jose.SignatureAlgorithm{
			jose.ES256, jose.ES384, jose.RS256, jose.PS256, jose.EdDSA})
		claims := jwt.Claims{}
		if err != nil || parsed.Claims(key, &claims) != nil || claims.ID == "" ||
			claims.Expiry == nil || seen[claims.ID] || len(claims.Audience) != 1 ||
			r.Form.Get("client_assertion_type") !=
				"urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
			return false
		}
		seen[claims.ID] = true
		return claims.ValidateWithLeeway(jwt.Expected{Issuer: id, Subject: id, Time: time.Now(),
			AnyAudience: jwt.Audience{audience}}, 0) == nil
	}
	for _, e := range []oauthtest.Endpoint{oauthtest.Token, oauthtest.Refresh} {
		s.as.Rewrite(e, func(r *oauthtest.Request, next oauthtest.Next) *oauthtest.Answer {
			if is(r) {
				r.Form.Set("client_secret", secret)
			}
			return next()
		})
	}
}

// trust makes the server accept assertions that isGood accepts (RFC 7523, section 2.1).
func (s *site) trust(isGood func(assertion string) bool) {
	s.as.Rewrite(oauthtest.Token, func(r *oauthtest.Request,
		next oauthtest.Next) *oauthtest.Answer {
		if r.Form.Get("grant_type") == jwtBearer {
			if !isGood(r.Form.Get("assertion")) {
				refused := refusal(http.StatusBadRequest, "invalid_grant")
				return &refused
			}
			r.Form.Set("grant_type", "client_credentials")
		}
		return next()
	})
}

// machine changes options to a machine's. r is its registration at the site's issuer.
func (s *site) machine(m oauth.Machine, r oauth.Registration) func(o *oauth.Options) {
	return func(o *oauth.Options) {
		r.Issuer = s.as.URL
		o.Interaction, o.Machine, o.Registrations = nil, m, []oauth.Registration{r}
	}
}

// wantMachine makes calls before and after the token expires, and one that needs more scopes.
func (s *site) wantMachine(m oauth.Machine, r oauth.Registration) {
	s.t.Helper()
	source := s.source(s.machine(m, r))
	s.run(source, "search expire")
	source.AgeLogin(time.Hour)
	s.run(source, "search write authorize=0 register=0 token=3 refresh=0")
	for _, r := range s.as.Requests(oauthtest.Token) {
		if r.Form.Get("resource") != s.resource.Identifier ||
			!strings.HasPrefix("read write", r.Form.Get("scope")) || !r.Form.Has("scope") {
			s.t.Errorf("got %q, want the resource and the scope", r.Form)
		}
	}
}

// onlyKeys makes a server without authorization endpoint, whose clients authenticate by keys.
var onlyKeys = edited(oauthtest.Metadata, oauthtest.Remove(challengeMethods),
	oauthtest.Remove("authorization_endpoint"),
	oauthtest.Set("scopes_supported", []string{"offline_access"}), // not for machines
	oauthtest.Set(authMethods, []string{"private_key_jwt"}))

func TestClientCredentials(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			s := newSite(t, nil)
			s.as.AddClient(oauthtest.Client{ID: "robot", Secret: "h+u/s h", Method: method})
			s.wantMachine(oauth.ClientCredentials{}, oauth.Registration{
				ClientID: "robot", ClientSecret: "h+u/s h", Method: method})
		})
	}
	for alg, key := range newKeys(t) {
		t.Run(alg, func(t *testing.T) {
			s := newSite(t, nil)
			onlyKeys(s)
			s.addKeyClient("robot", key.Public(), s.as.URL)
			s.wantMachine(oauth.ClientCredentials{}, oauth.Registration{
				ClientID: "robot", PrivateKey: kms{key}, KeyID: "key-1"})
		})
	}
}

// Entra ID's assertions have the token endpoint as audience, and the certificate's thumbprint.
func TestAssertionOfEntraID(t *testing.T) {
	s, key, certificate := newSite(t, nil), newKeys(t)["RS256"], []byte("DER")
	onlyKeys(s)
	s.addKeyClient("robot", key.Public(), s.as.URL+"/token")
	robot := s.machine(oauth.ClientCredentials{}, oauth.Registration{ClientID: "robot",
		PrivateKey: key, Certificate: certificate})
	s.run(s.source(robot), "search:token")
	s.run(s.source(robot, func(o *oauth.Options) {
		o.Providers = []oauth.Provider{{Issuer: s.as.URL, TokenEndpointAudience: true}}
	}), "search")
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
	s := newSite(t, nil)
	s.as.AddClient(oauthtest.Client{ID: "job"})
	s.trust(func(assertion string) bool { return assertion == "good" })
	s.wantMachine(s.workload("good"), oauth.Registration{ClientID: "job"})
	refused := s.source(s.machine(s.workload("made up"), oauth.Registration{ClientID: "job"}))
	if err := s.run(refused, "search:final*3 token=4"); strings.Contains(err.Error(), "made up") {
		t.Errorf("the assertion is in %v", err)
	}
}

// workload returns a platform that makes an assertion only for the site's issuer.
func (s *site) workload(assertion string) oauth.Workload {
	return oauth.Workload{Assertion: func(_ context.Context, issuer string) (string, error) {
		if issuer != s.as.URL {
			s.t.Errorf("an assertion for %s", issuer)
		}
		return assertion, nil
	}}
}

// enterprise returns a user who has logged in at an identity provider.
func enterprise(idp *oauthtest.Server, secret oauth.Secret) oauth.Enterprise {
	return oauth.Enterprise{TokenEndpoint: idp.URL + "/token", ClientID: "desk",
		ClientSecret: secret,
		Subject: func(context.Context) (string, string, error) {
			return "of alice", idToken, nil
		}}
}

// newEnterprise returns a site whose server trusts the identity provider idp (RFC 8693).
func newEnterprise(t *testing.T) (s *site, idp *oauthtest.Server) {
	t.Helper()
	s, idp = newSite(t, nil), oauthtest.NewServer(t, nil)
	issued := map[string]bool{}
	s.as.AddClient(oauthtest.Client{ID: "app", Secret: "hush"})
	s.trust(func(assertion string) bool { return issued[assertion] })
	idp.Rewrite(oauthtest.Token, func(r *oauthtest.Request, _ oauthtest.Next) *oauthtest.Answer {
		id, secret, basic := r.BasicAuth()
		if basic != (id == "desk" && secret == "hush") || basic == r.Form.Has("client_id") ||
			r.Form.Get("grant_type") != exchange || r.Form.Get("requested_token_type") != idJAG ||
			r.Form.Get("subject_token") != "of alice" ||
			r.Form.Get("subject_token_type") != idToken ||
			r.Form.Get("audience") != s.as.URL ||
			r.Form.Get("resource") != s.resource.Identifier {
			t.Errorf("the identity provider got %q", r.Form)
		}
		made := rand.Text()
		issued[made] = true
		return &oauthtest.Answer{Document: oauthtest.Document{"access_token": made,
			"issued_token_type": idJAG, "token_type": "N_A", "expires_in": 60}}
	})
	return s, idp
}

func TestEnterprise(t *testing.T) {
	s, idp := newEnterprise(t)
	app := oauth.Registration{ClientID: "app", ClientSecret: "hush"}
	s.wantMachine(enterprise(idp, ""), app)
	if n := idp.Count(oauthtest.Token); n != 3 {
		t.Errorf("the identity provider got %d requests, want 3", n)
	}
	s.run(s.source(s.machine(enterprise(idp, "hush"), app)), "search token=4")
	for _, f := range []fault{edited(oauthtest.Token, oauthtest.Set("issued_token_type", idToken)),
		replied(oauthtest.Token, refusal(http.StatusBadRequest, "invalid_target")),
		replied(oauthtest.Token, page)} {
		f(&site{as: idp})
		s.run(s.source(s.machine(enterprise(idp, ""), app)), "search:token token=4")
	}
}

// Another issuer gets no secret, assertion or user's token of a machine, even with the host's
// issuer in its metadata.
func TestMachineAtAnotherIssuer(t *testing.T) {
	s, idp := newEnterprise(t)
	other, key := oauthtest.NewServer(t, nil), newKey()
	s.resource.SetServers(other)
	for _, outcome := range []string{"registration", "issuer"} {
		for name, m := range map[string]oauth.Machine{"credentials": oauth.ClientCredentials{},
			"workload": s.workload("good"), "enterprise": enterprise(idp, "")} {
			s.run(s.source(s.machine(m, oauth.Registration{ClientID: "app", PrivateKey: key})),
				"search:"+outcome)
			if n := other.Count(oauthtest.Token) + idp.Count(oauthtest.Token); n != 0 {
				t.Errorf("%s: %d token requests", name, n)
			}
		}
		other.Edit(oauthtest.Metadata, oauthtest.Set("issuer", s.as.URL))
	}
}

// Machines without credentials send no token request.
func TestMachinesWithoutCredentials(t *testing.T) {
	play(t, map[string]scenario{
		// The metadata document is no machine credential: the host has registered no issuer.
		"document": {opts: func(s *site, o *oauth.Options) {
			o.Interaction, o.Machine = nil, s.workload("good")
			o.Client.MetadataURL = "https://client.example/metadata.json"
		}, script: "search:registration token=0"},
		"public": {opts: func(s *site, o *oauth.Options) {
			s.machine(oauth.ClientCredentials{}, oauth.Registration{ClientID: "c"})(o)
		}, script: "search:registration token=0"},
		"secret": {fault: onlyKeys, opts: func(s *site, o *oauth.Options) {
			s.machine(oauth.ClientCredentials{}, oauth.Registration{ClientID: "c",
				ClientSecret: "hush"})(o)
		}, script: "search:registration token=0"},
		// An endless error with status 200 leads to one token request a minute.
		"refused": {fault: replied(oauthtest.Token, refusal(http.StatusOK, "made_up")),
			opts: func(s *site, o *oauth.Options) {
				s.machine(oauth.ClientCredentials{}, oauth.Registration{ClientID: "robot",
					ClientSecret: "hush"})(o)
			}, script: "search:token*5 token=1 age=1m search:token token=2", says: `code "made_up"`},
	})
}

// Without a machine there are no extensions, and with a workload there are none either.
func TestExtensions(t *testing.T) {
	s, idp := newEnterprise(t)
	for want, m := range map[string]oauth.Machine{
		`{"io.modelcontextprotocol/oauth-client-credentials":{}}`:         oauth.ClientCredentials{},
		`{"io.modelcontextprotocol/enterprise-managed-authorization":{}}`: enterprise(idp, ""),
		`{}`: s.workload("good")} {
		source := s.source(s.machine(m, oauth.Registration{ClientID: "c"}))
		if got, err := json.Marshal(source.Extensions()); err != nil || string(got) != want {
			t.Errorf("%T: got %s, %v, want %s", m, got, err, want)
		}
		if _, err := source.Begin(t.Context(), nil); err == nil {
			t.Error("Begin of a machine: accepted")
		}
	}
	if got := s.source().Extensions(); len(got) != 0 {
		t.Errorf("a person: got %v", got)
	}
}

func TestMachineMistakes(t *testing.T) {
	key := newKey()
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	check(t, err)
	with := func(m oauth.Machine, change func(o *oauth.Options)) oauth.Options {
		o := oauth.Options{Machine: m, Registrations: []oauth.Registration{{Issuer: anIssuer,
			ClientID: "c", ClientSecret: "hush"}}}
		if change != nil {
			change(&o)
		}
		return o
	}
	registered := func(r oauth.Registration) oauth.Options {
		r.Issuer, r.ClientID = anIssuer, "c"
		return oauth.Options{Registrations: []oauth.Registration{r}}
	}
	wantMistakes(t, map[string]oauth.Options{
		"an interaction": with(oauth.ClientCredentials{}, func(o *oauth.Options) {
			o.Interaction = &oauth.Loopback{}
		}),
		"a redirect URI": with(oauth.ClientCredentials{}, nobody),
		"no assertion":   with(oauth.Workload{}, nil),
		"no subject":     with(oauth.Enterprise{TokenEndpoint: anIssuer, ClientID: "c"}, nil),
		"audience of logins": with(oauth.ClientCredentials{}, func(o *oauth.Options) {
			o.Providers = []oauth.Provider{{Issuer: anIssuer, NoResource: true,
				Endpoint:                goodEndpoint,
				AuthorizationParameters: map[string]string{"audience": "a"}}}
		}),
		"key and secret": registered(oauth.Registration{PrivateKey: key, ClientSecret: "hush"}),
		"key and method": registered(oauth.Registration{PrivateKey: key,
			Method: "client_secret_basic"}),
		"no key":      registered(oauth.Registration{Method: "private_key_jwt"}),
		"another key": registered(oauth.Registration{PrivateKey: p224}),
	})
}
