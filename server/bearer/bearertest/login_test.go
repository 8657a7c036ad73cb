package bearertest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
)

// TestLoginsAreRefused: what a real authorization server would refuse. A client that makes the
// mistake could not log in there.
func TestLoginsAreRefused(t *testing.T) {
	const issuer, redirect = "http://issuer.test", "http://127.0.0.1:1/callback"
	pages := bearertest.NewIssuer(issuer).Handler("ann")
	ask := func(method, path, contentType, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, issuer+path,
			strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, r)
		return w
	}
	var client struct {
		ID string `json:"client_id"`
	}
	registered := ask(http.MethodPost, "/register", "application/json",
		`{"redirect_uris":["`+redirect+`"]}`)
	if err := json.Unmarshal(registered.Body.Bytes(), &client); err != nil || client.ID == "" {
		t.Fatalf("registration: %v %s", err, registered.Body)
	}
	// The verifier and its challenge are those of RFC 7636, appendix B.
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	authorize := func(edit func(url.Values)) *httptest.ResponseRecorder {
		q := url.Values{"client_id": {client.ID}, "redirect_uri": {redirect},
			"code_challenge": {challenge}, "code_challenge_method": {"S256"},
			"resource": {"https://api.test/mcp"}, "scope": {"read"}, "state": {"s"}}
		edit(q)
		return ask(http.MethodGet, "/authorize?"+q.Encode(), "", "")
	}
	code := func() string {
		t.Helper()
		back, err := authorize(func(url.Values) {}).Result().Location()
		if err != nil {
			t.Fatal(err)
		}
		if q := back.Query(); q.Get("state") != "s" || q.Get("iss") != issuer {
			t.Errorf("redirect to %s", back)
		}
		return back.Query().Get("code")
	}
	token := func(code string, edit func(url.Values)) int {
		form := url.Values{"grant_type": {"authorization_code"}, "code": {code},
			"code_verifier": {verifier}, "redirect_uri": {redirect}, "client_id": {client.ID},
			"resource": {"https://api.test/mcp"}}
		edit(form)
		return ask(http.MethodPost, "/token", "application/x-www-form-urlencoded",
			form.Encode()).Code
	}
	set := func(name, value string) func(url.Values) {
		return func(q url.Values) { q.Set(name, value) }
	}
	for _, wrong := range []func(url.Values){set("client_id", "another"),
		set("redirect_uri", "https://attacker.test/"), set("code_challenge_method", "plain")} {
		if w := authorize(wrong); w.Code != http.StatusBadRequest {
			t.Errorf("authorization: status %d, want 400", w.Code)
		}
	}
	for name, value := range map[string]string{"code": "another", "code_verifier": challenge,
		"redirect_uri": "http://127.0.0.1:2/callback", "client_id": "another",
		"resource": "https://other.test/mcp", "grant_type": "password"} {
		if status := token(code(), set(name, value)); status != http.StatusBadRequest {
			t.Errorf("token with another %s: status %d, want 400", name, status)
		}
	}
	once := code()
	for _, want := range []int{http.StatusOK, http.StatusBadRequest} {
		if status := token(once, func(url.Values) {}); status != want {
			t.Errorf("token: status %d, want %d", status, want)
		}
	}
	if status := token("", set("code_verifier", "")); status != http.StatusBadRequest {
		t.Errorf("token without anything: status %d, want 400", status)
	}
}
