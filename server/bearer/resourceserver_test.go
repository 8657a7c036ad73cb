package bearer_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/bearer"
)

const where = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`

// invalidToken is the challenge to a token that is refused.
func invalidToken(why string) string {
	return fmt.Sprintf(`Bearer error="invalid_token", error_description="%s", %s`, why, where)
}

// audience is what is said of a token for another server.
const audience = "audience: the token must be for " + resource + " (see Issuer.Audiences)"

// hints are in error_description after the reason; TestEveryRefusalIsExplained has them.
var hints = regexp.MustCompile(`(error_description="[^":]*): [^"]*"`)

// wantRefusal checks status and challenge of a response, but for the hint in it.
func wantRefusal(t *testing.T, response *http.Response, status int, challenge string) {
	t.Helper()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != status {
		t.Errorf("status %d, want %d; body %s", response.StatusCode, status, body)
	}
	got := response.Header.Values("WWW-Authenticate")
	if challenge == "" && len(got) == 0 {
		return
	}
	if len(got) != 1 || withoutHint(got[0]) != withoutHint(challenge) {
		t.Errorf("challenge %q, want %q", got, challenge)
	}
}

// wantInvalid checks that a token is refused, and the reason.
func wantInvalid(t *testing.T, response *http.Response, why string) {
	t.Helper()
	wantRefusal(t, response, http.StatusUnauthorized, invalidToken(why))
}

func withoutHint(challenge string) string { return hints.ReplaceAllString(challenge, `$1"`) }

func wantPassed(t *testing.T, response *http.Response, says string) {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || string(body) != says {
		t.Errorf("%d %q, %v (%s), want 200 %q", response.StatusCode, body, err,
			response.Header.Get("WWW-Authenticate"), says)
	}
}

const alice = "alice of " + issuerURL + ", client app, scopes files:read"

func TestGoodTokensPass(t *testing.T) {
	f, g := newGuarded(t, nil)
	for name, changes := range map[string]map[string]any{
		"plain":                 nil,
		"several audiences":     {"aud": []string{"https://other.example.com", resource}},
		"scp as a string":       {"scope": nil, "scp": "files:read"},
		"scp with spaces":       {"scope": nil, "scp": " files:read "},
		"scp as an array":       {"scope": nil, "scp": []string{"files:read"}},
		"azp":                   {"client_id": nil, "azp": "app"},
		"nonce and scopes":      {"nonce": "n"},
		"access, says Cognito":  {"token_use": "access"},
		"access, says Keycloak": {"typ": "Bearer"},
		"clock is a bit behind": {"exp": time.Now().Add(-30 * time.Second).Unix()},
		"clock is a bit ahead":  {"nbf": time.Now().Add(30 * time.Second).Unix()},
		"fraction of a second":  {"exp": float64(time.Now().Unix()) + 100.5},
	} {
		t.Run(name, func(t *testing.T) {
			wantPassed(t, send(t, g, f.token(changes)), alice)
		})
	}
	wantPassed(t, send(t, g, " "+f.token(nil)+" "), alice)
	if n := f.count("/keys"); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
}

func TestBadClaimsAreRefused(t *testing.T) {
	f, g := newGuarded(t, nil)
	past, later := time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	for name, of := range map[string]struct {
		changes map[string]any
		why     string
	}{
		"expired":                 {map[string]any{"exp": past}, "expired"},
		"expired and no scope":    {map[string]any{"exp": past, "scope": ""}, "expired"},
		"without expiry":          {map[string]any{"exp": nil}, "expired"},
		"expiry is text":          {map[string]any{"exp": "never"}, "malformed"},
		"expiry is null":          {map[string]any{"exp": json.RawMessage("null")}, "expired"},
		"expiry is negative":      {map[string]any{"exp": -1}, "malformed"},
		"expiry is too large":     {map[string]any{"exp": 1e300}, "malformed"},
		"not yet valid":           {map[string]any{"nbf": later}, "not yet valid"},
		"issued in the future":    {map[string]any{"iat": later}, "not yet valid"},
		"other issuer":            {map[string]any{"iss": "https://evil.example.com"}, "issuer"},
		"issuer with a slash":     {map[string]any{"iss": issuerURL + "/"}, "issuer"},
		"without issuer":          {map[string]any{"iss": nil}, "issuer"},
		"issuer is a list":        {map[string]any{"iss": []string{issuerURL}}, "malformed"},
		"other audience":          {map[string]any{"aud": "https://x.example.com/mcp"}, audience},
		"audience with a slash":   {map[string]any{"aud": resource + "/"}, audience},
		"audience is the origin":  {map[string]any{"aud": "https://mcp.example.com"}, audience},
		"without audience":        {map[string]any{"aud": nil}, audience},
		"audience is a number":    {map[string]any{"aud": 7}, "malformed"},
		"nobody":                  {map[string]any{"sub": nil, "client_id": nil}, "subject"},
		"person called as client": {map[string]any{"sub": "client:app"}, "subject"},
		"ID token":                {map[string]any{"nonce": "n", "scope": nil}, "type"},
		"ID token of Cognito":     {map[string]any{"token_use": "id"}, "type"},
		"ID token of Keycloak":    {map[string]any{"typ": "ID"}, "type"},
		"refresh token":           {map[string]any{"typ": "Refresh"}, "type"},
		"typ is a list":           {map[string]any{"typ": []string{"Bearer"}}, "type"},
		"security event":          {map[string]any{"events": map[string]any{}}, "type"},
		"ID token with hash":      {map[string]any{"at_hash": "h"}, "type"},
		"scope is a list":         {map[string]any{"scope": []string{"files:read"}}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, send(t, g, f.token(of.changes)), of.why)
		})
	}
}

// TestBoundTokensAreRefused: whoever sends a token that is bound to a key or a certificate has to
// prove that they have it, which no request to this server can: not as Bearer, nor as DPoP, with or
// without a proof, whatever cnf looks like.
func TestBoundTokensAreRefused(t *testing.T) {
	f, g := newGuarded(t, nil)
	looksUp := newResourceServer(t, f, introspecting)
	for name, cnf := range map[string]any{
		"key": map[string]string{"jkt": "x"}, "certificate": map[string]string{"x5t#S256": "x"},
		"both":  map[string]string{"x5t#S256": "x", "jkt": "x"},
		"empty": map[string]string{}, "empty jkt": map[string]string{"jkt": ""},
		"text": "jkt", "a list": []string{"jkt"}, "false": false,
	} {
		t.Run(name, func(t *testing.T) {
			token := f.token(map[string]any{"cnf": cnf})
			for range 2 { // the second is not answered from a cache of accepted tokens
				response := send(t, g, token)
				wantInvalid(t, response, "type")
				if said := response.Header.Get("WWW-Authenticate"); !strings.Contains(said,
					"bound to a key") || strings.Contains(said, "DPoP") {
					t.Errorf("the challenge is %s", said)
				}
			}
			for _, proof := range []string{"", "e30.e30.e30"} {
				r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
				r.Header = http.Header{"Authorization": {"DPoP " + token}, "Dpop": {proof}}
				if got := sendRequest(g, r).StatusCode; got != http.StatusUnauthorized {
					t.Errorf("as DPoP: status %d", got)
				}
			}
			for _, kind := range []string{"Bearer", "DPoP"} {
				f.with(func(f *fakeIssuer) {
					f.says = claimsOf(map[string]any{"active": true, "token_type": kind,
						"cnf": cnf})
				})
				wantInvalid(t, send(t, looksUp, "opaque-"+rand.Text()), "type")
			}
		})
	}
}

// TestForgedTokensAreRefused: what a token says of its key and algorithm does not count.
func TestForgedTokensAreRefused(t *testing.T) {
	f, g := newGuarded(t, nil)
	mine, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	public, err := x509.MarshalPKIXPublicKey(f.signer.Public().Key)
	check(t, err)
	good := f.token(nil)
	parts := strings.Split(good, ".")
	other := strings.Split(f.token(map[string]any{"sub": "bob"}), ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." +
		parts[1] + "."
	of := func(key any, id string, algorithm jose.SignatureAlgorithm) string {
		return sign(t, algorithm, jose.JSONWebKey{Key: key, KeyID: id}, "at+jwt", claimsOf(nil))
	}
	short, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	for name, forged := range map[string]struct{ token, why string }{
		"algorithm none":         {unsigned, "algorithm"},
		"HMAC by the public key": {of(public, "k1", jose.HS256), "algorithm"},
		"key of a stranger":      {of(mine, "k1", jose.ES256), "signature"},
		"claims of another":      {parts[0] + "." + other[1] + "." + parts[2], "signature"},
		"no signature":           {parts[0] + "." + parts[1] + ".", "signature"},
		"spelled otherwise":      {good[:len(good)-1] + string(good[len(good)-1]+1), "malformed"},
		"algorithm of no key":    {of(short, "k1", jose.RS256), "key"},
		"duplicate claims": {signRaw(t, f.signer, `{"iss":"`+issuerURL+`","iss":"x"}`),
			"malformed"},
		"claims are no object": {signRaw(t, f.signer, `[]`), "malformed"},
		"key that is none":     {signHeader(t, f.signer, "jwk", 7), "malformed"},
		"critical header":      {signHeader(t, f.signer, "crit", []string{"exp"}), "malformed"},
		"ID token":             {sign(t, jose.ES256, f.signer, "id+jwt", claimsOf(nil)), "type"},
		"logout token": {
			sign(t, jose.ES256, f.signer, "logout+jwt", claimsOf(nil)), "type",
		},
		"opaque":            {"2YotnFZFEjr1zCsicMWpAA", "malformed"},
		"five parts":        {"a.b.c.d.e", "malformed"},
		"header is no JSON": {"e30x.e30.e30", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, send(t, g, forged.token), forged.why)
		})
	}
	for path, n := range map[string]int{"/evil": 0, "/keys": 2} {
		if got := f.count(path); got > n {
			t.Errorf("%s was fetched %d times, want %d", path, got, n)
		}
	}
}

// TestKeysThatATokenBringsAreIgnored: its jwk, jku and x5u name a key of the attacker.
func TestKeysThatATokenBringsAreIgnored(t *testing.T) {
	f, g := newGuarded(t, nil)
	mine, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	key := jose.JSONWebKey{Key: mine, KeyID: "k1"}
	for name, value := range map[jose.HeaderKey]any{
		"jku": "https://evil.example.com/evil", "x5u": "https://evil.example.com/evil",
		"jwk": key.Public(),
	} {
		t.Run(string(name), func(t *testing.T) {
			wantInvalid(t, send(t, g, signHeader(t, key, name, value)), "signature")
		})
	}
	if n := f.count("/evil"); n != 0 {
		t.Errorf("the key of the attacker was fetched %d times", n)
	}
}

func signRaw(t *testing.T, key jose.JSONWebKey, payload string) string {
	t.Helper()
	return sign(t, jose.ES256, key, "at+jwt", json.RawMessage(payload))
}

func signHeader(t *testing.T, key jose.JSONWebKey, name jose.HeaderKey, value any) string {
	t.Helper()
	// The library signs what it understands alone: the header is made by hand.
	header, err := json.Marshal(map[string]any{"alg": "ES256", "kid": key.KeyID,
		string(name): value})
	check(t, err)
	claims, err := json.Marshal(claimsOf(nil))
	check(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	return encode(header) + "." + encode(claims) + "." + encode(bytes.Repeat([]byte{7}, 64))
}

func TestType(t *testing.T) {
	f, g := newGuarded(t, nil)
	for _, kind := range []string{"at+jwt", "application/at+jwt", "AT+JWT", "JWT", ""} {
		wantPassed(t, send(t, g, sign(t, jose.ES256, f.signer, kind, claimsOf(nil))), alice)
	}
}

func TestRequestsWithoutAToken(t *testing.T) {
	f := newFakeIssuer(t)
	token := f.token(nil)
	guarded := newResourceServer(t, f,
		func(o *bearer.Options) { o.Scopes = []string{"files:read"} })
	open := newResourceServer(t, f, func(o *bearer.Options) { o.Anonymous = true })
	for name, of := range map[string]struct {
		url    string
		values []string
	}{
		"none":             {"/mcp", nil},
		"other scheme":     {"/mcp", []string{"Basic YTpi"}},
		"token in the URL": {"/mcp?access_token=" + token, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, of.url, nil)
			r.Header["Authorization"] = of.values
			wantRefusal(t, sendRequest(guarded, r), http.StatusUnauthorized,
				`Bearer scope="files:read", `+where)
			wantPassed(t, sendRequest(open, r), "anonymous")
		})
	}
	wantRefusal(t, send(t, open, "", "files:read"), http.StatusUnauthorized,
		`Bearer scope="files:read", `+where)
	wantRefusal(t, send(t, open, f.token(map[string]any{"aud": "x"})), http.StatusUnauthorized,
		invalidToken(audience))
}

func TestMalformedHeaders(t *testing.T) {
	g := newResourceServer(t, newFakeIssuer(t), func(o *bearer.Options) { o.Anonymous = true })
	for name, values := range map[string][]string{
		"two headers":       {"Bearer a", "Bearer b"},
		"the same twice":    {"Bearer a", "Bearer a"},
		"no token":          {"Bearer"},
		"empty token":       {"Bearer "},
		"comma":             {"Bearer a,b"},
		"quote":             {`Bearer "a"`},
		"space":             {"Bearer a b"},
		"padding in front":  {"Bearer =a"},
		"not ASCII":         {"Bearer ä"},
		"line break":        {"Bearer a\nb"},
		"longer than 16 KB": {"Bearer " + strings.Repeat("a", 16<<10+1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
			r.Header["Authorization"] = values
			why := "Authorization header"
			if len(values) > 1 {
				why = "several Authorization headers"
			}
			wantRefusal(t, sendRequest(g, r), http.StatusBadRequest, fmt.Sprintf(
				`Bearer error="invalid_request", error_description="%s", %s`, why, where))
		})
	}
}

// TestLackOfScope names all scopes that are needed, those that were granted included.
func TestLackOfScope(t *testing.T) {
	f, g := newGuarded(t, func(o *bearer.Options) {
		o.Scopes = []string{"files:read"}
		o.Implies = func(have, need string) bool {
			return have == "files" && strings.HasPrefix(need, "files:")
		}
	})
	wantRefusal(t, send(t, g, f.token(nil), "files:write"), http.StatusForbidden,
		`Bearer error="insufficient_scope", error_description="more scopes are needed", `+
			`scope="files:read files:write", `+where)
	wantRefusal(t, send(t, g, f.token(map[string]any{"scope": ""})), http.StatusForbidden,
		`Bearer error="insufficient_scope", error_description="more scopes are needed", `+
			`scope="files:read", `+where)
	wantPassed(t, send(t, g, f.token(map[string]any{"scope": "files"}), "files:write"),
		strings.Replace(alice, "files:read", "files", 1))
	wantRefusal(t, send(t, g, f.token(map[string]any{"scope": "", "exp": 1}), "files:write"),
		http.StatusUnauthorized,
		`Bearer error="invalid_token", error_description="expired", scope="files:read", `+where)
}

func TestPrincipals(t *testing.T) {
	f, g := newGuarded(t, nil)
	machines := newResourceServer(t, f, withIssuer(func(i *bearer.Issuer) { i.Machines = true }))
	named := newResourceServer(t, f, func(o *bearer.Options) {
		o.Subject = func(t *bearer.Token) (protocol.Principal, error) {
			var tenant string
			if ok, err := t.Claim("tenant", &tenant); !ok || err != nil {
				panic("a panic of the host's: it refuses the token and nothing else")
			}
			return protocol.Principal{Issuer: tenant, Subject: t.Subject}, nil
		}
	})
	for name, of := range map[string]struct {
		g       *bearer.ResourceServer
		changes map[string]any
		want    protocol.Principal
	}{
		"person":    {g, nil, protocol.Principal{Issuer: issuerURL, Subject: "alice"}},
		"nobody":    {g, map[string]any{"sub": nil}, protocol.Principal{}},
		"empty sub": {g, map[string]any{"sub": ""}, protocol.Principal{}},
		"client": {machines, map[string]any{"sub": nil},
			protocol.Principal{Issuer: issuerURL, Subject: "client:app"}},
		"of the host": {named, map[string]any{"tenant": "acme"},
			protocol.Principal{Issuer: "acme", Subject: "alice"}},
		"panic": {named, nil, protocol.Principal{}},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := identify(of.g, f.token(of.changes))
			if id.Principal != of.want || (err == nil) == of.want.Anonymous() {
				t.Errorf("got %v, %v, want %v", id.Principal, err, of.want)
			}
		})
	}
}

// TestNothingPrintsTokens: errors, identities and claims name no token and no secret.
func TestNothingPrintsTokens(t *testing.T) {
	f, g := newGuarded(t, nil)
	for _, changes := range []map[string]any{nil, {"exp": 1}, {"aud": "x"}, {"iss": "x"}} {
		token := f.token(changes)
		r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		id, err := g.Identify(r)
		said := fmt.Sprintf("%v %+v %#v %v %+v %s", id, id, id.Access, err, err, err)
		if id.Values != nil {
			claims, _ := bearer.TokenFrom(id.Values(t.Context()))
			said += fmt.Sprintf("%v %+v %#v", claims, claims, claims)
		}
		for _, part := range strings.Split(token, ".") {
			if strings.Contains(said, part) {
				t.Errorf("%s has a part of the token", said)
			}
		}
	}
	secret := bearer.Introspection{URL: "https://x", ClientID: "rs", ClientSecret: "hidden"}
	of := bearer.Issuer{Introspection: &secret}
	said := fmt.Sprintf("%v %+v %#v %s %+v", secret, &secret, secret, of.Introspection, of)
	if strings.Contains(said, "hidden") {
		t.Error(said)
	}
}
