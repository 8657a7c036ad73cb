package rondo

import (
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

const (
	resource = "https://mcp.example.com/mcp"
	scope    = "bench:run"
)

// An Authority issues tokens and verifies them.
type Authority struct {
	Guard  *bearer.ResourceServer
	issuer *bearertest.Issuer
}

// NewAuthority returns an authority. remembered is its bearer.Options.MaxCachedTokens.
func NewAuthority(remembered int) *Authority {
	issuer := bearertest.NewIssuer("https://login.example.com")
	guard, err := bearer.New(bearer.Options{
		Resource: resource, Issuers: []bearer.Issuer{issuer.Trusted()},
		Scopes: []string{scope}, MaxCachedTokens: remembered,
	})
	if err != nil {
		panic(err) // internal error: the options are right
	}
	return &Authority{guard, issuer}
}

// Token issues a token with typical claims, which has 850 bytes.
func (a *Authority) Token(subject string) string {
	now := time.Now()
	return a.issuer.Issue(bearertest.Token{
		Subject: subject, ClientID: "0b7a4a5e-bench-client", Audience: resource,
		Scopes:   []string{"openid", "profile", "email", "offline_access", scope},
		Lifetime: 24 * time.Hour,
		Claims: map[string]any{
			"nbf": now.Unix(), "jti": "c2b1f3c0-6e4d-4b8e-9f51-0f7d3f0f3a55",
			"roles": []string{"reader", "writer", "operator"}, "tenant": "acme",
			"auth_time": now.Unix(),
			"email":     subject + "@example.com", "name": "Person Number " + subject,
			"sid": "5f0c8f2a-70a7-4c55-8f0e-3f1b7b0d6a11", "acr": "urn:mace:incommon:iap:silver",
		}})
}

// NewServer returns a server of both eras that accepts the authority's tokens.
func (a *Authority) NewServer() http.Handler {
	return newServer(deploy, &server.Options{}, &serverhttp.Options{Authority: a.Guard})
}
