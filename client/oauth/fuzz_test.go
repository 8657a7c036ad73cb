package oauth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

func FuzzChallenge(f *testing.F) {
	for _, seed := range []string{
		`Bearer`, `Bearer realm="mcp"`,
		`Bearer error="invalid_token", error_description="Missing Authorization header", ` +
			`resource_metadata="http://localhost:4000/.well-known/oauth-protected-resource/mcp"`,
		`Bearer realm="mcp", resource_metadata="http://localhost:1/x.json", scope="mcp:basic"`,
		`Bearer error="insufficient_scope", scope="mcp:write", ` +
			`error_description="a, b = \"c\""`,
		`Negotiate YIIabc==, Basic realm="a, b=\"c\"", Bearer scope=one, Digest nonce="n"`,
		`DPoP algs="ES256", resource_metadata="https://a.example"`,
		`Bearer scope="a`, `Bearer ,,scope = "a" , error=x`, `bearer SCOPE="a\\"`, `=`, `"`, `, ,`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, scopes, metadata := oauth.ReadChallenge(http.Header{"Www-Authenticate": {text}})
		for _, s := range scopes {
			if !rules.IsScopeList(s) {
				t.Errorf("scope %q", s)
			}
		}
		quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		again := `Basic realm="x, Bearer", Bearer error="` + quote.Replace(code) + `", scope="` +
			strings.Join(scopes, " ") + `", resource_metadata="` + quote.Replace(metadata) + `"`
		if len(again) > 8<<10 {
			return
		}
		code2, scopes2, metadata2 := oauth.ReadChallenge(http.Header{"Www-Authenticate": {again}})
		if code2 != code || !slices.Equal(scopes2, scopes) || metadata2 != metadata {
			t.Errorf("%q is read as %q, %q, %q", again, code2, scopes2, metadata2)
		}
	})
}

func FuzzResourceMetadata(f *testing.F) {
	const endpoint = "https://mcp.example/mcp"
	for _, seed := range []string{
		`{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"]}`,
		`{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"],` +
			`"scopes_supported":["mcp:basic","mcp:read"],"bearer_methods_supported":["header"]}`,
		`{"resource":"https://evil.example.com/mcp","authorization_servers":["https://a.example"]}`,
		`{"resource":"https://mcp.example/mcp","resource":"x","authorization_servers":[""]}`,
		`{"resource":["https://mcp.example/mcp"],"authorization_servers":{}}`, `null`, `[]`, `{`,
	} {
		f.Add([]byte(seed))
	}
	source, err := oauth.New(endpoint, nil)
	check(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		resource, issuers, err := source.ReadResource("https://mcp.example/x", body)
		if err != nil {
			metadataError.check(t, err)
			return
		}
		if resource != endpoint || len(issuers) == 0 || len(issuers) > 10 || !json.Valid(body) {
			t.Errorf("accepted %q, %q", resource, issuers)
		}
	})
}

func FuzzServerMetadata(f *testing.F) {
	const issuer = "https://as.example"
	for _, seed := range []string{
		`{"issuer":"https://as.example","authorization_endpoint":"https://as.example/authorize",` +
			`"token_endpoint":"https://as.example/token",` +
			`"registration_endpoint":"https://as.example/register",` +
			`"response_types_supported":["code"],` +
			`"grant_types_supported":["authorization_code","refresh_token"],` +
			`"code_challenge_methods_supported":["S256"],` +
			`"token_endpoint_auth_methods_supported":["none"],` +
			`"authorization_response_iss_parameter_supported":true,` +
			`"client_id_metadata_document_supported":true}`,
		`{"issuer":"https://attacker.example.com","code_challenge_methods_supported":["S256"]}`,
		`{"issuer":"https://as.example","authorization_endpoint":"javascript:alert(1)",` +
			`"token_endpoint":"file:///x","code_challenge_methods_supported":["S256"]}`,
		`{"issuer":1}`, `{"issuer":"https://as.example","issuer":"x"}`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	source, err := oauth.New("https://203.0.113.9/mcp", nil)
	check(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		endpoints, err := source.ReadServer(issuer, body)
		if err != nil {
			metadataError.check(t, err)
			return
		}
		for i, at := range endpoints {
			if at == "" && i > 1 {
				continue
			}
			if u, err := url.Parse(at); err != nil || u.Scheme != "https" || u.User != nil {
				t.Errorf("accepted the endpoint %q", at)
			}
		}
		if !strings.Contains(string(body), "S256") && !strings.Contains(string(body), `\u`) {
			t.Error("accepted without S256")
		}
	})
}

func FuzzCallback(f *testing.F) {
	const state, issuer = "thestate", "https://as.example"
	for _, seed := range []string{
		"code=abc&state=thestate", "code=abc&state=thestate&iss=https%3A%2F%2Fas.example",
		"code=abc&state=thestate&iss=https%3A%2F%2Fas.example%2F", "code=a&code=b&state=thestate",
		"error=access_denied&error_description=no&state=thestate&iss=https://as.example",
		"error=x&code=a&state=thestate", "state=thestate", "code=a;state=thestate", "%", "",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, query string, sendsIssuer bool) {
		code, err := oauth.ReadCallback(&url.URL{RawQuery: query}, state, issuer, sendsIssuer)
		q, _ := url.ParseQuery(query)
		if err != nil {
			if code != "" {
				t.Error("a code beside an error")
			}
			if !errors.Is(err, oauth.ErrCallback) && (q.Get("state") != state ||
				q.Has("iss") && q.Get("iss") != issuer) {
				t.Errorf("the error of a stranger is shown: %v", err)
			}
			return
		}
		if code == "" || q.Get("code") != code || q.Get("state") != state || q.Has("error") ||
			q.Has("iss") && q.Get("iss") != issuer || sendsIssuer && !q.Has("iss") {
			t.Errorf("accepted %q", query)
		}
	})
}
