package bearer_test

import (
	"bytes"
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

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/bearer"
)

const where = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`

func invalidToken(why string) string {
	return fmt.Sprintf(`Bearer error="invalid_token", error_description="%s", %s`, why, where)
}

// audience is the refusal reason of a token for another server.
const audience = "audience: the token must be for " + resource + " (see Issuer.Audiences)"

// hints matches hints in error_description, after the reason. TestEveryRefusalIsExplained has them.
var hints = regexp.MustCompile(`(error_description="[^":]*): [^"]*"`)

// wantRefusal checks status and challenge of a response, without its hint.
func wantRefusal(t testing.TB, response *http.Response, status int, challenge string) {
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

func wantInvalid(t testing.TB, response *http.Response, why string) {
	t.Helper()
	wantRefusal(t, response, http.StatusUnauthorized, invalidToken(why))
}

func withoutHint(challenge string) string { return hints.ReplaceAllString(challenge, `$1"`) }

func wantPassed(t testing.TB, response *http.Response, says string) {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || string(body) != says {
		t.Errorf("%d %q, %v (%s), want 200 %q", response.StatusCode, body, err,
			response.Header.Get("WWW-Authenticate"), says)
	}
}

const alice = "alice of " + issuerURL + ", client app, scopes files:read"

// TestTokens checks by their claims and type which tokens pass.
func TestTokens(t *testing.T) {
	g := newGuarded(t)
	past, later := time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	for _, kind := range []string{"at+jwt", "application/at+jwt", "AT+JWT", "JWT", ""} {
		wantPassed(t, send(t, g, " "+sign(t, jose.ES256, g.signer, kind, claimsOf(nil))+" "), alice)
	}
	for name, of := range map[string]struct {
		changes map[string]any
		why     string // empty: the token passes
	}{
		"several audiences":     {map[string]any{"aud": []string{"https://x.test", resource}}, ""},
		"scp as a string":       {map[string]any{"scope": nil, "scp": "files:read"}, ""},
		"scp with spaces":       {map[string]any{"scope": nil, "scp": " files:read "}, ""},
		"scp as an array":       {map[string]any{"scope": nil, "scp": []string{"files:read"}}, ""},
		"azp":                   {map[string]any{"client_id": nil, "azp": "app"}, ""},
		"nonce and scopes":      {map[string]any{"nonce": "n"}, ""},
		"access, says Cognito":  {map[string]any{"token_use": "access"}, ""},
		"access, says Keycloak": {map[string]any{"typ": "Bearer"}, ""},
		"clock is a bit behind": {
			map[string]any{"exp": time.Now().Add(-30 * time.Second).Unix()}, "",
		},
		"clock is a bit ahead": {
			map[string]any{"nbf": time.Now().Add(30 * time.Second).Unix()}, "",
		},
		"fraction of a second":   {map[string]any{"exp": float64(later) + 0.5}, ""},
		"expired and no scope":   {map[string]any{"exp": past, "scope": ""}, "expired"},
		"expiry is text":         {map[string]any{"exp": "never"}, "malformed"},
		"expiry is null":         {map[string]any{"exp": json.RawMessage("null")}, "expired"},
		"expiry is negative":     {map[string]any{"exp": -1}, "malformed"},
		"expiry is too large":    {map[string]any{"exp": 1e300}, "malformed"},
		"other issuer":           {map[string]any{"iss": "https://evil.example.com"}, "issuer"},
		"without issuer":         {map[string]any{"iss": nil}, "issuer"},
		"issuer is a list":       {map[string]any{"iss": []string{issuerURL}}, "malformed"},
		"audience with a slash":  {map[string]any{"aud": resource + "/"}, audience},
		"audience is the origin": {map[string]any{"aud": "https://mcp.example.com"}, audience},
		"audience is a number":   {map[string]any{"aud": 7}, "malformed"},
		"ID token":               {map[string]any{"nonce": "n", "scope": nil}, "type"},
		"ID token of Cognito":    {map[string]any{"token_use": "id"}, "type"},
		"ID token of Keycloak":   {map[string]any{"typ": "ID"}, "type"},
		"refresh token":          {map[string]any{"typ": "Refresh"}, "type"},
		"typ is a list":          {map[string]any{"typ": []string{"Bearer"}}, "type"},
		"security event":         {map[string]any{"events": map[string]any{}}, "type"},
		"scope is a list":        {map[string]any{"scope": []string{"files:read"}}, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			if of.why == "" {
				wantPassed(t, send(t, g, g.token(of.changes)), alice)
				return
			}
			wantInvalid(t, send(t, g, g.token(of.changes)), of.why)
		})
	}
	g.run("keys=1")
}

// Key-bound tokens are refused: as Bearer and as DPoP, with and without a proof, for any cnf.
func TestBoundTokensAreRefused(t *testing.T) {
	g := newGuarded(t)
	looksUp := newGuarded(t, introspecting)
	for name, cnf := range map[string]any{
		"key": map[string]string{"jkt": "x"}, "certificate": map[string]string{"x5t#S256": "x"},
		"both":  map[string]string{"x5t#S256": "x", "jkt": "x"},
		"empty": map[string]string{}, "empty jkt": map[string]string{"jkt": ""},
		"text": "jkt", "a list": []string{"jkt"}, "false": false,
	} {
		t.Run(name, func(t *testing.T) {
			token := g.token(map[string]any{"cnf": cnf})
			for range 2 { // the second time, no cache of accepted tokens may answer
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
				wantEqual(t, "as DPoP: status", sendRequest(g, r).StatusCode,
					http.StatusUnauthorized)
			}
			for _, kind := range []string{"Bearer", "DPoP"} {
				looksUp.says = claimsOf(nil, "active", true, "token_type", kind, "cnf", cnf)
				wantInvalid(t, send(t, looksUp, "opaque-"+rand.Text()), "type")
			}
		})
	}
}

// Forged tokens are refused: keys and algorithms that a token names or contains do not count.
func TestForgedTokensAreRefused(t *testing.T) {
	g := newGuarded(t)
	mine := jose.JSONWebKey{Key: newKey(t), KeyID: "k1"}
	public, err := x509.MarshalPKIXPublicKey(g.signer.Public().Key)
	check(t, err)
	good := g.token(nil)
	parts := strings.Split(good, ".")
	other := strings.Split(g.token(map[string]any{"sub": "bob"}), ".")
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
		"key of a stranger":      {of(mine.Key, "k1", jose.ES256), "signature"},
		"claims of another":      {parts[0] + "." + other[1] + "." + parts[2], "signature"},
		"no signature":           {parts[0] + "." + parts[1] + ".", "signature"},
		"spelled otherwise":      {good[:len(good)-1] + string(good[len(good)-1]+1), "malformed"},
		"algorithm of no key":    {of(short, "k1", jose.RS256), "key"},
		"duplicate claims": {signRaw(t, g.signer, `{"iss":"`+issuerURL+`","iss":"x"}`),
			"malformed"},
		"claims are no object": {signRaw(t, g.signer, `[]`), "malformed"},
		"key that is none":     {signHeader(t, g.signer, "jwk", 7), "malformed"},
		"critical header":      {signHeader(t, g.signer, "crit", []string{"exp"}), "malformed"},
		"ID token":             {sign(t, jose.ES256, g.signer, "id+jwt", claimsOf(nil)), "type"},
		"logout token": {
			sign(t, jose.ES256, g.signer, "logout+jwt", claimsOf(nil)), "type",
		},
		"header is no JSON": {"e30x.e30.e30", "malformed"},
		// Their jwk, jku or x5u names a key of the attacker.
		"jku": {signHeader(t, mine, "jku", "https://evil.example.com/evil"), "signature"},
		"x5u": {signHeader(t, mine, "x5u", "https://evil.example.com/evil"), "signature"},
		"jwk": {signHeader(t, mine, "jwk", mine.Public()), "signature"},
	} {
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, send(t, g, forged.token), forged.why)
		})
	}
	for path, n := range map[string]int{"/evil": 0, "/keys": 2} {
		if got := g.count(path); got > n {
			t.Errorf("%s was fetched %d times, want %d", path, got, n)
		}
	}
}

func signRaw(t *testing.T, key jose.JSONWebKey, payload string) string {
	t.Helper()
	return sign(t, jose.ES256, key, "at+jwt", json.RawMessage(payload))
}

func signHeader(t *testing.T, key jose.JSONWebKey, name jose.HeaderKey, value any) string {
	t.Helper()
	// The library signs only headers that it understands, so this token is handmade.
	header, err := json.Marshal(map[string]any{"alg": "ES256", "kid": key.KeyID,
		string(name): value})
	check(t, err)
	claims, err := json.Marshal(claimsOf(nil))
	check(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	return encode(header) + "." + encode(claims) + "." + encode(bytes.Repeat([]byte{7}, 64))
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

// If a scope is missing, the challenge names all required scopes. The log has the granted scopes.
func TestLackOfScope(t *testing.T) {
	g := newGuarded(t, func(o *bearer.Options) {
		o.Scopes = []string{"files:read"}
		o.Implies = func(have, need string) bool {
			return have == "files" && strings.HasPrefix(need, "files:")
		}
	})
	wantRefusal(t, send(t, g, g.token(nil), "files:write"), http.StatusForbidden,
		`Bearer error="insufficient_scope", error_description="more scopes are needed", `+
			`scope="files:read files:write", `+where)
	wantRefusal(t, send(t, g, g.token(map[string]any{"scope": ""})), http.StatusForbidden,
		`Bearer error="insufficient_scope", error_description="more scopes are needed", `+
			`scope="files:read", `+where)
	const want = `bearer: more scopes are needed: "files:read"; it has the scopes "x" ` +
		`(see Issuer.ScopesOf, Options.Implies)`
	if _, err := identify(g, g.token(map[string]any{"scope": "x"})); fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	wantPassed(t, send(t, g, g.token(map[string]any{"scope": "files"}), "files:write"),
		strings.Replace(alice, "files:read", "files", 1))
	wantRefusal(t, send(t, g, g.token(map[string]any{"scope": "", "exp": 1}), "files:write"),
		http.StatusUnauthorized,
		`Bearer error="invalid_token", error_description="expired", scope="files:read", `+where)
}

func TestPrincipals(t *testing.T) {
	g := newGuarded(t)
	machines := newResourceServer(t, g.fakeIssuer,
		withIssuer(func(i *bearer.Issuer) { i.Machines = true }))
	named := newResourceServer(t, g.fakeIssuer, func(o *bearer.Options) {
		o.Subject = func(t *bearer.Token) (protocol.Principal, error) {
			var tenant string
			if ok, err := t.Claim("tenant", &tenant); !ok || err != nil {
				panic("a panic of the host's: it refuses the token and nothing else")
			}
			return protocol.Principal{Issuer: tenant, Subject: t.Subject}, nil
		}
	})
	for name, of := range map[string]struct {
		g       protector
		changes map[string]any
		want    protocol.Principal
	}{
		"person":    {g, nil, protocol.Principal{Issuer: issuerURL, Subject: "alice"}},
		"empty sub": {g, map[string]any{"sub": ""}, protocol.Principal{}},
		"client": {machines, map[string]any{"sub": nil},
			protocol.Principal{Issuer: issuerURL, Subject: "client:app"}},
		"of the host": {named, map[string]any{"tenant": "acme"},
			protocol.Principal{Issuer: "acme", Subject: "alice"}},
		"panic": {named, nil, protocol.Principal{}},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := identify(of.g, g.token(of.changes))
			if id.Principal != of.want || (err == nil) == of.want.Anonymous() {
				t.Errorf("got %v, %v, want %v", id.Principal, err, of.want)
			}
		})
	}
}

// Nothing prints tokens: errors, identities and claims contain no token and no secret.
func TestNothingPrintsTokens(t *testing.T) {
	g := newGuarded(t)
	for _, changes := range []map[string]any{nil, {"exp": 1}, {"aud": "x"}, {"iss": "x"}} {
		token := g.token(changes)
		id, err := identify(g, token)
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

var wantEqual = testkit.WantEqual
