package oauthtest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	redirect = "http://127.0.0.1:7/callback"
	resource = "https://api.test/mcp"
)

// A party is a client that follows the RFCs by hand.
type party struct {
	t          *testing.T
	issuer, id string
	verifier   string
	browser    *oauthtest.Browser
}

func newParty(t *testing.T, issuer string) *party {
	t.Helper()
	p := &party{t: t, issuer: issuer, verifier: strings.Repeat("v", 43),
		browser: oauthtest.NewBrowser(t)}
	response, err := http.Post(issuer+"/register", "application/json", strings.NewReader(
		`{"redirect_uris":["`+redirect+`"],"token_endpoint_auth_method":"none",`+
			`"grant_types":["authorization_code","refresh_token"],"application_type":"native"}`))
	testkit.NoError(t, err)
	defer response.Body.Close()
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(response.Body).Decode(&client); err != nil || client.ID == "" {
		t.Fatalf("registration: %s %v", response.Status, err)
	}
	p.id = client.ID
	return p
}

// authorize returns the callback's parameters, or nil if the browser ends at a page.
func (p *party) authorize(edit func(url.Values)) url.Values {
	p.t.Helper()
	sum := sha256.Sum256([]byte(p.verifier))
	q := url.Values{"response_type": {"code"}, "client_id": {p.id}, "scope": {"read"},
		"redirect_uri": {redirect}, "state": {"s"}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "resource": {resource}}
	edit(q)
	callback, err := p.browser.Visit(p.t.Context(), p.issuer+"/authorize?"+q.Encode())
	if err != nil {
		return nil
	}
	return callback.Query()
}

func (p *party) code() url.Values {
	p.t.Helper()
	q := p.authorize(func(url.Values) {})
	if q.Get("iss") != p.issuer || q.Get("state") != "s" {
		p.t.Fatal(q)
	}
	return url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")},
		"code_verifier": {p.verifier}, "redirect_uri": {redirect}, "client_id": {p.id},
		"resource": {resource}}
}

func (p *party) wantToken(form url.Values, want int) {
	p.t.Helper()
	response, err := http.PostForm(p.issuer+"/token", form)
	if err != nil {
		p.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != want {
		p.t.Errorf("status %d, want %d for %q", response.StatusCode, want, form)
	}
}

func set(name, value string) func(url.Values) {
	return func(q url.Values) { q.Set(name, value) }
}

// Both test servers are as strict as real ones.
func TestLoginsAreRefused(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	for issuer, strict := range map[string]bool{as.URL: true, bearertest.Start(t).URL(): false} {
		p := newParty(t, issuer)
		mistakes := []func(url.Values){set("client_id", "another"),
			set("redirect_uri", "https://attacker.test/"), set("code_challenge_method", "plain")}
		if strict {
			mistakes = append(mistakes, set("code_challenge", ""), set("resource", ""),
				set("resource", resource+"#a"), set("scope", ""), set("response_type", "token"),
				set("redirect_uri", redirect+"/other"),
				func(q url.Values) { q.Add("state", "b") })
		}
		for _, edit := range mistakes {
			if q := p.authorize(edit); q.Has("code") {
				t.Errorf("a code for a request with a mistake: %q", q)
			}
		}
		mistakes = []func(url.Values){set("code", "another"), set("redirect_uri", redirect+"/"),
			set("code_verifier", strings.Repeat("a", 43)), set("grant_type", "password"),
			set("resource", "https://other.test/mcp"), set("code_verifier", "")}
		if strict {
			mistakes = append(mistakes, func(q url.Values) { q.Add("code", "b") })
		}
		for _, edit := range mistakes {
			form := p.code()
			edit(form)
			p.wantToken(form, http.StatusBadRequest)
		}
		once := p.code()
		p.wantToken(once, http.StatusOK)
		p.wantToken(once, http.StatusBadRequest)
	}
}

// If a refresh token is used twice, it was stolen, so all tokens are revoked.
func TestReuseRevokesAllTokens(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as.URL)
	p.wantToken(p.code(), http.StatusOK)
	all := as.Secrets()
	access, refresh := all[len(all)-2], url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {all[len(all)-1]}, "client_id": {p.id}, "resource": {resource}}
	if grant, ok := as.Check(access); !ok || grant.Subject != "alice" ||
		grant.Resource != resource || strings.Join(grant.Scopes, " ") != "read" {
		t.Errorf("got %+v, %v", grant, ok)
	}
	p.wantToken(refresh, http.StatusOK)
	p.wantToken(refresh, http.StatusBadRequest)
	if _, ok := as.Check(access); ok {
		t.Error("the access token is still valid after a reuse")
	}
}
