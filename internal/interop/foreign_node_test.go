//go:build node

package interop_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/bearer"
)

// These authorization servers come from npm. Each has its own pages.
func TestNodeAuthorizationServers(t *testing.T) {
	testForeignServers(t, []foreignServer{
		{name: "oidc-provider", start: func(t *testing.T, _ string) foreignTrust {
			return startOIDCProvider(t, nil)
		}},
		{name: "oidc-provider, private_key_jwt", start: func(t *testing.T, _ string) foreignTrust {
			return startOIDCProvider(t, newKey(t))
		}},
		{name: "oidc-provider, private_key_jwt, machine", start: func(t *testing.T,
			_ string) foreignTrust {
			return startOIDCProvider(t, newKey(t)).asMachine()
		}},
		{name: "better-auth", start: startBetterAuth},
		{name: "TypeScript SDK, demo", start: startDemoAuth, noRefresh: true, noRevocation: true},
	})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	return key
}

// startOIDCProvider starts npm's oidc-provider. key authenticates the client. Nil: registration.
func startOIDCProvider(t *testing.T, key *ecdsa.PrivateKey) foreignTrust {
	t.Helper()
	settings := map[string]any{"pages": true}
	trust := foreignTrust{subject: foreignUser}
	if key != nil {
		settings["key"] = jose.JSONWebKey{Key: key.Public(), Algorithm: "ES256", Use: "sig"}
	}
	raw, err := json.Marshal(settings)
	noError(t, err)
	as := &authServer{process: startNode(t, "authserver.mjs", string(raw))}
	as.url = as.process.Line()
	as.command(t, "brief")
	trust.server.Issuers = []bearer.Issuer{{URL: as.url}}
	if key != nil {
		trust.client.Registrations = []oauth.Registration{{Issuer: as.url, ClientID: "keyed",
			PrivateKey: key}}
	}
	return trust
}

// asMachine returns the same configuration for a program without a user.
func (f foreignTrust) asMachine() foreignTrust {
	f.client.Machine, f.subject = oauth.ClientCredentials{}, "keyed"
	return f
}

func startBetterAuth(t *testing.T, endpoint string) foreignTrust {
	t.Helper()
	p := startNode(t, "betterauth.mjs", foreignUser, foreignPassword, endpoint,
		fmt.Sprint(foreignLifetime.Seconds()))
	return foreignTrust{server: bearer.Options{Issuers: []bearer.Issuer{{URL: p.Line()}}},
		subject: p.Line()}
}

// startDemoAuth starts the TypeScript SDK's demo. It names no user. Inactive tokens get 401.
func startDemoAuth(t *testing.T, endpoint string) foreignTrust {
	t.Helper()
	issuer := startNode(t, "demoauth.mjs", endpoint).Line()
	verify := func(ctx context.Context, token string) (*bearer.Token, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, issuer+"introspect",
			strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
		case http.StatusUnauthorized:
			return nil, bearer.ErrInactive
		default:
			return nil, fmt.Errorf("introspection: %s", response.Status)
		}
		var said struct {
			ClientID   string `json:"client_id"`
			Scope, Aud string
			Exp        int64
		}
		if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
			return nil, err
		}
		return &bearer.Token{ClientID: said.ClientID, Audience: []string{said.Aud},
			Scopes: strings.Fields(said.Scope), Expiry: time.Unix(said.Exp, 0)}, nil
	}
	return foreignTrust{subject: "demo_user", server: bearer.Options{
		Issuers: []bearer.Issuer{{URL: issuer, Verify: verify}},
		Subject: func(token *bearer.Token) (protocol.Principal, error) {
			return protocol.Principal{Issuer: token.Issuer, Subject: "demo_user"}, nil
		},
	}}
}
