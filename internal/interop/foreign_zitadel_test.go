package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/server/bearer"
)

// TestZitadelAuthorizationServer uses the OpenID provider of zitadel/oidc's example, with a login
// page, registered clients and single-use refresh tokens. It has no resource indicators: a token's
// audience is the client. The host decides where a JWT has its scopes; here it is where the product
// puts them. ID tokens have the same audience.
func TestZitadelAuthorizationServer(t *testing.T) {
	testForeignServers(t, []foreignServer{
		{name: "zitadel/oidc, JWT", start: func(t *testing.T, _ string) foreignTrust {
			z := startZitadel(t, op.AccessTokenTypeJWT)
			z.trust.server.Issuers[0].Audiences = []string{zitadelClient}
			z.trust.server.Issuers[0].ScopesOf = zitadelRoles
			return z.trust
		}},
		{name: "zitadel/oidc, introspection", start: func(t *testing.T, _ string) foreignTrust {
			z := startZitadel(t, op.AccessTokenTypeBearer)
			issuer := &z.trust.server.Issuers[0]
			issuer.Introspection = &bearer.Introspection{URL: z.introspection,
				ClientID: zitadelClient, ClientSecret: zitadelSecret}
			issuer.NoAudience = &bearer.NoAudience{Clients: []string{zitadelClient}, Scope: "read"}
			return z.trust
		}},
		{name: "zitadel/oidc, Verify", start: func(t *testing.T, _ string) foreignTrust {
			z := startZitadel(t, op.AccessTokenTypeBearer)
			z.trust.server.Issuers[0].Verify = z.verify
			z.trust.server.Issuers[0].Audiences = []string{zitadelClient}
			return z.trust
		}},
	})
}

// Without an option of Options.Issuers, the refusal names that option (for scopes, only in the
// log). An ID token, which has the same audience, is always refused.
func TestZitadelWithoutTheWordForIt(t *testing.T) {
	introspected := func(z *zitadel, i *bearer.Issuer) {
		i.Introspection = &bearer.Introspection{URL: z.introspection, ClientID: zitadelClient,
			ClientSecret: zitadelSecret}
	}
	for _, tt := range []struct {
		name string
		kind op.AccessTokenType
		say  func(z *zitadel, i *bearer.Issuer)
		want string // part of the refusal
	}{
		{"audience", op.AccessTokenTypeJWT, func(*zitadel, *bearer.Issuer) {}, "Audiences"},
		{"no audience", op.AccessTokenTypeBearer, introspected, "NoAudience"},
		{"opaque", op.AccessTokenTypeBearer, func(*zitadel, *bearer.Issuer) {},
			"Issuer.Introspection"},
		{"scopes", op.AccessTokenTypeJWT, func(_ *zitadel, i *bearer.Issuer) {
			i.Audiences = []string{zitadelClient}
		}, "insufficient_scope"},
		{"ID token", op.AccessTokenTypeJWT, func(z *zitadel, i *bearer.Issuer) {
			i.Audiences, i.ScopesOf = []string{zitadelClient}, zitadelRoles
			z.swaps = true
		}, "ID token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := foreignServer{start: func(t *testing.T, _ string) foreignTrust {
				z := startZitadel(t, tt.kind)
				tt.say(z, &z.trust.server.Issuers[0])
				return z.trust
			}}
			trust := s.protect(t)
			trust.client.Interaction = &oauth.Loopback{Browse: newFormBrowser(t).open}
			call := dialWithLogin(t, trust.server.Resource, modern, &trust.client)
			got, err := call(within(t, patience), "read")
			if said := trust.lastRefusal(); err == nil || !strings.Contains(said, tt.want) {
				t.Errorf("got %q, %v and %s, want a refusal with %q", got, err, said, tt.want)
			}
		})
	}
}

const zitadelClient, zitadelSecret = "notes", "secret"

type zitadel struct {
	introspection string
	trust         foreignTrust
	swaps         bool // token responses have the ID token as the access token
}

func startZitadel(t *testing.T, kind op.AccessTokenType) *zitadel {
	t.Helper()
	var provider http.Handler
	z := &zitadel{}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if z.swaps && r.URL.Path == "/oauth/token" {
			serveSwapped(provider, w, r)
			return
		}
		provider.ServeHTTP(w, r)
	}))
	t.Cleanup(ts.Close)
	clients := map[string]*storage.Client{zitadelClient: storage.WebClient(zitadelClient,
		zitadelSecret, "http://127.0.0.1/callback")}
	keeps := &zitadelStorage{kind: kind,
		Storage: storage.NewStorageWithClients(storage.NewUserStore(ts.URL), clients)}
	provider = exampleop.SetupServer(ts.URL, keeps, nil, false)
	z.introspection = ts.URL + "/oauth/introspect"
	z.trust = foreignTrust{
		subject: "id2",
		server:  bearer.Options{Issuers: []bearer.Issuer{{URL: ts.URL}}},
		client: oauth.Options{Registrations: []oauth.Registration{{Issuer: ts.URL,
			ClientID: zitadelClient, ClientSecret: zitadelSecret}}},
	}
	return z
}

// serveSwapped returns the ID token as the access token, as if the client confused them.
func serveSwapped(provider http.Handler, w http.ResponseWriter, r *http.Request) {
	response := httptest.NewRecorder()
	provider.ServeHTTP(response, r)
	var members map[string]any
	if err := json.Unmarshal(response.Body.Bytes(), &members); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	members["access_token"] = members["id_token"]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(response.Code)
	_ = json.NewEncoder(w).Encode(members)
}

// verify is the Verify of a host whose issuer has a proprietary endpoint.
func (z *zitadel) verify(ctx context.Context, token string) (*bearer.Token, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, z.introspection,
		strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(zitadelClient, zitadelSecret)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("introspection: %s", response.Status)
	}
	var said struct {
		Active     bool
		Sub, Scope string
		ClientID   string `json:"client_id"`
		Exp        int64
	}
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return nil, err
	}
	if !said.Active {
		return nil, bearer.ErrInactive
	}
	return &bearer.Token{Subject: said.Sub, ClientID: said.ClientID,
		Scopes: strings.Fields(said.Scope), Expiry: time.Unix(said.Exp, 0)}, nil
}

const zitadelRolesClaim = "urn:zitadel:iam:org:project:roles"

func zitadelRoles(t *bearer.Token) ([]string, error) {
	var roles map[string]any
	if _, err := t.Claim(zitadelRolesClaim, &roles); err != nil {
		return nil, err
	}
	var names []string
	for name := range roles {
		names = append(names, name)
	}
	return names, nil
}

type zitadelStorage struct {
	*storage.Storage
	kind op.AccessTokenType
}

// CreateAccessAndRefreshTokens shortens lifetimes. Clients see the remaining whole seconds.
func (s *zitadelStorage) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest,
	current string) (id, refresh string, expires time.Time, err error) {
	id, refresh, _, err = s.Storage.CreateAccessAndRefreshTokens(ctx, r, current)
	return id, refresh, time.Now().Add(foreignLifetime * 3 / 2), err
}

// GetPrivateClaimsFromScopes returns the roles for a JWT.
func (s *zitadelStorage) GetPrivateClaimsFromScopes(_ context.Context, _, _ string,
	scopes []string) (map[string]any, error) {
	roles := map[string]any{}
	for _, scope := range scopes {
		if isZitadelRole(scope) {
			roles[scope] = map[string]string{"1": "example.org"}
		}
	}
	return map[string]any{zitadelRolesClaim: roles}, nil
}

func isZitadelRole(scope string) bool { return scope == "read" || scope == "write" }

// SetIntrospectionFromToken adds the user, whom the example names only for the scope openid.
func (s *zitadelStorage) SetIntrospectionFromToken(ctx context.Context,
	response *oidc.IntrospectionResponse, id, subject, client string) error {
	err := s.Storage.SetIntrospectionFromToken(ctx, response, id, subject, client)
	response.Subject = subject
	return err
}

// GetClientByClientID returns the client with our server's scopes.
func (s *zitadelStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	return zitadelRegistration{c, s.kind}, err
}

type zitadelRegistration struct {
	op.Client
	kind op.AccessTokenType
}

func (c zitadelRegistration) AccessTokenType() op.AccessTokenType { return c.kind }

func (c zitadelRegistration) IsScopeAllowed(scope string) bool { return isZitadelRole(scope) }

// ApplicationType returns a type whose loopback ports are not compared.
func (c zitadelRegistration) ApplicationType() op.ApplicationType {
	return op.ApplicationTypeNative
}
