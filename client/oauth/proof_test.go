package oauth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
)

// readProof checks the signature of the proof in a header and returns its claims, with jkt.
func readProof(t *testing.T, h http.Header) map[string]any {
	t.Helper()
	signed, err := jose.ParseSignedCompact(h.Get("DPoP"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Errorf("proof %q: %v", h.Get("DPoP"), err)
		return nil
	}
	key := signed.Signatures[0].Protected.JSONWebKey
	payload, err := signed.Verify(key)
	claims := map[string]any{}
	if err != nil || json.Unmarshal(payload, &claims) != nil || !key.IsPublic() ||
		signed.Signatures[0].Protected.ExtraHeaders["typ"] != "dpop+jwt" {
		t.Errorf("the proof is malformed: %v", err)
	}
	sum, _ := key.Thumbprint(crypto.SHA256)
	claims["jkt"] = base64.RawURLEncoding.EncodeToString(sum)
	return claims
}

// newProofSite returns an MCP server that is its own authorization server. Its token endpoint wants
// the nonce "as", and issues tokens of a kind.
func newProofSite(t *testing.T, kind string) *httptest.Server {
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	t.Cleanup(site.Close)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource", func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, site.URL, site.URL)
	})
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q}`, site.URL, site.URL+"/token")
	})
	seen := map[any]bool{}
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("DPoP-Nonce", "as")
		if r.Header.Get("DPoP") != "" {
			p := readProof(t, r.Header)
			if p["htm"] != "POST" || p["htu"] != site.URL+"/token" || seen[p["jti"]] {
				t.Errorf("proof %v", p)
			}
			seen[p["jti"]] = true
			if p["nonce"] != "as" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprint(w, `{"error":"use_dpop_nonce"}`)
				return
			}
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"bound","token_type":%q}`, kind)
	})
	return site
}

// TestProofKey: tokens are bound to the key, and every request has a proof with the last nonce.
func TestProofKey(t *testing.T) {
	site, store := newProofSite(t, "DPoP"), oauth.NewMemoryStore()
	open := func(key crypto.Signer) (*oauth.Source, error) {
		return oauth.New(site.URL, &oauth.Options{ProofKey: key, Store: store,
			Machine: oauth.ClientCredentials{}, Registrations: []oauth.Registration{
				{Issuer: site.URL, ClientID: "robot", ClientSecret: "s"}}})
	}
	newKey := func(curve elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if _, err := open(newKey(elliptic.P384())); err == nil {
		t.Error("a key of P-384 is accepted")
	}
	key := newKey(elliptic.P256())
	source, err := open(kms{key})
	if err != nil {
		t.Fatal(err)
	}
	at, _ := url.Parse(site.URL)
	out := clienthttp.Outgoing{Method: http.MethodGet, URL: at}
	refuse := func(sent http.Header, challenge, nonce string) (bool, error) {
		return source.Refused(t.Context(), clienthttp.Refusal{Outgoing: out, Sent: sent,
			Status: http.StatusUnauthorized, Attempt: 1, Header: http.Header{
				"Www-Authenticate": {challenge}, "Dpop-Nonce": {nonce}}})
	}
	again, err := refuse(nil, `Bearer error="invalid_token", DPoP algs="ES256"`, "")
	if !again || err != nil {
		t.Fatalf("login: %v, %v", again, err)
	}
	ids, sum := map[any]bool{}, sha256.Sum256([]byte("bound"))
	for _, nonce := range []any{nil, "first", "second"} {
		h, err := source.Credentials(t.Context(), out)
		if err != nil || h.Get("Authorization") != "DPoP bound" {
			t.Fatalf("credentials %v, %v", h, err)
		}
		p := readProof(t, h)
		if p["htm"] != "GET" || strings.TrimSuffix(fmt.Sprint(p["htu"]), "/") != site.URL ||
			p["nonce"] != nonce || ids[p["jti"]] ||
			p["ath"] != base64.RawURLEncoding.EncodeToString(sum[:]) {
			t.Errorf("proof %v", p)
		}
		ids[p["jti"]] = true
		next := map[any]string{nil: "first", "first": "second"}[nonce]
		again, err := refuse(h, `DPoP error="use_dpop_nonce"`, next)
		if err != nil || again != (next != "") {
			t.Errorf("after nonce %v: %v, %v", nonce, again, err)
		}
	}
	for _, other := range []crypto.Signer{nil, newKey(elliptic.P256())} {
		source, err := open(other)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := source.Credentials(t.Context(), out); h != nil || err != nil {
			t.Errorf("a token of another key is sent: %v, %v", h, err)
		}
	}
}

// TestProofKeyWithoutBinding: a bearer token in the place of a bound one is refused.
func TestProofKeyWithoutBinding(t *testing.T) {
	for kind, key := range map[string]crypto.Signer{"Bearer": newKeys(t)["ES256"], "DPoP": nil} {
		site := newProofSite(t, kind)
		source, err := oauth.New(site.URL, &oauth.Options{ProofKey: key,
			Machine: oauth.ClientCredentials{}, Registrations: []oauth.Registration{
				{Issuer: site.URL, ClientID: "robot", ClientSecret: "s"}}})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := url.Parse(site.URL)
		_, err = source.Refused(t.Context(), clienthttp.Refusal{Status: 401, Attempt: 1,
			Outgoing: clienthttp.Outgoing{Method: http.MethodGet, URL: at}})
		if err == nil || !strings.Contains(err.Error(), "not of type") {
			t.Errorf("%s: got %v, want that the type is wrong", kind, err)
		}
	}
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
	} {
		code, scopes := oauth.ReadBoundChallenge(http.Header{"Www-Authenticate": {header}})
		if got := fmt.Sprint(code, " ", scopes); got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
}
