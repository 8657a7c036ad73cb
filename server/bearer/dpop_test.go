package bearer_test

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A holder has a key, to which its tokens are bound, and the last nonce of a server.
type holder struct {
	t     testing.TB
	key   *ecdsa.PrivateKey
	nonce string
	token string
}

// newHolder returns a holder with a token that the issuer has bound to its key.
func newHolder(t testing.TB, f *fakeIssuer) *holder {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{t: t, key: key}
	h.token = f.token(map[string]any{"cnf": map[string]string{"jkt": h.thumbprint()}})
	return h
}

func (h *holder) thumbprint() string {
	sum, err := (&jose.JSONWebKey{Key: h.key.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		h.t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

// prove returns a proof with changes of its claims: nil takes one out.
func (h *holder) prove(changes map[string]any) string {
	return h.sign(h.key, "dpop+jwt", &jose.JSONWebKey{Key: h.key.Public()}, h.claims(changes))
}

// claims returns the claims of a proof, with changes.
func (h *holder) claims(changes map[string]any) map[string]any {
	ath := sha256.Sum256([]byte(h.token))
	claims := map[string]any{"jti": rand.Text(), "htm": "POST", "htu": resource,
		"iat": time.Now().Unix(), "ath": base64.RawURLEncoding.EncodeToString(ath[:]),
		"nonce": h.nonce}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// sign signs a proof with a key, and with another in its header.
func (h *holder) sign(key any, kind string, named *jose.JSONWebKey, claims any) string {
	opts := &jose.SignerOptions{}
	opts.WithType(jose.ContentType(kind)).WithHeader("jwk", named)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, opts)
	if err != nil {
		h.t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		h.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

// send sends a request to the endpoint, and keeps the nonce of the response.
func (h *holder) send(g *bearer.ResourceServer, authorization string,
	proofs ...string) (status int, challenge string) {
	r := httptest.NewRequest(http.MethodPost, "http://spoofed.example/mcp", nil)
	r.Header.Set("Authorization", authorization)
	for _, proof := range proofs {
		r.Header.Add("DPoP", proof)
	}
	response := sendRequest(g, r)
	if nonce := response.Header.Get("DPoP-Nonce"); nonce != "" {
		h.nonce = nonce
	}
	return response.StatusCode, response.Header.Get("WWW-Authenticate")
}

// sendBound sends a request with the token and a proof.
func (h *holder) sendBound(g *bearer.ResourceServer, proof string) (int, string) {
	return h.send(g, "DPoP "+h.token, proof)
}

func withDPoP(d *bearer.DPoP) func(o *bearer.Options) {
	return func(o *bearer.Options) { o.DPoP = d }
}

func TestDPoP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		g := newResourceServer(t, f, withDPoP(&bearer.DPoP{}))
		h, other := newHolder(t, f), newHolder(t, f)
		h.token = f.token(map[string]any{"cnf": map[string]string{"jkt": h.thumbprint()}})
		status, challenge := h.sendBound(g, h.prove(map[string]any{"nonce": nil}))
		if status != http.StatusUnauthorized || h.nonce == "" ||
			!strings.HasPrefix(challenge, `DPoP error="use_dpop_nonce", error_description="`) ||
			!strings.Contains(challenge, where) || !strings.Contains(challenge, `algs="RS256 `) {
			t.Fatalf("status %d, challenge %s, nonce %q", status, challenge, h.nonce)
		}
		good := h.prove(nil)
		if status, challenge := h.sendBound(g, good); status != http.StatusOK {
			t.Fatalf("status %d, challenge %s", status, challenge)
		}
		thief := &holder{t: t, key: other.key, nonce: h.nonce, token: h.token}
		for name, proof := range map[string]string{
			"replayed":       good,
			"another method": h.prove(map[string]any{"htm": "GET"}),
			"small letters":  h.prove(map[string]any{"htm": "post"}),
			"another path":   h.prove(map[string]any{"htu": resource + "/x"}),
			"another host":   h.prove(map[string]any{"htu": "https://spoofed.example/mcp"}),
			"another scheme": h.prove(map[string]any{"htu": "http://mcp.example.com/mcp"}),
			"a user":         h.prove(map[string]any{"htu": "https://x@mcp.example.com/mcp"}),
			"too old":        h.prove(map[string]any{"iat": time.Now().Unix() - 301}),
			"of the future":  h.prove(map[string]any{"iat": time.Now().Unix() + 301}),
			"no time":        h.prove(map[string]any{"iat": nil}),
			"no id":          h.prove(map[string]any{"jti": nil}),
			"no token":       h.prove(map[string]any{"ath": nil}),
			"another token":  h.prove(map[string]any{"ath": "x"}),
			"another type": h.sign(h.key, "JWT", &jose.JSONWebKey{Key: h.key.Public()},
				h.claims(nil)),
			"key of another": thief.prove(nil),
			"stolen key name": h.sign(other.key, "dpop+jwt",
				&jose.JSONWebKey{Key: h.key.Public()}, h.claims(nil)),
			"a private key": h.sign(h.key, "dpop+jwt", &jose.JSONWebKey{Key: h.key}, h.claims(nil)),
			"claims are a text": h.sign(h.key, "dpop+jwt",
				&jose.JSONWebKey{Key: h.key.Public()}, "text"),
			"no proof": "", "too long": strings.Repeat("x", 9000), "no token at all": "a.b.c",
		} {
			status, challenge := h.sendBound(g, proof)
			if status != http.StatusUnauthorized || !strings.HasPrefix(challenge,
				`DPoP error="invalid_dpop_proof", error_description="proof", `) {
				t.Errorf("%s: status %d, challenge %s", name, status, challenge)
			}
		}
		for name, proofs := range map[string][]string{
			"none": nil, "two": {h.prove(nil), h.prove(nil)},
		} {
			if status, _ := h.send(g, "DPoP "+h.token, proofs...); status != 401 {
				t.Errorf("%s: status %d", name, status)
			}
		}
		for name, proof := range map[string]string{
			"a query":         h.prove(map[string]any{"htu": resource + "?x=y"}),
			"capital letters": h.prove(map[string]any{"htu": "https://MCP.example.com/mcp"}),
			"clock behind":    h.prove(map[string]any{"iat": time.Now().Unix() - 240}),
		} {
			if status, challenge := h.sendBound(g, proof); status != http.StatusOK {
				t.Errorf("%s: status %d, challenge %s", name, status, challenge)
			}
		}
	})
}

// TestNonces count for two minutes, at the server whose keys made them.
func TestNonces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		ring := keys.EphemeralKeyring()
		one := newResourceServer(t, f, withDPoP(&bearer.DPoP{Keys: ring}))
		replica := newResourceServer(t, f, withDPoP(&bearer.DPoP{Keys: ring}))
		alone := newResourceServer(t, f, withDPoP(&bearer.DPoP{}))
		elsewhere := newResourceServer(t, f, func(o *bearer.Options) {
			o.DPoP = &bearer.DPoP{Keys: ring}
			o.Resource, o.Issuers[0].Audiences = "https://x.example.com/mcp", []string{resource}
		})
		h := newHolder(t, f)
		h.sendBound(one, h.prove(nil))
		nonce := h.nonce
		want := func(g *bearer.ResourceServer, changes map[string]any, status int) {
			t.Helper()
			all := map[string]any{"nonce": nonce}
			maps.Copy(all, changes)
			if got, challenge := h.sendBound(g, h.prove(all)); got != status ||
				status != 200 && !strings.Contains(challenge, "use_dpop_nonce") {
				t.Errorf("status %d, challenge %s, want %d", got, challenge, status)
			}
		}
		want(one, nil, 200)
		want(replica, nil, 200)
		want(alone, nil, 401)
		want(elsewhere, map[string]any{"htu": "https://x.example.com/mcp"}, 401)
		want(one, map[string]any{"nonce": nonce[:len(nonce)-2]}, 401)
		used := h.prove(map[string]any{"nonce": nonce})
		if status, _ := h.sendBound(one, used); status != 200 {
			t.Fatal(status)
		}
		time.Sleep(2*time.Minute - time.Second)
		want(one, nil, 200)
		if status, challenge := h.sendBound(one, used); status != 401 {
			t.Errorf("a proof was used again: %s", challenge)
		}
		time.Sleep(time.Second)
		want(one, nil, 401)
		if status, _ := h.sendBound(one, used); status != 401 {
			t.Error("a proof was used again when it was forgotten")
		}
	})
}

// TestNoncesOutliveTheirKey: the key that seals is another one before the proof comes, and the old
// one counts as long as the ring has it.
func TestNoncesOutliveTheirKey(t *testing.T) {
	f := newFakeIssuer(t)
	with := func(ids ...string) *bearer.ResourceServer {
		return newResourceServer(t, f, withDPoP(&bearer.DPoP{Keys: fleettest.NewKeyring(ids...)}))
	}
	h := newHolder(t, f)
	h.sendBound(with("old"), h.prove(nil))
	if status, challenge := h.sendBound(with("new", "old"), h.prove(nil)); status != 200 {
		t.Errorf("with both keys: status %d, %s", status, challenge)
	}
	if status, challenge := h.sendBound(with("new"), h.prove(nil)); status != 401 ||
		!strings.Contains(challenge, "use_dpop_nonce") {
		t.Errorf("without the old key: status %d, %s", status, challenge)
	}
	f.rotate("k2") // that of the issuer: the token was verified with the one before
	h.token = f.token(map[string]any{"cnf": map[string]string{"jkt": h.thumbprint()}})
	g := with("new")
	h.sendBound(g, h.prove(nil))
	if status, challenge := h.sendBound(g, h.prove(nil)); status != 200 {
		t.Errorf("with a new key of the issuer: status %d, %s", status, challenge)
	}
}

// TestAProofIsGoodOnce, also for requests that come at the same time.
func TestAProofIsGoodOnce(t *testing.T) {
	f := newFakeIssuer(t)
	g := newResourceServer(t, f, withDPoP(&bearer.DPoP{}))
	h := newHolder(t, f)
	h.sendBound(g, h.prove(nil))
	proof := h.prove(nil)
	var passed atomic.Int32
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Header.Set("Authorization", "DPoP "+h.token)
			r.Header.Set("DPoP", proof)
			if _, err := g.Identify(r); err == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if n := passed.Load(); n != 1 {
		t.Errorf("%d requests passed with one proof", n)
	}
}

// TestTheMemoryOfProofsIsBounded: while it is full requests get 503, and no proof is forgotten.
func TestTheMemoryOfProofsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		g := newResourceServer(t, f, withDPoP(&bearer.DPoP{MaxProofs: 3}))
		h := newHolder(t, f)
		h.sendBound(g, h.prove(nil))
		for range 3 { // proofs that are refused take no room
			h.sendBound(g, h.prove(map[string]any{"htm": "GET"}))
		}
		first := h.prove(nil)
		for n, proof := range []string{first, h.prove(nil), h.prove(nil)} {
			if status, challenge := h.sendBound(g, proof); status != 200 {
				t.Fatalf("proof %d: status %d, challenge %s", n, status, challenge)
			}
			time.Sleep(time.Second)
		}
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header = http.Header{"Authorization": {"DPoP " + h.token}, "Dpop": {h.prove(nil)}}
		wantUnavailable(t, sendRequest(g, r), "177")
		if status, _ := h.sendBound(g, first); status != 401 {
			t.Errorf("a proof was used again: status %d", status)
		}
		time.Sleep(177 * time.Second)
		h.sendBound(g, h.prove(nil)) // for a new nonce
		if status, challenge := h.sendBound(g, h.prove(nil)); status != 200 {
			t.Errorf("status %d, challenge %s", status, challenge)
		}
	})
}

// TestBoundTokensAreNoBearerTokens, nor are others bound.
func TestBoundTokensAreNoBearerTokens(t *testing.T) {
	f := newFakeIssuer(t)
	plain := f.token(nil)
	for required, want := range map[bool]int{false: 200, true: 401} {
		g := newResourceServer(t, f, withDPoP(&bearer.DPoP{Required: required}))
		h := newHolder(t, f)
		h.sendBound(g, h.prove(nil))
		if status, challenge := h.send(g, "Bearer "+plain); status != want ||
			required && !strings.HasPrefix(challenge, "DPoP ") {
			t.Errorf("required %v: status %d, challenge %s", required, status, challenge)
		}
		if status, _ := h.send(g, "Bearer "+h.token, h.prove(nil)); status != 401 {
			t.Errorf("a bound token passed as Bearer, required %v", required)
		}
		stolen := *h
		stolen.token = plain
		if status, _ := stolen.sendBound(g, stolen.prove(nil)); status != 401 {
			t.Errorf("a token without a key passed as DPoP, required %v", required)
		}
		_, challenge := h.send(g, "")
		if first, _, _ := strings.Cut(challenge, " "); (first == "DPoP") != required ||
			!strings.Contains(challenge, "DPoP ") {
			t.Errorf("required %v: challenge %s", required, challenge)
		}
	}
	off := newResourceServer(t, f, nil)
	h := newHolder(t, f)
	if status, challenge := h.sendBound(off, h.prove(nil)); status != 401 ||
		strings.Contains(challenge, "DPoP") {
		t.Errorf("status %d, challenge %s", status, challenge)
	}
	on := newResourceServer(t, f, withDPoP(&bearer.DPoP{}))
	for name, cnf := range map[string]any{
		"certificate": map[string]string{"x5t#S256": "x"}, "empty": map[string]string{},
		"both":      map[string]string{"x5t#S256": "x", "jkt": h.thumbprint()},
		"empty jkt": map[string]string{"jkt": ""}, "text": "jkt", "a list": []string{"jkt"},
	} {
		token := f.token(map[string]any{"cnf": cnf})
		if status, _ := h.send(on, "Bearer "+token); status != 401 {
			t.Errorf("%s: a token that is bound in another way passed", name)
		}
		h.token = token
		status, challenge := h.sendBound(on, h.prove(nil))
		if status != 401 || !strings.Contains(challenge, `error="invalid_token"`) {
			t.Errorf("%s: status %d, challenge %s", name, status, challenge)
		}
	}
}

// TestDPoPOfOtherHandlers: a proof is for the URL of the request, on the origin of the resource.
func TestDPoPOfOtherHandlers(t *testing.T) {
	f := newFakeIssuer(t)
	g := newResourceServer(t, f, withDPoP(&bearer.DPoP{}))
	h := newHolder(t, f)
	h.sendBound(g, h.prove(nil))
	for htu, want := range map[string]int{
		"https://mcp.example.com/files/a%20b": 200, resource: 401,
		"http://spoofed.example/files/a%20b": 401,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://spoofed.example/files/a%20b?x=y", nil)
		r.Header = http.Header{"Authorization": {"DPoP " + h.token},
			"Dpop": {h.prove(map[string]any{"htu": htu})}}
		if got := sendRequest(g, r).StatusCode; got != want {
			t.Errorf("%s: status %d, want %d", htu, got, want)
		}
	}
}

// TestDPoPOfIntrospectedTokens: an issuer says to which key an opaque token is bound.
func TestDPoPOfIntrospectedTokens(t *testing.T) {
	f := newFakeIssuer(t)
	h := newHolder(t, f)
	h.token = "opaque"
	f.says = claimsOf(map[string]any{"active": true, "token_type": "DPoP",
		"cnf": map[string]string{"jkt": h.thumbprint()}})
	g := newResourceServer(t, f, func(o *bearer.Options) {
		introspecting(o)
		o.DPoP = &bearer.DPoP{}
	})
	h.sendBound(g, h.prove(nil))
	if status, challenge := h.sendBound(g, h.prove(nil)); status != 200 {
		t.Errorf("status %d, challenge %s", status, challenge)
	}
	f.with(func(f *fakeIssuer) { delete(f.says, "cnf") })
	h.token = "opaque2"
	if status, _ := h.sendBound(g, h.prove(nil)); status != 401 {
		t.Errorf("a token that is said to be bound to no key passed: %d", status)
	}
}

// TestDPoPOverTheWire: the endpoint sends the nonce, and metadata says what is accepted.
func TestDPoPOverTheWire(t *testing.T) {
	f := newFakeIssuer(t)
	g := newResourceServer(t, f, withDPoP(&bearer.DPoP{Required: true}))
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: g})
	if err != nil {
		t.Fatal(err)
	}
	h := newHolder(t, f)
	for n, want := range []int{401, 200} {
		r := httptest.NewRequest("POST", "http://127.0.0.1/x", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header = http.Header{"Content-Type": {"application/json"},
			"Accept":        {"application/json, text/event-stream"},
			"Authorization": {"DPoP " + h.token}, "Dpop": {h.prove(nil)}}
		w := httptest.NewRecorder()
		endpoint.ServeHTTP(w, r)
		if (w.Code == 401) != (want == 401) {
			t.Errorf("request %d: status %d %s", n, w.Code, w.Body)
		}
		if (w.Header().Get("DPoP-Nonce") != "") != (want == 401) {
			t.Errorf("request %d: the nonce is %q", n, w.Header().Get("DPoP-Nonce"))
		}
		h.nonce = w.Header().Get("DPoP-Nonce")
	}
	_, metadata := g.Metadata()
	var document map[string]any
	getJSON(t, metadata, &document)
	if said := fmt.Sprint(document["dpop_bound_access_tokens_required"],
		document["dpop_signing_alg_values_supported"]); !strings.HasPrefix(said, "true [RS256 ") {
		t.Errorf("the metadata says %s", said)
	}
}

// proofSet is a [bearer.ProofStore] of this process, for several servers.
type proofSet struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]bool
	err  error
	hold bool // calls return when their context ends
}

func (s *proofSet) Spend(ctx context.Context, proof [sha256.Size]byte, keep time.Duration) (
	bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold {
		<-ctx.Done()
		return true, ctx.Err()
	}
	if s.err != nil || keep != 3*time.Minute {
		return true, cmp.Or(s.err, errors.ErrUnsupported)
	}
	used := s.seen[proof]
	s.seen[proof] = true
	return !used, nil
}

// TestAProofIsGoodOnceForAllReplicas that share a store; while it fails none is good, and tokens
// that are not bound pass.
func TestAProofIsGoodOnceForAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ring := newFakeIssuer(t), keys.EphemeralKeyring()
		shared := &proofSet{seen: map[[sha256.Size]byte]bool{}}
		replica := func() *bearer.ResourceServer {
			return newResourceServer(t, f, withDPoP(&bearer.DPoP{Keys: ring, Store: shared,
				MaxProofs: 1}))
		}
		one, two := replica(), replica()
		h := newHolder(t, f)
		h.sendBound(one, h.prove(nil))
		proof := h.prove(nil)
		for n, g := range []*bearer.ResourceServer{one, two, one} {
			if status, _ := h.sendBound(g, proof); (status == 200) != (n == 0) {
				t.Errorf("attempt %d: status %d", n, status)
			}
		}
		if status, _ := h.sendBound(two, h.prove(nil)); status != 200 {
			t.Errorf("another proof: status %d", status)
		}
		for name, fail := range map[string]func(){
			"error":  func() { shared.err, shared.hold = io.ErrUnexpectedEOF, false },
			"silent": func() { shared.hold = true },
		} {
			fail()
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Header = http.Header{"Authorization": {"DPoP " + h.token}, "Dpop": {h.prove(nil)}}
			begun := time.Now()
			wantUnavailable(t, sendRequest(one, r), "5")
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("%s: the request took %v", name, took)
			}
			wantPassed(t, send(t, one, f.token(nil)), alice)
		}
		shared.err, shared.hold = nil, false
		if status, _ := h.sendBound(one, h.prove(nil)); status != 200 {
			t.Errorf("when the store is back: status %d", status)
		}
	})
}

// TestDPoPAtReplicas: a request that one replica passes on is checked by both, with one proof,
// which is good at neither again: of a session, and of revision 2026-07-28 with a state that names
// its owner.
func TestDPoPAtReplicas(t *testing.T) {
	for _, store := range []bearer.ProofStore{nil,
		&proofSet{seen: map[[sha256.Size]byte]bool{}}} {
		for _, legacy := range []bool{true, false} {
			t.Run(fmt.Sprintf("%T, legacy %v", store, legacy), func(t *testing.T) {
				checkDPoPAtReplicas(t, store, legacy)
			})
		}
	}
}

func checkDPoPAtReplicas(t *testing.T, store bearer.ProofStore, legacy bool) {
	f := newFakeIssuer(t)
	var owner *serverhttp.Handler
	fleet := fleettest.Start(t, 2, func(r *replicas.Options) http.Handler {
		srv, err := server.New(&server.Options{
			Info:      protocol.Implementation{Name: "fleet", Version: "1"},
			Roundtrip: roundtrip.Options{Sealer: r.Keys, RequireSharedKey: true}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := serverhttp.New(srv, &serverhttp.Options{Replicas: r,
			OwnerOf: func(context.Context, protocol.Principal, string) string {
				return owner.OwnerToken()
			},
			Authority: newResourceServer(t, f, withDPoP(&bearer.DPoP{Keys: r.Keys,
				Store: store}))})
		if err != nil {
			t.Fatal(err)
		}
		if owner == nil {
			owner = h
		}
		return h
	}).Servers
	h, session := newHolder(t, f), ""
	post := func(replica int, body, proof string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, fleet[replica].URL+"/mcp",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"},
			"Accept":        {"application/json, text/event-stream"},
			"Authorization": {"DPoP " + h.token}, "Dpop": {proof}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("MCP-Protocol-Version", "2025-11-25")
		} else if !legacy {
			r.Header.Set("MCP-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "none")
		}
		response, err := fleet[replica].Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		session = cmp.Or(response.Header.Get("Mcp-Session-Id"), session)
		h.nonce = cmp.Or(response.Header.Get("DPoP-Nonce"), h.nonce)
		return response.StatusCode, string(answer)
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
		`"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"c","version":"1"}}}`
	body, want := `{"jsonrpc":"2.0","id":2,"method":"ping"}`, `"result"`
	if !legacy {
		body, want = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"none",`+
			`"arguments":{},"requestState":"x","_meta":{"io.modelcontextprotocol/protocolVersion":`+
			`"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`, "not found"
	}
	if status, _ := post(0, initialize, h.prove(nil)); status != http.StatusUnauthorized {
		t.Fatalf("without a nonce: status %d", status)
	}
	if legacy {
		if status, _ := post(0, initialize, h.prove(nil)); status != 200 || session == "" {
			t.Fatalf("status %d, session %q", status, session)
		}
	}
	before := 0
	if s, ok := store.(*proofSet); ok {
		before = len(s.seen)
	}
	proof := h.prove(nil)
	if status, said := post(1, body, proof); status == 401 || !strings.Contains(said, want) {
		t.Errorf("by the other replica: status %d, %s", status, said)
	}
	if s, ok := store.(*proofSet); ok && len(s.seen) != before+2 {
		t.Errorf("the proof was spent %d times, want by both replicas", len(s.seen)-before)
	}
	for replica := range fleet {
		if status, _ := post(replica, body, proof); status != http.StatusUnauthorized {
			t.Errorf("the proof again at replica %d: status %d", replica, status)
		}
	}
}

// TestProofsAreRememberedAsLongAsTheirNonce, also where it is of a replica whose clock is ahead.
func TestProofsAreRememberedAsLongAsTheirNonce(t *testing.T) {
	with := func(t *testing.T, f *fakeIssuer) *bearer.ResourceServer {
		return newResourceServer(t, f,
			withDPoP(&bearer.DPoP{Keys: fleettest.NewKeyring("shared")}))
	}
	var nonce string
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(59 * time.Second) // the clock of this replica is ahead
		f := newFakeIssuer(t)
		h := newHolder(t, f)
		h.sendBound(with(t, f), h.prove(nil))
		nonce = h.nonce
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		g, h := with(t, f), newHolder(t, f)
		h.nonce = nonce
		proof := h.prove(nil)
		if status, challenge := h.sendBound(g, proof); status != 200 {
			t.Fatalf("status %d, challenge %s", status, challenge)
		}
		for range 20 {
			time.Sleep(10 * time.Second)
			if status, _ := h.sendBound(g, proof); status != 401 {
				t.Fatal("a proof was used again")
			}
		}
	})
}

// TestARequestThatIsPassedOnCarriesTheVerdict: its owner may take minutes to be there again, and
// the client has had its response. The proof is good once all the same.
func TestARequestThatIsPassedOnCarriesTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer(t)
		g, h := newResourceServer(t, f, withDPoP(&bearer.DPoP{})), newHolder(t, f)
		h.sendBound(g, h.prove(nil))
		proof := h.prove(map[string]any{"iat": time.Now().Unix() - 240})
		time.Sleep(4 * time.Minute)
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header = http.Header{"Authorization": {"DPoP " + h.token}, "Dpop": {proof}}
		if _, err := g.Identify(r); err == nil {
			t.Error("an old proof passed")
		}
		r = r.WithContext(hophttp.WithHop(r.Context()))
		if _, err := g.Identify(r); err != nil {
			t.Errorf("what another replica has admitted is refused: %v", err)
		}
		if _, err := g.Identify(r); err == nil {
			t.Error("it was admitted twice")
		}
	})
}
