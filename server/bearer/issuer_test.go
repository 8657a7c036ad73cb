package bearer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// A fakeIssuer is an authorization server that works without a network in fake time.
type fakeIssuer struct {
	t testing.TB

	mu       sync.Mutex
	signer   jose.JSONWebKey   // signs new tokens
	keys     []jose.JSONWebKey // published keys
	requests map[string]int    // by path
	down     bool
	hold     chan struct{} // if not nil, blocks requests until it is closed
	metadata map[string]any
	headers  http.Header // headers of the key set
	says     map[string]any

	redirected string // a path that redirects
	// firstPlace answers at the metadata's first place. The metadata is then at its last place.
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
	key := newKey(f.t)
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

// claimsOf returns the claims of a good token, with changes by name and value; nil removes a claim.
func claimsOf(changes map[string]any, more ...any) map[string]any {
	c := map[string]any{
		"iss": issuerURL, "sub": "alice", "aud": resource, "client_id": "app",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "scope": "files:read",
	}
	for n := 0; n < len(more); n += 2 {
		c[more[n].(string)] = more[n+1]
	}
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

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

type protector interface {
	serverhttp.Authority
	RequireBearer(next http.Handler, scopes ...string) http.Handler
	Metadata() (path string, h http.Handler)
}

func identify(g protector, token string) (serverhttp.Identity, error) {
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return g.Identify(r)
}

// send sends a token to a handler behind the guard. The response has the token's claims.
func send(t testing.TB, g protector, token string, scopes ...string) *http.Response {
	t.Helper()
	return sendAs(t.Context(), g, token, "", scopes...)
}

// sendAs does the same from an address. If empty, it is an address for documentation.
func sendAs(ctx context.Context, g protector, token, address string,
	scopes ...string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://spoofed.example/other", nil)
	r.RemoteAddr = cmp.Or(address, r.RemoteAddr)
	r.Header.Set("X-Forwarded-Host", "spoofed.example")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return sendRequest(g, r, scopes...)
}

func sendRequest(g protector, r *http.Request, scopes ...string) *http.Response {
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

// The type guarded is an issuer and a server that accepts its tokens only.
type guarded struct {
	*fakeIssuer
	*bearer.ResourceServer
	kept map[string]string // tokens by their name in scripts
}

func newGuarded(t testing.TB, changes ...func(o *bearer.Options)) *guarded {
	t.Helper()
	f := newFakeIssuer(t)
	return &guarded{f, newResourceServer(t, f, func(o *bearer.Options) {
		for _, change := range changes {
			change(o)
		}
	}), map[string]string{}}
}

// run runs the words of a script in order:
//
//	good              a new token passes
//	keep=x            a new token gets the name x, and is not sent
//	x                 the token of that name, or the opaque token x, passes
//	x:expired         the token is refused, with that reason
//	x:503=30          the token cannot be verified now; the client may retry in 30 s
//	sleep=1m          time passes
//	down, up          the issuer does not answer, or answers again
//	rotate, rotate=x  the issuer publishes another key (id x), and signs with it
//	forget            the issuer publishes no key any more
//	active, inactive  the response for each token that is looked up
//	keys=2            requests for keys so far; likewise introspect=2
func (g *guarded) run(script string) {
	g.t.Helper()
	for word := range strings.FieldsSeq(script) {
		name, want, _ := strings.Cut(word, ":")
		name, value, valued := strings.Cut(name, "=")
		switch name {
		case "good":
			wantPassed(g.t, send(g.t, g, g.token(nil)), alice)
		case "keep":
			g.kept[value] = g.token(nil)
		case "sleep":
			duration, err := time.ParseDuration(value)
			check(g.t, err)
			time.Sleep(duration)
		case "down", "up":
			g.with(func(f *fakeIssuer) { f.down = name == "down" })
		case "rotate":
			g.rotate(value)
		case "forget":
			g.with(func(f *fakeIssuer) { f.keys = nil })
		case "active", "inactive":
			g.with(func(f *fakeIssuer) {
				f.says = claimsOf(map[string]any{"active": name == "active"})
			})
		default:
			if valued {
				if got := fmt.Sprint(g.count("/" + name)); got != value {
					g.t.Errorf("%s: got %s in %s", word, got, script)
				}
				continue
			}
			token, ok := g.kept[name]
			if !ok {
				token = name
			}
			response := send(g.t, g, token)
			after, later := strings.CutPrefix(want, "503=")
			switch {
			case later:
				wantUnavailable(g.t, response, after)
			case want != "":
				wantInvalid(g.t, response, want)
			default:
				wantPassed(g.t, response, alice)
			}
		}
	}
}

// uncached makes a server verify each token, without a cache.
func uncached(o *bearer.Options) { o.MaxCachedTokens = -1 }

func inFakeTime(t *testing.T, script string, changes ...func(o *bearer.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { newGuarded(t, changes...).run(script) })
}

var check = testkit.NoError
