package rondo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	issuer   = "https://login.example.com"
	resource = "https://mcp.example.com/mcp"
	scope    = "bench:run"
)

// An Authority issues tokens and verifies them.
type Authority struct {
	Guard  *bearer.Guard
	signer jose.Signer
}

// NewAuthority returns an authority that remembers a number of verified tokens, as
// bearer.Options.MaxCachedTokens says.
func NewAuthority(remembered int) (*Authority, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	set, err := json.Marshal(jose.JSONWebKeySet{
		Keys: []jose.JSONWebKey{{Key: private.Public(), KeyID: "k1"}}})
	if err != nil {
		return nil, err
	}
	guard, err := bearer.New(bearer.Options{
		Resource: resource, Issuers: []bearer.Issuer{{URL: issuer, Keys: set}},
		Scopes: []string{scope}, MaxCachedTokens: remembered,
	})
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: private, KeyID: "k1"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	return &Authority{guard, signer}, err
}

// Token issues a token with what issuers usually write into one: 850 bytes.
func (a *Authority) Token(subject string) (string, error) {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": issuer, "sub": subject, "aud": resource, "client_id": "0b7a4a5e-bench-client",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(24 * time.Hour).Unix(),
		"jti":   "c2b1f3c0-6e4d-4b8e-9f51-0f7d3f0f3a55",
		"scope": "openid profile email offline_access " + scope,
		"roles": []string{"reader", "writer", "operator"}, "tenant": "acme",
		"auth_time": now.Unix(),
		"email":     subject + "@example.com", "name": "Person Number " + subject,
		"sid": "5f0c8f2a-70a7-4c55-8f0e-3f1b7b0d6a11", "acr": "urn:mace:incommon:iap:silver",
	})
	if err != nil {
		return "", err
	}
	signed, err := a.signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("a token for %s: %w", subject, err)
	}
	return signed.CompactSerialize()
}

// NewServer returns a server of both eras behind the authority.
func (a *Authority) NewServer() http.Handler {
	return newServerWith(deploy, &server.Options{}, &serverhttp.Options{Authority: a.Guard})
}
