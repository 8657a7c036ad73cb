package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rondo-mcp/rondo/client/oauth"
)

// documentURL is the client id at servers that read metadata documents. No page exists there.
const documentURL = "https://conformance-test.local/client-metadata.json"

// authScenarios returns the scenarios with authorization. All make the same calls, because the
// suite watches how the client gets its tokens. In some it must get no token, and fails.
func authScenarios() []string {
	return []string{
		"auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2",
		"auth/metadata-var3", "auth/metadata-issuer-mismatch",
		"auth/basic-cimd", "auth/pre-registration",
		"auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported",
		"auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit",
		"auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post",
		"auth/token-endpoint-auth-none",
		"auth/resource-mismatch", "auth/authorization-server-migration",
		"auth/offline-access-scope", "auth/offline-access-not-supported",
		"auth/iss-supported", "auth/iss-not-advertised", "auth/iss-supported-missing",
		"auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized",
		"auth/client-credentials-basic", "auth/client-credentials-jwt",
		"auth/enterprise-managed-authorization", "auth/wif-jwt-bearer",
		"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback",
	}
}

func newSource(ctx context.Context, endpoint, name string, more json.RawMessage) (*oauth.Source,
	error) {
	if !strings.HasPrefix(name, "auth/") {
		return nil, nil
	}
	opts := &oauth.Options{
		Client:      oauth.ClientInfo{Name: "everything-client", MetadataURL: documentURL},
		Interaction: visitor{},
		Legacy:      strings.HasPrefix(name, "auth/2025-03-26-"),
	}
	var told credentials
	if len(more) > 0 {
		if err := json.Unmarshal(more, &told); err != nil {
			return nil, fmt.Errorf("context: %w", err)
		}
	}
	if opts.Machine = told.machine(name); opts.Machine != nil {
		opts.Interaction = nil
	}
	key, err := told.key()
	if err != nil {
		return nil, err
	}
	if told.ID != "" { // the suite names no issuer
		issuer, err := findIssuer(ctx, endpoint)
		if err != nil {
			return nil, err
		}
		opts.Registrations = []oauth.Registration{{Issuer: issuer, ClientID: told.ID,
			ClientSecret: oauth.Secret(told.Secret), PrivateKey: key}}
	}
	return oauth.New(endpoint, opts)
}

// findIssuer returns the issuer that an endpoint's metadata names (RFC 9728).
func findIssuer(ctx context.Context, endpoint string) (string, error) {
	at, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	at.Path = "/.well-known/oauth-protected-resource" + at.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var metadata struct {
		Servers []string `json:"authorization_servers"`
	}
	err = json.NewDecoder(response.Body).Decode(&metadata)
	if err != nil || len(metadata.Servers) == 0 {
		return "", fmt.Errorf("%s: %s: no authorization server, %v", at, response.Status, err)
	}
	return metadata.Servers[0], nil
}

type credentials struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
	Key    string `json:"private_key_pem"`

	WorkloadToken string `json:"valid_jwt"`

	IDPClient   string `json:"idp_client_id"`
	IDPToken    string `json:"idp_id_token"`
	IDPEndpoint string `json:"idp_token_endpoint"`
}

func (c *credentials) machine(name string) oauth.Machine {
	switch name {
	case "auth/client-credentials-basic", "auth/client-credentials-jwt":
		return oauth.ClientCredentials{}
	case "auth/wif-jwt-bearer":
		return oauth.Workload{Assertion: func(context.Context, string) (string, error) {
			return c.WorkloadToken, nil
		}}
	case "auth/enterprise-managed-authorization":
		return oauth.Enterprise{TokenEndpoint: c.IDPEndpoint, ClientID: c.IDPClient,
			Subject: func(context.Context) (token, tokenType string, err error) {
				return c.IDPToken, "urn:ietf:params:oauth:token-type:id_token", nil
			}}
	}
	return nil
}

func (c *credentials) key() (crypto.Signer, error) {
	if c.Key == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(c.Key))
	if block == nil {
		return nil, errors.New("context: private_key_pem is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("context: private_key_pem cannot sign")
	}
	return signer, nil
}

// A visitor logs in without a browser, because the suite redirects at once.
type visitor struct{}

func (visitor) Open(context.Context, string, string) (oauth.Receiver, error) {
	return visitor{}, nil
}

// RedirectURI is where nothing listens.
func (visitor) RedirectURI() string { return "http://localhost:3000/callback" }

func (visitor) Close() error { return nil }

// Receive implements [oauth.Receiver]. It returns the authorization server's redirect.
func (visitor) Receive(ctx context.Context, l *oauth.Login,
	check func(callback *url.URL) error) (*url.URL, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL, nil)
	if err != nil {
		return nil, err
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := browser.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	callback, err := response.Location()
	if err != nil {
		return nil, err
	}
	return callback, check(callback)
}
