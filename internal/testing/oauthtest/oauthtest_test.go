package oauthtest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestStrictRequests: a client with a mistake cannot log in, and a code or a refresh token that is
// used twice ends all logins.
func TestStrictRequests(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	resource := oauthtest.NewResource(t, &oauthtest.ResourceOptions{
		Servers: []*oauthtest.Server{as}, Scopes: []string{"read"}})
	browser := oauthtest.NewBrowser(t)
	as.AddClient(oauthtest.Client{ID: "c", RedirectURIs: []string{"http://127.0.0.1/callback"}})
	verifier := strings.Repeat("v", 43)
	sum := sha256.Sum256([]byte(verifier))
	authorize := func(edit func(url.Values)) (url.Values, error) {
		q := url.Values{"response_type": {"code"}, "client_id": {"c"}, "scope": {"read"},
			"redirect_uri": {"http://127.0.0.1:7/callback"}, "state": {"s"},
			"code_challenge":        {base64.RawURLEncoding.EncodeToString(sum[:])},
			"code_challenge_method": {"S256"}, "resource": {resource.URL}}
		edit(q)
		callback, err := browser.Visit(t.Context(), as.URL+"/authorize?"+q.Encode())
		if err != nil {
			return nil, err
		}
		return callback.Query(), nil
	}
	token := func(form url.Values, edit func(url.Values)) int {
		form.Set("client_id", "c")
		form.Set("resource", resource.URL)
		edit(form)
		response, err := http.PostForm(as.URL+"/token", form)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	set := func(name, value string) func(url.Values) {
		return func(q url.Values) { q.Set(name, value) }
	}
	same := func(url.Values) {}
	for _, c := range []struct {
		edit func(url.Values)
		want string // empty: the browser ends at a page
	}{
		{set("code_challenge_method", "plain"), "invalid_request"},
		{set("code_challenge", ""), "invalid_request"}, {set("resource", ""), "invalid_target"},
		{set("resource", resource.URL+"#a"), "invalid_target"}, {set("scope", ""), "invalid_scope"},
		{set("response_type", "token"), "unsupported_response_type"},
		{set("redirect_uri", "http://127.0.0.1:8/callback"), "none"},
		{set("redirect_uri", "http://127.0.0.1:7/other"), ""}, {set("client_id", "nobody"), ""},
		{set("redirect_uri", "https://attacker.example/callback"), ""},
		{func(q url.Values) { q.Add("state", "b") }, ""},
	} {
		q, err := authorize(c.edit)
		if got := q.Get("error"); (err != nil) != (c.want == "") ||
			err == nil && got != c.want && c.want != "none" {
			t.Errorf("got %q, %v, want %q", got, err, c.want)
		}
	}
	code := func() url.Values {
		q, err := authorize(same)
		if err != nil || q.Get("iss") != as.URL || q.Get("state") != "s" {
			t.Fatal(q, err)
		}
		return url.Values{"grant_type": {"authorization_code"}, "code": {q.Get("code")},
			"code_verifier": {verifier}, "redirect_uri": {"http://127.0.0.1:7/callback"}}
	}
	for _, edit := range []func(url.Values){set("code_verifier", strings.Repeat("a", 43)),
		set("code_verifier", ""), set("redirect_uri", "http://127.0.0.1:9/callback"),
		set("resource", ""), set("code", "x"), set("client_secret", "x"), set("client_id", "x"),
		func(q url.Values) { q.Add("code", "b") }} {
		if status := token(code(), edit); status < 400 {
			t.Errorf("status %d for a request with a mistake", status)
		}
	}
	form := code()
	if status := token(form, same); status != http.StatusOK {
		t.Fatalf("status %d for a good request", status)
	}
	all := as.Secrets()
	access, refresh := all[len(all)-2], url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {all[len(all)-1]}}
	if grant, ok := as.Check(access); !ok || grant.Subject != "alice" ||
		grant.Resource != resource.URL || strings.Join(grant.Scopes, " ") != "read" {
		t.Errorf("got %+v, %v", grant, ok)
	}
	for _, want := range []int{http.StatusOK, http.StatusBadRequest} {
		if status := token(refresh, same); status != want {
			t.Errorf("refresh: status %d, want %d", status, want)
		}
	}
	if _, ok := as.Check(access); ok {
		t.Error("the access token is still valid after a reuse")
	}
	if _, err := browser.Visit(t.Context(), "javascript:alert(1)"); err == nil {
		t.Error("a script was opened")
	}
}
