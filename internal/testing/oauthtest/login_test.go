package oauthtest_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// A party is a client that does by hand what the RFCs say.
type party struct {
	t        *testing.T
	as       *oauthtest.Server
	http     http.Client
	id       string
	secret   string
	method   string
	redirect string
	resource string
}

type answer struct {
	status  int
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Scope   string
	Error   string
	ID      string `json:"client_id"`
	Secret  string `json:"client_secret"`
	Method  string `json:"token_endpoint_auth_method"`
	Active  bool
	Keys    json.RawMessage
	Issuer  string
}

func newParty(t *testing.T, as *oauthtest.Server) *party {
	t.Helper()
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &party{t: t, as: as, redirect: "http://127.0.0.1:7/callback", method: "none",
		resource: "https://api.example/mcp", http: http.Client{Transport: transport}}
}

func (p *party) send(method, path, contentType string, body []byte) (a answer) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.as.URL+path,
		bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if p.method == "client_secret_basic" {
		request.SetBasicAuth(url.QueryEscape(p.id), url.QueryEscape(p.secret))
	}
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	a.status = response.StatusCode
	if len(raw) > 0 && json.Unmarshal(raw, &a) != nil {
		p.t.Logf("%s %s: not JSON: %.80s", method, path, raw)
	}
	return a
}

func (p *party) register(edit func(map[string]any)) answer {
	p.t.Helper()
	asked := map[string]any{"client_name": "test", "redirect_uris": []string{p.redirect},
		"grant_types":                []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_method": p.method, "application_type": "native"}
	if edit != nil {
		edit(asked)
	}
	body, err := json.Marshal(asked)
	if err != nil {
		p.t.Fatal(err)
	}
	p.method, p.id = "none", ""
	a := p.send(http.MethodPost, "/register", "application/json", body)
	p.id, p.secret, p.method = a.ID, a.Secret, a.Method
	return a
}

// authorize returns the callback and the verifier.
func (p *party) authorize(scope string, edit func(url.Values)) (url.Values, string, error) {
	p.t.Helper()
	verifier := rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {p.id},
		"redirect_uri": {p.redirect}, "code_challenge_method": {"S256"}, "state": {"the state"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
		"resource":       {p.resource}}
	if scope != "" {
		query.Set("scope", scope)
	}
	if edit != nil {
		edit(query)
	}
	browser := oauthtest.NewBrowser(p.t)
	browser.Client = &p.http
	callback, err := browser.Visit(p.t.Context(), p.as.URL+"/authorize?"+query.Encode())
	if err != nil {
		return nil, "", err
	}
	return callback.Query(), verifier, nil
}

func (p *party) token(form url.Values) answer {
	p.t.Helper()
	switch p.method {
	case "none":
		form.Set("client_id", p.id)
	case "client_secret_post":
		form.Set("client_id", p.id)
		form.Set("client_secret", p.secret)
	}
	return p.send(http.MethodPost, "/token", "application/x-www-form-urlencoded",
		[]byte(form.Encode()))
}

func (p *party) redeem(code, verifier string) answer {
	p.t.Helper()
	return p.token(url.Values{"grant_type": {"authorization_code"}, "code": {code},
		"code_verifier": {verifier}, "redirect_uri": {p.redirect}, "resource": {p.resource}})
}

func (p *party) refresh(token string) answer {
	p.t.Helper()
	return p.token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token},
		"resource": {p.resource}})
}

// login logs in and fails the test if it cannot.
func (p *party) login(scope string) answer {
	p.t.Helper()
	if p.id == "" {
		if a := p.register(nil); a.status != http.StatusCreated {
			p.t.Fatalf("registration: status %d %s", a.status, a.Error)
		}
	}
	callback, verifier, err := p.authorize(scope, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if got := callback.Get("iss"); got != p.as.URL {
		p.t.Errorf("iss %q, want %q", got, p.as.URL)
	}
	a := p.redeem(callback.Get("code"), verifier)
	if a.status != http.StatusOK || a.Access == "" {
		p.t.Fatalf("token: status %d, error %q", a.status, a.Error)
	}
	return a
}

func TestLoginWithEachAuthenticationMethod(t *testing.T) {
	for _, method := range []string{"none", "client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			as := oauthtest.NewServer(t, &oauthtest.Options{Path: "/tenant1",
				AuthMethods: []string{method}})
			p := newParty(t, as)
			a := p.login("read write")
			if p.method != method {
				t.Errorf("registered with %s", p.method)
			}
			grant, ok := as.Check(a.Access)
			if !ok || grant.Subject != "alice" || grant.Resource != p.resource ||
				strings.Join(grant.Scopes, " ") != "read write" || a.Scope != "read write" {
				t.Errorf("grant %+v %v, scope %q", grant, ok, a.Scope)
			}
			other := *p
			other.method = "client_secret_post"
			if method == other.method {
				other.method = "client_secret_basic"
			}
			if a := other.refresh(a.Refresh); a.Error != "invalid_client" {
				t.Errorf("with %s: status %d %s", other.method, a.status, a.Error)
			}
		})
	}
}

func TestTokensAreJWTsOfThePublishedKey(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as)
	first := p.login("read").Access
	as.RotateKeys()
	second := p.login("read").Access
	check := func(token string, want bool) {
		t.Helper()
		a := p.send(http.MethodGet, "/jwks", "", nil)
		var set jose.JSONWebKeySet
		if err := json.Unmarshal([]byte(`{"keys":`+string(a.Keys)+`}`), &set); err != nil {
			t.Fatal(err)
		}
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		var claims jwt.Claims
		err = parsed.Claims(&set, &claims)
		if (err == nil) != want {
			t.Errorf("verified: %v, want %v", err, want)
		}
		if err == nil && (claims.Issuer != as.URL || claims.Subject != "alice" ||
			!claims.Audience.Contains(p.resource) || claims.Expiry == nil ||
			parsed.Headers[0].ExtraHeaders["typ"] != "at+jwt") {
			t.Errorf("claims %+v, headers %+v", claims, parsed.Headers)
		}
	}
	check(first, true)
	check(second, true)
	as.RetireKeys()
	check(first, false)
	check(second, true)
}

func TestRefreshRotatesAndReuseRevokesTheFamily(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as)
	first := p.login("read")
	second := p.refresh(first.Refresh)
	if second.status != http.StatusOK || second.Refresh == first.Refresh || as.Families() != 1 {
		t.Fatalf("status %d, %d families", second.status, as.Families())
	}
	if a := p.refresh(first.Refresh); a.Error != "invalid_grant" {
		t.Errorf("reuse: status %d %s", a.status, a.Error)
	}
	if a := p.refresh(second.Refresh); a.Error != "invalid_grant" || as.Families() != 0 {
		t.Errorf("after reuse: status %d %s, %d families", a.status, a.Error, as.Families())
	}
	if _, ok := as.Check(second.Access); ok {
		t.Error("the access token of the family is still valid")
	}
	if n, m := as.Count(oauthtest.Token), as.Count(oauthtest.Refresh); n != 1 || m != 3 {
		t.Errorf("%d token requests and %d refreshes", n, m)
	}
}

func TestAnswerThatIsLostHasRotated(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as)
	first := p.login("read")
	as.Reply(oauthtest.Refresh, oauthtest.Reply{Lost: true})
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first.Refresh},
		"resource": {p.resource}, "client_id": {p.id}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, as.URL+"/token",
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if response, err := p.http.Do(request); err == nil {
		response.Body.Close()
		t.Fatalf("status %d, want no answer", response.StatusCode)
	}
	if a := p.refresh(first.Refresh); a.Error != "invalid_grant" {
		t.Errorf("status %d %s, want invalid_grant: the token was used", a.status, a.Error)
	}
}

func TestStrictRequests(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as)
	p.login("read")
	set := func(name, value string) func(url.Values) {
		return func(q url.Values) { q.Set(name, value) }
	}
	drop := func(name string) func(url.Values) { return func(q url.Values) { q.Del(name) } }
	for _, test := range []struct {
		name string
		edit func(url.Values)
		want string // empty: the browser ends at a page
	}{
		{"plain", set("code_challenge_method", "plain"), "invalid_request"},
		{"no challenge", drop("code_challenge"), "invalid_request"},
		{"no resource", drop("resource"), "invalid_target"},
		{"resource with a fragment", set("resource", p.resource+"#a"), "invalid_target"},
		{"empty scope", set("scope", ""), "invalid_scope"},
		{"implicit", set("response_type", "token"), "unsupported_response_type"},
		{"other port", set("redirect_uri", "http://127.0.0.1:8/callback"), "none"},
		{"other path", set("redirect_uri", "http://127.0.0.1:7/other"), ""},
		{"other host", set("redirect_uri", "https://attacker.example/callback"), ""},
		{"unknown client", set("client_id", "nobody"), ""},
		{"twice", func(q url.Values) { q.Add("state", "b") }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			callback, _, err := p.authorize("read", test.edit)
			if (err != nil) != (test.want == "") {
				t.Fatalf("got %v", err)
			}
			if got := callback.Get("error"); err == nil && got != test.want && test.want != "none" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for _, test := range []struct {
		name string
		edit func(url.Values)
		want string
	}{
		{"verifier", set("code_verifier", strings.Repeat("a", 43)), "invalid_grant"},
		{"no verifier", drop("code_verifier"), "invalid_grant"},
		{"redirect", set("redirect_uri", "http://127.0.0.1:9/callback"), "invalid_grant"},
		{"resource", drop("resource"), "invalid_target"},
		{"code", set("code", "another"), "invalid_grant"},
		{"twice", func(q url.Values) { q.Add("code", "b") }, "invalid_request"},
		{"right", func(url.Values) {}, ""},
	} {
		t.Run("token/"+test.name, func(t *testing.T) {
			callback, verifier, err := p.authorize("read", nil)
			if err != nil {
				t.Fatal(err)
			}
			form := url.Values{"grant_type": {"authorization_code"}, "resource": {p.resource},
				"code": {callback.Get("code")}, "code_verifier": {verifier},
				"redirect_uri": {p.redirect}}
			test.edit(form)
			if a := p.token(form); a.Error != test.want {
				t.Errorf("status %d %q, want %q", a.status, a.Error, test.want)
			}
		})
	}
}

func TestRegistrationOfLoopbackRedirectNeedsNativeType(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	for _, test := range []struct {
		kind string
		want int
	}{{"native", 201}, {"web", 400}, {"", 400}} {
		t.Run(cmp.Or(test.kind, "none"), func(t *testing.T) {
			p := newParty(t, as)
			a := p.register(func(asked map[string]any) { asked["application_type"] = test.kind })
			if a.status != test.want {
				t.Errorf("type %q: status %d, want %d", test.kind, a.status, test.want)
			}
		})
	}
}

func TestSecretsListsEverything(t *testing.T) {
	as := oauthtest.NewServer(t, &oauthtest.Options{AuthMethods: []string{"client_secret_basic"}})
	p := newParty(t, as)
	a := p.login("read")
	code := as.Requests(oauthtest.Token)[0].Form
	list := strings.Join(as.Secrets(), "\n")
	for _, secret := range []string{p.secret, a.Access, a.Refresh, code.Get("code"),
		code.Get("code_verifier")} {
		if secret == "" || !strings.Contains(list, secret) {
			t.Errorf("%q is not listed", secret)
		}
	}
}
