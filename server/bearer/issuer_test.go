package bearer_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	resource  = "https://mcp.example.com/mcp"
	issuerURL = "https://login.example.com/tenant"
)

// A fakeIssuer is an authorization server that is reached without a network, so that tests can run
// in fake time.
type fakeIssuer struct {
	t testing.TB

	mu       sync.Mutex
	signer   jose.JSONWebKey   // signs new tokens
	keys     []jose.JSONWebKey // published
	requests map[string]int    // by path
	down     bool
	hold     chan struct{} // requests wait until it is closed, nil: they do not
	metadata map[string]any
	headers  http.Header // of the key set
	says     map[string]any

	redirected string // a path that leads elsewhere
	// firstPlace answers in the first place of the metadata, which is at the last one then.
	firstPlace func(w http.ResponseWriter)
}

func newFakeIssuer(t testing.TB) *fakeIssuer {
	f := &fakeIssuer{t: t, requests: map[string]int{}, headers: http.Header{}}
	f.metadata = map[string]any{"issuer": issuerURL, "jwks_uri": "https://login.example.com/keys"}
	f.rotate("k1")
	return f
}

// rotate publishes a new key, and signs with it from now on.
func (f *fakeIssuer) rotate(id string) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signer = jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "ES256", Use: "sig"}
	f.keys = append(f.keys, f.signer.Public())
}

func (f *fakeIssuer) with(change func(f *fakeIssuer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeIssuer) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[path]
}

// client reaches the issuer, whatever the host.
func (f *fakeIssuer) client() *http.Client { return &http.Client{Transport: f} }

// RoundTrip implements [http.RoundTripper].
func (f *fakeIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.requests[r.URL.Path]++
	down, hold := f.down, f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if down {
		return nil, fmt.Errorf("dial %s: connection refused", r.URL.Host)
	}
	w := httptest.NewRecorder()
	f.serve(w, r)
	return w.Result(), nil
}

func (f *fakeIssuer) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Path == f.redirected {
		http.Redirect(w, r, "https://elsewhere.example.com/elsewhere", http.StatusFound)
		return
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server/tenant":
		if f.firstPlace != nil {
			f.firstPlace(w)
			return
		}
		_ = json.NewEncoder(w).Encode(f.metadata)
	case "/keys":
		maps.Copy(w.Header(), f.headers)
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": f.keys})
	case "/introspect":
		if id, secret, ok := r.BasicAuth(); !ok || id != "rs%3A1" || secret != "s%26cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(f.says)
	case "/tenant/.well-known/openid-configuration":
		if f.firstPlace == nil {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(f.metadata)
	default:
		http.NotFound(w, r)
	}
}

// claimsOf are those of a good token, with changes: nil takes a claim out.
func claimsOf(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": issuerURL, "sub": "alice", "aud": resource, "client_id": "app",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "scope": "files:read",
	}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// token signs claims with the key of the moment.
func (f *fakeIssuer) token(changes map[string]any) string {
	f.t.Helper()
	f.mu.Lock()
	key := f.signer
	f.mu.Unlock()
	return sign(f.t, jose.ES256, key, "at+jwt", claimsOf(changes))
}

func sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, kind string,
	claims any) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	if kind != "" {
		opts.WithType(jose.ContentType(kind))
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, opts)
	check(t, err)
	payload, err := json.Marshal(claims)
	check(t, err)
	signed, err := signer.Sign(payload)
	check(t, err)
	text, err := signed.CompactSerialize()
	check(t, err)
	return text
}

// keySet is the key set of one public key.
func keySet(t testing.TB, key crypto.PublicKey, id string) []byte {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: id}}})
	check(t, err)
	return set
}

// newResourceServer protects the resource with the issuer alone.
func newResourceServer(t testing.TB, f *fakeIssuer,
	change func(o *bearer.Options)) *bearer.ResourceServer {
	t.Helper()
	opts := bearer.Options{Resource: resource, Issuers: []bearer.Issuer{{URL: issuerURL}},
		HTTPClient: f.client()}
	if change != nil {
		change(&opts)
	}
	g, err := bearer.New(opts)
	check(t, err)
	return g
}

// newGuarded returns an issuer, and a server that it protects alone.
func newGuarded(t testing.TB, change func(o *bearer.Options)) (*fakeIssuer,
	*bearer.ResourceServer) {
	t.Helper()
	f := newFakeIssuer(t)
	return f, newResourceServer(t, f, change)
}

// identify returns whom a server takes the sender of a token for.
func identify(g *bearer.ResourceServer, token string) (serverhttp.Identity, error) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return g.Identify(r)
}

// send shows a token to a handler behind the guard. The body is what the token says.
func send(t testing.TB, g *bearer.ResourceServer, token string, scopes ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://spoofed.example/other", nil)
	r = r.WithContext(t.Context())
	r.Header.Set("X-Forwarded-Host", "spoofed.example")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return sendRequest(g, r, scopes...)
}

func sendRequest(g *bearer.ResourceServer, r *http.Request, scopes ...string) *http.Response {
	w := httptest.NewRecorder()
	g.RequireBearer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			http.Error(w, "the token has reached the handler", http.StatusInternalServerError)
			return
		}
		if t, ok := bearer.TokenFrom(r.Context()); ok {
			fmt.Fprintf(w, "%s of %s, client %s, scopes %s", t.Subject, t.Issuer, t.ClientID,
				strings.Join(t.Scopes, " "))
			return
		}
		fmt.Fprint(w, "anonymous")
	}), scopes...).ServeHTTP(w, r)
	return w.Result()
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
