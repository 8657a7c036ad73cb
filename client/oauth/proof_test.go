package oauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A boundSite is a site whose resource is an MCP server.
type boundSite struct {
	*site
	tb      testing.TB
	handler http.Handler // of the endpoint

	mu   sync.Mutex
	came []http.Header
	say  func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
}

// newBoundSite returns a site whose servers want proofs with nonces.
func newBoundSite(t *testing.T) *boundSite {
	b := newMCPSite(t, true)
	b.as.WantProofs(oauthtest.Proofs{Required: true, Nonces: true})
	return b
}

// newMCPSite returns a site whose MCP server accepts bound tokens alone, or bearer tokens.
func newMCPSite(t testing.TB, isBound bool) *boundSite {
	t.Helper()
	b := &boundSite{tb: t, site: &site{as: oauthtest.NewServer(t, nil),
		browser: oauthtest.NewBrowser(t)}}
	host := httptest.NewServer(b)
	t.Cleanup(host.Close)
	url := host.URL + "/mcp"
	b.resource = &oauthtest.Resource{URL: url, Origin: host.URL, Identifier: url}
	opts := bearer.Options{Resource: url, Scopes: []string{"read"},
		Issuers: []bearer.Issuer{{URL: b.as.URL}}}
	if isBound {
		opts.DPoP = &bearer.DPoP{Required: true, MaxProofs: 1 << 20}
	}
	g, err := bearer.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, scopes := range map[string][]string{"search": nil, "write": {"write"}} {
		server.AddTool(srv, server.Tool{Name: name, Scopes: scopes}, func(ctx context.Context,
			_ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome, error) {
			token, _ := bearer.TokenFrom(ctx)
			return server.Text("hello " + token.Subject), nil
		})
	}
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: g})
	if err != nil {
		t.Fatal(err)
	}
	path, metadata := g.Metadata()
	mux := http.NewServeMux()
	mux.Handle(path, metadata)
	mux.Handle("/mcp", endpoint)
	b.handler = mux
	return b
}

// ServeHTTP records the requests to the endpoint.
func (b *boundSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, isBenchmark := b.tb.(*testing.B); r.URL.Path == "/mcp" && !isBenchmark {
		b.mu.Lock()
		b.came = append(b.came, r.Header.Clone())
		say := b.say
		b.mu.Unlock()
		if say != nil && say(w, r) {
			return
		}
	}
	b.handler.ServeHTTP(w, r)
}

// answer has the endpoint answer requests itself, and returns how many have come until now.
func (b *boundSite) answer(say func(w http.ResponseWriter, r *http.Request) bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.say = say
	return len(b.came)
}

// proofsSince returns the claims of the proofs that have come to the endpoint, from the nth
// request.
func (b *boundSite) proofsSince(t *testing.T, n int) (all []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.came[n:] {
		if h.Get("DPoP") != "" {
			all = append(all, claimsOf(t, h.Get("DPoP")))
		}
	}
	return all
}

// claimsOf checks the signature of a proof and returns its claims, with jkt of its key.
func claimsOf(t *testing.T, proof string) (claims map[string]any) {
	t.Helper()
	signed, err := jose.ParseSignedCompact(proof, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("proof %q: %v", proof, err)
	}
	key := signed.Signatures[0].Protected.JSONWebKey
	payload, err := signed.Verify(key)
	if err != nil || json.Unmarshal(payload, &claims) != nil || !key.IsPublic() ||
		signed.Signatures[0].Protected.ExtraHeaders["typ"] != "dpop+jwt" {
		t.Fatalf("the proof %s is malformed: %v", proof, err)
	}
	sum, _ := key.Thumbprint(crypto.SHA256)
	claims["jkt"] = base64.RawURLEncoding.EncodeToString(sum)
	return claims
}

func bound(o *oauth.Options) { o.DPoP = true }

// callTool calls tools with a client of an era.
func (b *boundSite) callTool(t *testing.T, era protocol.Era, source *oauth.Source,
	tools ...string) error {
	t.Helper()
	transport, err := clienthttp.New(b.resource.URL, &clienthttp.Options{Authorizer: source})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(transport, &client.Options{Era: era})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tool := range tools {
		result, err := c.CallTool(t.Context(), tool, nil)
		if err != nil {
			return err
		}
		if text := result.Content[0].(*protocol.TextContent).Text; text != "hello alice" {
			t.Errorf("%s says %q", tool, text)
		}
	}
	return nil
}

// eras are the eras of calls.
var eras = map[string]protocol.Era{"2026-07-28": protocol.Modern, "2025-11-25": protocol.Legacy}

// TestBoundTokens: login, refresh and a login for more scopes, with nonces of both servers; the key
// is that of the login in the store, until a logout deletes it.
func TestBoundTokens(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			b, folder := newBoundSite(t), t.TempDir()
			with := func(o *oauth.Options) { // as of another process
				store, err := oauth.NewFileStore(folder, [32]byte{1})
				noError.check(t, err)
				o.DPoP, o.Store = true, store
			}
			noError.check(t, b.callTool(t, era, b.source(t, with), "search", "search"))
			b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1, oauthtest.Token: 2})
			again := b.source(t, with)
			noError.check(t, b.callTool(t, era, again, "search"))
			b.wantKeys(t, 1)
			again.ExpireToken()
			noError.check(t, b.callTool(t, era, again, "search"))
			b.wantKeys(t, 1)
			b.wantTokens(t, 2)
			noError.check(t, b.callTool(t, era, again, "write"))
			b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 2,
				oauthtest.Refresh: 2}) // the first had no nonce
			b.wantKeys(t, 2)
			noError.check(t, again.Logout(t.Context()))
			noError.check(t, b.callTool(t, era, b.source(t, with), "search"))
			b.wantKeys(t, 3)
			b.wantProofs(t)
		})
	}
}

// TestCallersWithProofs: callers that have no nonce yet share a login, and each is sent again.
func TestCallersWithProofs(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			b := newBoundSite(t)
			source := b.source(t, bound)
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() { noError.check(t, b.callTool(t, era, source, "search")) })
			}
			all.Wait()
			b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
			b.wantKeys(t, 1)
			b.wantProofs(t)
		})
	}
}

// wantKeys wants that requests to the endpoint had proofs of n keys until now.
func (b *boundSite) wantKeys(t *testing.T, n int) {
	t.Helper()
	keys := map[any]bool{}
	for _, claims := range b.proofsSince(t, 0) {
		keys[claims["jkt"]] = true
	}
	if len(keys) != n {
		t.Errorf("there were %d keys, want %d", len(keys), n)
	}
}

// wantTokens wants that requests to the endpoint had n tokens until now.
func (b *boundSite) wantTokens(t *testing.T, n int) {
	t.Helper()
	tokens := map[any]bool{}
	for _, claims := range b.proofsSince(t, 0) {
		tokens[claims["ath"]] = true
	}
	if len(tokens) != n {
		t.Errorf("there were %d tokens, want %d", len(tokens), n)
	}
}

// TestProofForAURLWithAQuery: htu has none (RFC 9449, section 4.2).
func TestProofForAURLWithAQuery(t *testing.T) {
	b, store := newBoundSite(t), oauth.NewMemoryStore()
	with := func(o *oauth.Options) { bound(o); o.Store = store }
	noError.check(t, b.callTool(t, protocol.Modern, b.source(t, with), "search"))
	pointer, err := store.Load(t.Context(), oauth.Key{Resource: b.resource.URL})
	noError.check(t, err)
	at := b.resource.URL + "?tenant=a"
	noError.check(t, store.Save(t.Context(), oauth.Key{Resource: at}, pointer))
	source, err := oauth.New(at, &oauth.Options{DPoP: true, Store: store})
	noError.check(t, err)
	u, _ := url.Parse(at)
	h, err := source.Credentials(t.Context(), clienthttp.Outgoing{Method: "GET", URL: u})
	noError.check(t, err)
	if claims := claimsOf(t, h.Get("DPoP")); claims["htu"] != b.resource.URL ||
		claims["htm"] != "GET" {
		t.Errorf("the proof is %v", claims)
	}
}

// wantProofs wants a proof of its own with each token.
func (b *boundSite) wantProofs(t *testing.T) {
	t.Helper()
	seen := map[any]bool{}
	for _, claims := range b.proofsSince(t, 0) {
		if claims["htu"] != b.resource.URL || claims["ath"] == nil || seen[claims["jti"]] {
			t.Errorf("the proof is %v", claims)
		}
		seen[claims["jti"]] = true
	}
	for _, h := range b.came {
		if strings.HasPrefix(h.Get("Authorization"), "Bearer ") ||
			h.Get("Authorization") != "" && h.Get("DPoP") == "" {
			t.Error("a bound token was sent without a proof")
		}
	}
}

// TestProofThatIsNotThatOfTheRequest: the server refuses what a thief could do with a request.
func TestProofThatIsNotThatOfTheRequest(t *testing.T) {
	b, keys := newBoundSite(t), newKeys(t)
	noError.check(t, b.callTool(t, protocol.Modern, b.source(t, func(o *oauth.Options) {
		o.ProofKey = kms{keys["ES256"]}
	}), "search"))
	stolen := b.came[len(b.came)-1]
	send := func(method, proof string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, b.resource.URL,
			strings.NewReader(searchCall))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = stolen.Clone()
		r.Header.Del("Content-Length")
		r.Header.Set("DPoP", proof)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		code, _, _ := oauth.ReadChallenge(response.Header)
		return fmt.Sprint(response.StatusCode, " ", code)
	}
	forge := func(key crypto.Signer, name string, value any) string {
		claims := claimsOf(t, stolen.Get("DPoP"))
		delete(claims, "jkt")
		claims["jti"], claims[name] = rand.Text(), value
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
			(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	own := keys["ES256"]
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ method, proof, want string }{
		"right":         {"POST", forge(own, "htm", "POST"), "200 "},
		"replayed":      {"POST", stolen.Get("DPoP"), "401 invalid_dpop_proof"},
		"another verb":  {"DELETE", forge(own, "htm", "POST"), "401 invalid_dpop_proof"},
		"another URL":   {"POST", forge(own, "htu", b.as.URL), "401 invalid_dpop_proof"},
		"another key":   {"POST", forge(other, "htm", "POST"), "401 invalid_dpop_proof"},
		"another token": {"POST", forge(own, "ath", "x"), "401 invalid_dpop_proof"},
		"another nonce": {"POST", forge(own, "nonce", "of another server"), "401 use_dpop_nonce"},
	} {
		if got := send(c.method, c.proof); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// searchCall is the body of a call.
const searchCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search",` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

// TestLoginWhileARequestIsChecked: its proof is of the key of its token, although the login has
// another key by then.
func TestLoginWhileARequestIsChecked(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			b := newBoundSite(t)
			source := b.source(t, bound)
			noError.check(t, b.callTool(t, era, source, "search"))
			arrived, release := make(chan struct{}), make(chan struct{})
			b.answer(func(http.ResponseWriter, *http.Request) bool {
				b.answer(nil)
				close(arrived)
				<-release
				return false
			})
			done := make(chan error)
			go func() { done <- b.callTool(t, era, source, "search") }()
			<-arrived
			noError.check(t, b.callTool(t, era, source, "write"))
			b.wantKeys(t, 2)
			close(release)
			noError.check(t, <-done)
			b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 2})
		})
	}
}

// TestKeyOfTheHost: it signs the proofs of all logins. With another one, or without it, the login
// in the store is not used, and an event and an error say so.
func TestKeyOfTheHost(t *testing.T) {
	keys, others := newKeys(t), newKeys(t)
	b, store := newBoundSite(t), oauth.NewMemoryStore()
	var reasons []string
	with := func(change func(o *oauth.Options)) *oauth.Source {
		return b.source(t, func(o *oauth.Options) {
			o.Store = store
			o.Observe = func(e oauth.LoginEvent) {
				if e.Kind == oauth.LoginBegan {
					reasons = append(reasons, fmt.Sprint(e.Err))
				}
			}
			change(o)
		})
	}
	host := func(o *oauth.Options) { o.ProofKey = kms{keys["ES256"]} }
	for range 2 {
		noError.check(t, b.callTool(t, protocol.Modern, with(host), "search"))
	}
	b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
	login := (*oauth.LoginRequiredError)(nil)
	err := b.callTool(t, protocol.Modern, with(func(o *oauth.Options) {
		o.Interaction, o.DPoP = nil, true
	}), "search")
	if !errors.As(err, &login) || !strings.Contains(err.Error(), "see Options.DPoP and Options.P") {
		t.Errorf("got %v", err)
	}
	noError.check(t, b.callTool(t, protocol.Modern, with(func(o *oauth.Options) {
		o.ProofKey = others["ES256"]
	}), "search"))
	b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 2})
	if len(reasons) != 2 || reasons[0] != "<nil>" || !strings.Contains(reasons[1], "not bound to") {
		t.Errorf("the reasons are %q", reasons)
	}
	families := b.as.Families()
	noError.check(t, with(host).Logout(t.Context())) // also of a login that it could not use
	if b.as.Families() != families-1 {
		t.Error("the logout revoked no token")
	}
	noError.check(t, b.callTool(t, protocol.Modern, with(bound), "search"))
	if reasons[len(reasons)-1] != "<nil>" {
		t.Errorf("after a logout: %q", reasons)
	}
	for _, algorithm := range []string{"ES384", "RS256", "EdDSA"} {
		if _, err := oauth.New(b.resource.URL, &oauth.Options{
			ProofKey: keys[algorithm]}); err == nil {
			t.Errorf("a key for %s is accepted", algorithm)
		}
	}
}

// A brokenKey is a key of a KMS whose signatures are no such.
type brokenKey struct {
	crypto.Signer
	signature []byte
}

func (k brokenKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return k.signature, nil
}

// TestKeyThatSignsNothing fails the token request.
func TestKeyThatSignsNothing(t *testing.T) {
	long := append([]byte{0x30, 0x26, 2, 33}, make([]byte, 36)...) // R has 33 bytes
	long[4], long[37], long[38] = 1, 2, 1
	for name, signature := range map[string][]byte{"nothing": nil, "too long": long,
		"more": {0x30, 6, 2, 1, 1, 2, 1, 1, 0}} {
		b := newBoundSite(t)
		err := b.callTool(t, protocol.Modern, b.source(t, func(o *oauth.Options) {
			o.ProofKey = brokenKey{newKeys(t)["ES256"], signature}
		}), "search")
		if tokenError.check(t, err); !strings.Contains(fmt.Sprint(err), "signature of Options.P") {
			t.Errorf("%s: got %v", name, err)
		}
		b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Token: 0})
	}
}

// TestStoredLoginWithoutItsKey: it begins anew, whatever the record has in the place of the key.
func TestStoredLoginWithoutItsKey(t *testing.T) {
	for name, spoil := range map[string]func(record map[string]any){
		"no key":      func(r map[string]any) { delete(r, "dpop_key") },
		"no PKCS #8":  func(r map[string]any) { r["dpop_key"] = "AAAA" },
		"not bound":   func(r map[string]any) { delete(r, "jkt") },
		"another key": func(r map[string]any) { r["jkt"] = "x" },
	} {
		b, store := newBoundSite(t), oauth.NewMemoryStore()
		with := func(o *oauth.Options) { bound(o); o.Store = store }
		noError.check(t, b.callTool(t, protocol.Modern, b.source(t, with), "search"))
		k := oauth.Key{Issuer: b.as.URL, Resource: b.resource.URL}
		data, err := store.Load(t.Context(), k)
		record := map[string]any{}
		if err != nil || json.Unmarshal(data, &record) != nil {
			t.Fatal(err)
		}
		spoil(record)
		data, _ = json.Marshal(record)
		noError.check(t, store.Save(t.Context(), k, data))
		noError.check(t, b.callTool(t, protocol.Modern, b.source(t, with), "search"))
		if got := b.as.Count(oauthtest.Authorize); got != 2 {
			t.Errorf("%s: %d logins, want 2", name, got)
		}
		b.wantProofs(t)
	}
}

// TestBearerTokenInTheStore is not used with Options.DPoP.
func TestBearerTokenInTheStore(t *testing.T) {
	s, store := newSite(t, nil, nil), oauth.NewMemoryStore()
	stored := func(o *oauth.Options) { o.Store = store }
	noError.check(t, s.call(t.Context(), s.source(t, stored), "search"))
	strict := s.source(t, func(o *oauth.Options) { bound(o); stored(o) })
	_ = s.call(t.Context(), strict, "search") // the resource knows no proofs
	s.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 2})
}

// TestTypeOfTheToken: a token of another type than was requested is refused, and the error says
// what came, and which option there is.
func TestTypeOfTheToken(t *testing.T) {
	plain := func(*oauth.Options) {}
	for _, c := range []struct {
		with func(o *oauth.Options)
		edit func(*oauthtest.Document)
		want string
	}{
		{bound, oauthtest.Set("token_type", "Bearer"), `token_type is "Bearer", want DPoP: the ` +
			"authorization server does not support Options.DPoP"},
		{bound, oauthtest.Remove("token_type"), "token_type is absent, want DPoP"},
		{plain, oauthtest.Set("token_type", "DPoP"), `token_type is "DPoP", want Bearer (see Options.DPoP)`},
		{plain, oauthtest.Set("token_type", "mac"), `token_type is "mac", want Bearer`},
		{plain, oauthtest.Remove("token_type"), "token_type is absent, want Bearer"},
		{plain, oauthtest.Remove("access_token"), "the answer is not that of a token endpoint"},
	} {
		s := newSite(t, nil, nil)
		s.as.Edit(oauthtest.Token, c.edit)
		err := s.call(t.Context(), s.person(t, c.with), "search")
		if tokenError.check(t, err); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		for _, r := range s.resource.Requests(oauthtest.Call) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the token was sent")
			}
		}
	}
}

// TestServerThatWantsBoundTokens: without Options.DPoP no page opens, and the error names it.
func TestServerThatWantsBoundTokens(t *testing.T) {
	for name, era := range eras {
		b := newBoundSite(t)
		err := b.callTool(t, era, b.source(t, nil), "search")
		if err == nil || !strings.Contains(err.Error(), "set Options.DPoP") {
			t.Errorf("%s: got %v", name, err)
		}
		b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 0})
	}
}

// refuse has the endpoint refuse all requests, and returns how many have come until now.
func (b *boundSite) refuse(code, nonce string, skew time.Duration) int {
	count := 0
	return b.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if count++; nonce != "" {
			w.Header().Set("DPoP-Nonce", strings.ReplaceAll(nonce, "#", fmt.Sprint(count)))
		}
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		w.Header().Set("WWW-Authenticate", `DPoP error="`+code+`"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

// TestRefusedProofs: a nonce is used for one more request, and no page opens.
func TestRefusedProofs(t *testing.T) {
	b := newBoundSite(t)
	source := b.source(t, bound)
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	for _, c := range []struct {
		code, nonce string
		skew        time.Duration
		sends       int
		want        string
	}{
		{"use_dpop_nonce", "same", 0, 2, "use_dpop_nonce"},
		{"use_dpop_nonce", "new-#", 0, 2, "use_dpop_nonce"},
		{"use_dpop_nonce", "", 0, 1, "use_dpop_nonce"},
		{"use_dpop_nonce", strings.Repeat("x", 2000), 0, 1, "use_dpop_nonce"},
		{"invalid_dpop_proof", "other", 0, 1, "refuses the DPoP proof: "},
		{"invalid_dpop_proof", "other", -7 * time.Minute, 1, "this machine is 7m"},
		{"invalid_dpop_proof", "other", 7 * time.Minute, 1, "behind)"},
	} {
		n := b.refuse(c.code, c.nonce, c.skew)
		err := b.callTool(t, protocol.Modern, source, "search")
		if got := len(b.proofsSince(t, n)); got != c.sends || err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: sent %d times, %v", c, got, err)
		}
	}
	b.answer(nil)
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1, oauthtest.Refresh: 0})
}

// TestNonceThatIsOld: a request that has waited for a person is sent once more than others, since
// the nonce of the time before may have ended.
func TestNonceThatIsOld(t *testing.T) {
	b := newBoundSite(t)
	source := b.source(t, bound)
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	u, _ := url.Parse(b.resource.URL)
	out := clienthttp.Outgoing{Method: "POST", URL: u}
	for attempt, c := range []struct {
		age  time.Duration
		want bool
	}{{0, true}, {time.Minute, true}, {0, false}} {
		sent, err := source.Credentials(t.Context(), out)
		noError.check(t, err)
		source.AgeNonce(c.age)
		again, err := source.Refused(t.Context(), clienthttp.Refusal{Outgoing: out, Sent: sent,
			Status: 401, Attempt: attempt + 1, Header: http.Header{
				"Www-Authenticate": {`DPoP error="use_dpop_nonce"`},
				"Dpop-Nonce":       {fmt.Sprint("n", attempt)}}})
		if again != c.want || (err == nil) != c.want {
			t.Errorf("attempt %d: %v, %v", attempt+1, again, err)
		}
	}
}

// TestNonceOfASuccess is used for the next request, and not at the token endpoint.
func TestNonceOfASuccess(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			b := newBoundSite(t)
			source := b.source(t, bound)
			noError.check(t, b.callTool(t, era, source, "search"))
			n := b.answer(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("DPoP-Nonce", "of-a-success")
				return false
			})
			noError.check(t, b.callTool(t, era, source, "search", "search"))
			source.ExpireToken()
			noError.check(t, b.callTool(t, era, source, "search"))
			proofs := b.proofsSince(t, n)
			if got := proofs[1]["nonce"]; got != "of-a-success" {
				t.Errorf("the nonce is %v", got)
			}
			b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1,
				oauthtest.Refresh: 1}) // with the nonce of the last token response
			for _, r := range b.as.Requests(oauthtest.Refresh) {
				nonce := claimsOf(t, r.Header.Get("DPoP"))["nonce"]
				if !strings.HasPrefix(fmt.Sprint(nonce), "as-nonce-") {
					t.Errorf("the nonce of the refresh is %v", nonce)
				}
			}
		})
	}
}

// TestProofsAtTheTokenEndpoint: a request is sent once more for a nonce, and not for ever.
func TestProofsAtTheTokenEndpoint(t *testing.T) {
	b := newBoundSite(t)
	b.as.WantProofs(oauthtest.Proofs{Required: true, Nonces: true, Forever: true})
	tokenError.check(t, b.callTool(t, protocol.Modern, b.source(t, bound), "search"))
	b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1, oauthtest.Token: 2})
	var nonces []any
	for _, r := range b.as.Requests(oauthtest.Token) {
		claims := claimsOf(t, r.Header.Get("DPoP"))
		if claims["htu"] != b.as.URL+"/token" || claims["htm"] != "POST" || claims["ath"] != nil {
			t.Errorf("the proof is %v", claims)
		}
		nonces = append(nonces, claims["nonce"])
	}
	if nonces[0] != nil || nonces[1] == nil {
		t.Errorf("the nonces are %v", nonces)
	}
	s := newSite(t, nil, nil)
	s.as.WantProofs(oauthtest.Proofs{Required: true})
	err := s.call(t.Context(), s.person(t, nil), "search")
	if tokenError.check(t, err); !strings.Contains(fmt.Sprint(err), "see Options.DPoP") {
		t.Errorf("got %v", err)
	}
}

// TestClockThatIsWrong: the error of a token request says by how much.
func TestClockThatIsWrong(t *testing.T) {
	b := newBoundSite(t)
	reply := refusal(http.StatusBadRequest, "invalid_dpop_proof")
	reply.Header = http.Header{"Content-Type": {"application/json"},
		"Date": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}
	b.as.Reply(oauthtest.Token, reply)
	err := b.callTool(t, protocol.Modern, b.source(t, bound), "search")
	if tokenError.check(t, err); !strings.Contains(fmt.Sprint(err), "is 1h0m") {
		t.Errorf("got %v", err)
	}
}

// TestMachineWithProofs: tokens without a person are bound, too.
func TestMachineWithProofs(t *testing.T) {
	for name, era := range eras {
		b := newBoundSite(t)
		b.as.AddClient(oauthtest.Client{ID: "alice", Secret: "hush"})
		source := b.machine(t, oauth.ClientCredentials{}, oauth.Registration{ClientID: "alice",
			ClientSecret: "hush"}, bound)
		if err := b.callTool(t, era, source, "search", "write"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.wantProofs(t)
	}
}

// TestNoProofIsShown: neither an error nor a printed value has a proof or a key.
func TestNoProofIsShown(t *testing.T) {
	b := newBoundSite(t)
	key := newKeys(t)["ES256"]
	source := b.source(t, func(o *oauth.Options) { o.ProofKey = key })
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	var text strings.Builder
	n := b.answer(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden) // quotes all that it got
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"%s %s"}}`,
			r.Header.Get("Authorization"), r.Header.Get("DPoP"))
		return true
	})
	err := b.callTool(t, protocol.Modern, source, "search")
	if err == nil {
		t.Fatal("the call was not refused")
	}
	slog.New(slog.NewTextHandler(&text, nil)).Error("failed", "err", err, "s", source)
	fmt.Fprintf(&text, "%v %+v %#v %+v %#v", err, err, err, oauth.Options{ProofKey: key}, source)
	for _, h := range b.came[n:] {
		for _, part := range strings.Split(h.Get("DPoP"), ".") {
			if part != "" && strings.Contains(text.String(), part) {
				t.Errorf("a proof is in %s", text.String())
			}
		}
	}
	secret, err := key.(*ecdsa.PrivateKey).Bytes()
	noError.check(t, err)
	number := new(big.Int).SetBytes(secret)
	for _, form := range []string{fmt.Sprintf("%x", secret), number.String()} {
		if strings.Contains(text.String(), form) {
			t.Errorf("a key is in %s", text.String())
		}
	}

	b = newBoundSite(t)
	b.as.Edit(oauthtest.Token, func(d *oauthtest.Document) {
		proofs := b.as.Requests(oauthtest.Token)
		*d = oauthtest.Document{{Name: "error", Value: "invalid_dpop_proof"}, {
			Name: "error_description", Value: proofs[len(proofs)-1].Header.Get("DPoP")}}
	})
	err = b.callTool(t, protocol.Modern, b.source(t, bound), "search")
	for _, r := range b.as.Requests(oauthtest.Token) {
		if proof := r.Header.Get("DPoP"); strings.Contains(fmt.Sprint(err), proof[:40]) {
			t.Errorf("a proof is in %v", err)
		}
	}
	tokenError.check(t, err)
}

// TestChallengesOfBothKinds: of two challenges the one that says what is wrong counts.
func TestChallengesOfBothKinds(t *testing.T) {
	for header, want := range map[string]string{
		`Bearer error="insufficient_scope", scope="more", DPoP algs="ES256"`: "insufficient_scope " +
			"[more]",
		`Bearer realm="x", DPoP error="use_dpop_nonce"`:             "use_dpop_nonce []",
		`Bearer error="invalid_token", DPoP error="use_dpop_nonce"`: "use_dpop_nonce []",
		`Bearer scope="read", DPoP algs="ES256"`:                    " [read]",
		`DPoP error="invalid_token"`:                                "invalid_token []",
		`error="invalid_token", Bearer`:                             " []",
		`Basic abc=, Bearer error=a`:                                "a []",
		`Basic a/b Bearer error=a`:                                  " []",
		`Bearer error="a\"b", error_uri="\\"`:                       `a"b []`,
		`Bearer error=a, Bearer error=b, x="`:                       " []",
		`Bearer error=a, Bearer error=b`:                            "a []",
	} {
		code, scopes, _ := oauth.ReadChallenge(http.Header{"Www-Authenticate": {header}})
		if got := fmt.Sprint(code, " ", scopes); got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
}

// TestRefreshWithAClockThatIsWrong: nobody is sent to a page, since the proof for the code would be
// refused, too. When the clock is right the login goes on.
func TestRefreshWithAClockThatIsWrong(t *testing.T) {
	b := newBoundSite(t)
	source := b.source(t, bound)
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	source.ExpireToken()
	reply := refusal(http.StatusBadRequest, "invalid_dpop_proof")
	reply.Header = http.Header{"Content-Type": {"application/json"},
		"Date": {time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}
	b.as.Reply(oauthtest.Refresh, reply)
	metadata := b.resource.Origin + "/.well-known/oauth-protected-resource/mcp"
	b.answer(func(w http.ResponseWriter, _ *http.Request) bool { // the token is over
		w.Header().Set("WWW-Authenticate", `DPoP error="invalid_token", resource_metadata="`+
			metadata+`"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	for range 5 {
		err := b.callTool(t, protocol.Modern, source, "search")
		if retryable.check(t, err); !strings.Contains(fmt.Sprint(err), "is 1h0m") {
			t.Errorf("got %v", err)
		}
	}
	b.as.Behave()
	b.answer(nil)
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
}

// TestRefreshThatNeverGetsANonceThatCounts: nobody is sent to a page, since the code would need such
// a nonce, too. When one counts again the login goes on.
func TestRefreshThatNeverGetsANonceThatCounts(t *testing.T) {
	b := newBoundSite(t)
	source := b.source(t, bound)
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	source.ExpireToken()
	b.as.WantProofs(oauthtest.Proofs{Required: true, Nonces: true, Forever: true})
	retryable.check(t, b.callTool(t, protocol.Modern, source, "search"))
	b.as.WantProofs(oauthtest.Proofs{Required: true, Nonces: true})
	noError.check(t, b.callTool(t, protocol.Modern, source, "search"))
	b.wantCounts(t, map[oauthtest.Endpoint]int{oauthtest.Authorize: 1})
}
