// Package bearertest has an issuer of access tokens, for tests of servers that package bearer
// protects. It issues any token, so use it in tests only.
//
//	issuer := bearertest.NewIssuer("https://login.example.com")
//	guard, err := bearer.New(bearer.Options{
//		Resource: resource,
//		Issuers:  []bearer.Issuer{issuer.Trusted()},
//	})
//	// …
//	token := issuer.Issue(bearertest.Token{
//		Subject: "ann", Audience: resource, Scopes: []string{"files:read"}})
//
// [Start] returns an issuer that listens, for servers in other processes. Clients can log in there.
package bearertest

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/server/bearer"
)

// An Issuer issues JSON Web Tokens (RFC 9068), signed with its own key (ES256). Calls may overlap.
type Issuer struct {
	url    string
	keys   json.RawMessage // public keys, as a JSON Web Key Set
	signer jose.Signer
}

// NewIssuer returns an issuer with a URL and a new key, which does not listen.
func NewIssuer(url string) *Issuer {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	const algorithm = jose.ES256
	id := rand.Text()
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key: private.Public(), KeyID: id, Algorithm: string(algorithm), Use: "sig"}}})
	must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm,
		Key: jose.JSONWebKey{Key: private, KeyID: id}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	must(err)
	return &Issuer{url: url, keys: keys, signer: signer}
}

// Start returns an issuer for the user ann that serves its Handler on loopback until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	mux := http.NewServeMux()
	listening := httptest.NewServer(mux)
	t.Cleanup(listening.Close)
	issuer := NewIssuer(listening.URL)
	mux.Handle("/", issuer.Handler("ann"))
	return issuer
}

// URL returns the identifier of the issuer, the iss of its tokens.
func (i *Issuer) URL() string { return i.url }

// Trusted returns the issuer, with its keys, for [bearer.Options].Issuers. No keys are fetched.
func (i *Issuer) Trusted() bearer.Issuer { return bearer.Issuer{URL: i.url, Keys: i.keys} }

// A Token has the claims of an access token.
type Token struct {
	// Subject is the user, required unless [bearer.Issuer].Machines is set. ClientID is the client.
	Subject, ClientID string
	// Audience is the server that accepts the token: [bearer.Options].Resource.
	Audience string
	Scopes   []string
	// Lifetime is the time to expiry. 0: an hour. Negative: since expiry; servers allow a minute.
	Lifetime time.Duration
	// Claims are further claims, which replace the claims above. A nil value removes a claim.
	Claims map[string]any
}

// Issue returns a token for "Authorization: Bearer token". It panics if claims cannot be encoded.
func (i *Issuer) Issue(t Token) string {
	now, lifetime := time.Now(), cmp.Or(t.Lifetime, time.Hour)
	claims := map[string]any{
		"iss": i.url, "aud": t.Audience, "scope": strings.Join(t.Scopes, " "),
		"iat": now.Add(min(lifetime, 0)).Unix(), "exp": now.Add(lifetime).Unix(),
		"jti": rand.Text(),
	}
	for name, value := range map[string]string{"sub": t.Subject, "client_id": t.ClientID} {
		if value != "" {
			claims[name] = value
		}
	}
	maps.Copy(claims, t.Claims)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	payload, err := json.Marshal(claims)
	must(err)
	signed, err := i.signer.Sign(payload)
	must(err)
	token, err := signed.CompactSerialize()
	must(err)
	return token
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprint("bearertest: ", err))
	}
}
