package bearer_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/bearer"
)

// This issuer has its scopes in a non-standard claim.
func ExampleIssuer() {
	auth0 := bearer.Issuer{
		URL: "https://tenant.eu.auth0.com/", // with the slash that its tokens have
		ScopesOf: func(t *bearer.Token) ([]string, error) {
			var permissions []string
			_, err := t.Claim("permissions", &permissions)
			return append(permissions, t.Scopes...), err
		},
	}
	guard, err := bearer.New(bearer.Options{Resource: "https://mcp.example.com/mcp",
		Issuers: []bearer.Issuer{auth0}})
	if err != nil {
		log.Fatal(err)
	}
	path, _ := guard.Metadata()
	fmt.Println(path)
	// Output: /.well-known/oauth-protected-resource/mcp
}

// These are the credentials of this server's OAuth application at GitHub.
const clientID, clientSecret = "Iv1.8a61f9b3a7aba766", "from a file or the environment"

// verifyGitHub checks a token at GitHub (https://docs.github.com/rest/apps/oauth-applications,
// "Check a token"). GET /user would accept tokens of other applications.
func verifyGitHub(ctx context.Context, token string) (*bearer.Token, error) {
	r, err := http.NewRequestWithContext(ctx, "POST",
		"https://api.github.com/applications/"+clientID+"/token",
		strings.NewReader(fmt.Sprintf(`{"access_token":%q}`, token)))
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(clientID, clientSecret)
	var said struct {
		App struct {
			ClientID string `json:"client_id"`
		}
		User    struct{ ID json.Number }
		Scopes  []string
		Expires time.Time `json:"expires_at"`
	}
	if err := askProvider(r, http.StatusNotFound, &said); err != nil {
		return nil, err
	}
	return &bearer.Token{Subject: said.User.ID.String(), ClientID: said.App.ClientID,
		Scopes: said.Scopes, Expiry: said.Expires}, nil
}

// verifyGoogle asks Google about a token. The response has sub if openid was granted.
func verifyGoogle(ctx context.Context, token string) (*bearer.Token, error) {
	r, err := http.NewRequestWithContext(ctx, "POST",
		"https://oauth2.googleapis.com/tokeninfo", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	var said struct {
		Sub, Aud, Azp, Scope string
		Exp                  int64 `json:",string"`
	}
	if err := askProvider(r, http.StatusBadRequest, &said); err != nil {
		return nil, err
	}
	return &bearer.Token{Subject: said.Sub, ClientID: said.Azp, Audience: []string{said.Aud},
		Scopes: strings.Fields(said.Scope), Expiry: time.Unix(said.Exp, 0)}, nil
}

// askProvider decodes a response into v. inactive is the status that means an invalid token.
func askProvider(r *http.Request, inactive int, v any) error {
	response, err := providers.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(v)
	case inactive:
		return bearer.ErrInactive
	}
	return fmt.Errorf("%s: %s", r.URL.Host, response.Status)
}

var providers = &http.Client{Transport: providerFunc(func(r *http.Request) (int, string) {
	body, err := io.ReadAll(r.Body)
	if r.URL.Host == "oauth2.googleapis.com" {
		return answerGoogle(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}
	id, secret, _ := r.BasicAuth()
	if err != nil || id != clientID || secret != clientSecret {
		return 401, `{"message":"Bad credentials"}`
	}
	switch string(body) {
	case `{"access_token":"gho_ann"}`:
		return 200, `{"id":1,"url":"x","app":{"client_id":"` + clientID + `","name":"mcp"},` +
			`"token":"","scopes":["repo"],"expires_at":null,"user":{"login":"ann","id":583231}}`
	case `{"access_token":"gho_nobody"}`:
		return 200, `{"app":{"client_id":"` + clientID + `"},"scopes":["repo"],"user":null}`
	}
	return 404, `{"message":"Not Found"}` // another application's token gets this, too
})}

func answerGoogle(token string) (int, string) {
	of := `{"azp":"%[1]s","aud":"%[1]s","sub":"1171","scope":"openid drive","exp":"%[2]d"}`
	switch token {
	case "ya29.ann":
		return 200, fmt.Sprintf(of, "mcp.apps.googleusercontent.com", time.Now().Unix()+3600)
	case "ya29.foreign":
		return 200, fmt.Sprintf(of, "evil.apps.googleusercontent.com", time.Now().Unix()+3600)
	case "ya29.down":
		return 503, ``
	}
	return 400, `{"error":"invalid_token"}`
}

type providerFunc func(r *http.Request) (int, string)

func (f providerFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	status, body := f(r)
	w.WriteHeader(status)
	_, err := w.WriteString(body)
	return w.Result(), err
}

// This provider has opaque tokens and no introspection endpoint (RFC 7662).
func ExampleErrInactive() {
	gitHub := bearer.Issuer{
		URL:       "https://github.com/login/oauth",
		Verify:    verifyGitHub,
		Audiences: []string{clientID},
	}
	google := bearer.Issuer{
		URL:       "https://accounts.google.com",
		Verify:    verifyGoogle,
		Audiences: []string{"mcp.apps.googleusercontent.com"},
	}
	for _, issuer := range []bearer.Issuer{gitHub, google} {
		guard, err := bearer.New(bearer.Options{
			Resource: "https://mcp.example.com/mcp", Issuers: []bearer.Issuer{issuer}})
		if err != nil {
			log.Fatal(err)
		}
		for _, token := range []string{"gho_ann", "ya29.ann"} {
			r := httptest.NewRequest("POST", "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			id, err := guard.Identify(r)
			fmt.Println(id.Principal, err)
		}
	}
	// Output:
	// https://github.com/login/oauth 583231 <nil>
	// anonymous bearer: token refused: inactive
	// anonymous bearer: token refused: inactive
	// https://accounts.google.com 1171 <nil>
}

func TestProvidersWithOpaqueTokens(t *testing.T) {
	f := newFakeIssuer(t)
	of := func(audience string,
		verify func(context.Context, string) (*bearer.Token, error)) *bearer.ResourceServer {
		return newResourceServer(t, f, withIssuer(func(i *bearer.Issuer) {
			i.Verify, i.Audiences = verify, []string{audience}
		}))
	}
	google := of("mcp.apps.googleusercontent.com", verifyGoogle)
	wantRefused(t, google, "ya29.foreign", "audience: the token must be for", "aud is", "evil.apps")
	wantRefused(t, google, "made-up", "inactive")
	wantUnavailable(t, send(t, google, "ya29.down"), "5")
	wantPassed(t, send(t, google, "ya29.ann"), "1171 of "+issuerURL+
		", client mcp.apps.googleusercontent.com, scopes openid drive")
	gitHub := of(clientID, verifyGitHub)
	wantPassed(t, send(t, gitHub, "gho_ann"), "583231 of "+issuerURL+", client "+clientID+
		", scopes repo")
	wantRefused(t, of("another application", verifyGitHub), "gho_ann",
		"audience: the token must be for", "aud is")
	// A JSON Web Token of another issuer is refused without a look-up.
	wantRefused(t, gitHub, f.token(map[string]any{"iss": "https://x.example.com"}), "issuer")
}

func TestAVerifierOfTheHost(t *testing.T) {
	good := bearer.Token{Subject: "alice", ClientID: "app", Audience: []string{resource},
		Scopes: []string{"files:read"}}
	returning := func(change func(t *bearer.Token)) func() (*bearer.Token, error) {
		return func() (*bearer.Token, error) {
			changed := good
			change(&changed)
			return &changed, nil
		}
	}
	for name, of := range map[string]struct {
		verify func() (*bearer.Token, error)
		status int
	}{
		"good":           {returning(func(*bearer.Token) {}), 200},
		"issuer":         {returning(func(t *bearer.Token) { t.Issuer = issuerURL }), 200},
		"foreign issuer": {returning(func(t *bearer.Token) { t.Issuer = "x" }), 401},
		"no audience":    {returning(func(t *bearer.Token) { t.Audience = nil }), 401},
		"for nobody": {returning(func(t *bearer.Token) {
			t.Audience, t.ClientID = nil, ""
		}), 401},
		"for another": {returning(func(t *bearer.Token) { t.Audience = []string{"x"} }), 401},
		"nobody": {returning(func(t *bearer.Token) {
			t.Subject, t.ClientID = "", ""
		}), 401},
		"expired": {returning(func(t *bearer.Token) {
			t.Expiry = time.Now().Add(-time.Hour)
		}), 401},
		"inactive": {func() (*bearer.Token, error) {
			return &good, fmt.Errorf("wrapped: %w", bearer.ErrInactive)
		}, 401},
		"error":   {func() (*bearer.Token, error) { return &good, errors.ErrUnsupported }, 503},
		"nothing": {func() (*bearer.Token, error) { return nil, nil }, 503},
		"panic":   {func() (*bearer.Token, error) { panic("oops") }, 503},
	} {
		t.Run(name, func(t *testing.T) {
			g := newResourceServer(t, newFakeIssuer(t), withIssuer(func(i *bearer.Issuer) {
				i.Verify = func(context.Context, string) (*bearer.Token, error) {
					return of.verify()
				}
			}))
			wantEqual(t, "status", send(t, g, "opaque").StatusCode, of.status)
		})
	}
	wantNoServer(t, withIssuer(func(i *bearer.Issuer) {
		i.Verify, i.KeysURL = verifyGoogle, "https://login.example.com/keys"
	}))
	wantNoServer(t, func(o *bearer.Options) {
		o.Issuers[0].Verify = verifyGoogle
		o.Issuers = append(o.Issuers, bearer.Issuer{URL: "https://x.test", Verify: verifyGitHub})
	})
	wantNoServer(t, withIssuer(func(i *bearer.Issuer) {
		i.Verify = verifyGoogle
		i.NoAudience = &bearer.NoAudience{Clients: []string{"app"}, Scope: "files:read"}
	}))
}

// A lookUp is a host that looks tokens up. It counts the calls by the token's first letter.
type lookUp struct {
	*guarded
	mu    sync.Mutex
	calls map[byte]int
	hold  chan struct{} // if not nil, calls for tokens in b wait until it is closed
	takes time.Duration // duration of a call
}

// newLookUp returns a host that accepts tokens in g, attributes tokens in f to another client,
// fails for tokens in d, does not answer for tokens in b, and knows no others.
func newLookUp(t testing.TB, changes ...func(o *bearer.Options)) *lookUp {
	l := &lookUp{calls: map[byte]int{}, hold: make(chan struct{})}
	l.guarded = newGuarded(t, append(changes, withIssuer(func(i *bearer.Issuer) {
		i.Verify = func(_ context.Context, token string) (*bearer.Token, error) {
			l.mu.Lock()
			l.calls[token[0]]++
			l.mu.Unlock()
			time.Sleep(l.takes)
			switch token[0] {
			case 'g':
				return &bearer.Token{Subject: "alice", ClientID: "app",
					Audience: []string{resource}, Scopes: []string{"files:read"}}, nil
			case 'f':
				return &bearer.Token{Subject: "bob", Audience: []string{"x"}}, nil
			case 'd':
				return nil, errors.ErrUnsupported
			case 'b':
				<-l.hold
			}
			return nil, bearer.ErrInactive
		}
	}))...)
	return l
}

// wantCalls checks the number of look-ups, and resets it.
func (l *lookUp) wantCalls(want int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	got := 0
	for _, n := range l.calls {
		got += n
	}
	if clear(l.calls); got != want {
		l.t.Errorf("%d tokens were looked up, want %d", got, want)
	}
}

// Look-ups of the host are cached for 30 s, refusals for 5 s. At most 64 calls are in flight.
func TestLookUpsOfTheHostAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookUp(t)
		for _, step := range []struct {
			script string
			calls  int
		}{{"g", 1}, {"i:inactive", 1}, {"f:" + audience[:8], 1},
			{"sleep=4s g i:inactive", 0}, {"sleep=2s g", 0}, {"i:inactive", 1},
			{"sleep=25s g", 1}, {"i:inactive", 1}} {
			l.run(step.script)
			l.wantCalls(step.calls)
		}
		for n := range 70 {
			l.run(fmt.Sprintf("b%d:503=5", n))
		}
		l.wantCalls(64)
		close(l.hold)
		synctest.Wait()

		l = newLookUp(t, func(o *bearer.Options) {
			o.Subject = func(*bearer.Token) (protocol.Principal, error) {
				return protocol.Principal{}, errors.New("not of our company")
			}
		})
		for range 3 {
			wantRefused(t, l, "g", "subject", "not of our company")
		}
		l.wantCalls(1)
	})
}

// One address with made-up tokens neither uses the budget up nor locks out known tokens.
func TestLookUpsThatFailHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookUp(t, func(o *bearer.Options) {
			o.Issuers = append(o.Issuers, bearer.Issuer{URL: "https://other.example.com",
				KeysURL: keysURL})
		})
		from := func(address, token string) *http.Response {
			return sendAs(t.Context(), l, token, address)
		}
		flood := func(want int, address string) {
			t.Helper()
			for n := range 100 {
				from(address, "xfd"[n%3:][:1]+rand.Text())
			}
			l.wantCalls(want)
		}
		from("192.0.2.1:1", "good")
		l.wantCalls(1)
		flood(15, "192.0.2.1:1") // a quarter of 60
		flood(15, "[2001:db8::1]:1")
		flood(0, "[2001:db8::2]:1") // an address of the same network
		flood(30, "10.0.0.1:1")     // perhaps a proxy, which may use the whole budget
		time.Sleep(500 * time.Millisecond)
		wantUnavailable(t, from("203.0.113.1:1", "good2"), "1")
		time.Sleep(500 * time.Millisecond)
		flood(1, "10.0.0.1:1")
		wantPassed(t, from("192.0.2.1:1", l.token(map[string]any{
			"iss": "https://other.example.com"})),
			strings.Replace(alice, issuerURL, "https://other.example.com", 1))
		time.Sleep(30*time.Second + time.Millisecond)
		flood(30, "10.0.0.1:1")
		wantPassed(t, from("192.0.2.1:1", "good"), alice) // the token was accepted recently
		l.wantCalls(1)
		time.Sleep(2 * time.Minute)
		flood(60, "10.0.0.1:1")
	})
	wantNoServer(t, withIssuer(func(i *bearer.Issuer) { i.MaxFailedLookUps = -1 }))
}

// Without a cache, the server still remembers which tokens were accepted.
func TestAcceptedTokensAreNotKeptOutWithoutACache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookUp(t, uncached, withIssuer(func(i *bearer.Issuer) { i.MaxFailedLookUps = 4 }))
		for _, step := range []struct {
			token string
			want  int
		}{{"g", 200}, {"made-up", 401} /* a quarter of four */, {"made-up", 503}, {"g", 200}} {
			if status := send(t, l, step.token).StatusCode; status != step.want {
				t.Errorf("%s: status %d, want %d", step.token, status, step.want)
			}
		}
		l.wantCalls(3) // one look-up for each accepted token
	})
}

// Look-ups in flight count, and an address gets its share of the budget. Accepted tokens are free.
func TestLookUpsInFlightCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookUp(t)
		l.takes = time.Second / 10
		for n := range 40 {
			wantPassed(t, sendAs(t.Context(), l, fmt.Sprint("good", n), "192.0.2.1:1"), alice)
		}
		l.wantCalls(40)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() { sendAs(t.Context(), l, fmt.Sprint("made-up", n), "192.0.2.1:1") })
		}
		all.Wait()
		l.wantCalls(15) // a quarter of 60
		wantPassed(t, sendAs(t.Context(), l, "good", "203.0.113.1:1"), alice)
	})
}

func TestEntraID(t *testing.T) {
	const id = "11112222-bbbb-3333-cccc-4444dddd5555"
	f := newFakeIssuer(t)
	entra := func(tenant string) map[string]any {
		return map[string]any{"iss": "https://login.microsoftonline.com/" + tenant + "/v2.0",
			"tid": tenant, "aud": id, "client_id": nil, "azp": "app", "azpacr": "0",
			"scope": nil, "scp": "notes.read", "ver": "2.0"}
	}
	with := func(changes map[string]any, more ...any) string {
		for n := 0; n < len(more); n += 2 {
			changes[more[n].(string)] = more[n+1]
		}
		return sign(t, jose.ES256, f.signer, "JWT", claimsOf(changes))
	}
	of := func(issuer bearer.Issuer) *bearer.ResourceServer {
		issuer.KeysURL = keysURL
		return newResourceServer(t, f, withIssuer(func(i *bearer.Issuer) { *i = issuer }))
	}
	one, all := of(bearer.EntraID(tenantA, id)), of(bearer.EntraIDAnyTenant(id))
	says := func(tenant, scopes string) string {
		return "alice of https://login.microsoftonline.com/" + tenant +
			"/v2.0, client app, scopes " + scopes
	}
	const read = "api://" + id + "/notes.read"
	wantPassed(t, send(t, one, with(entra(tenantA)), read), says(tenantA, read))
	wantPassed(t, send(t, all, with(entra(tenantB)), read), says(tenantB, read))
	wantPassed(t, send(t, one, with(entra(tenantA), "scp", nil, "roles", []string{"notes.read"})),
		says(tenantA, read)) // a program's token
	wantPassed(t, send(t, one, with(entra(tenantA), "roles", []string{"notes.admin"})),
		says(tenantA, read)) // has a user's role
	wantRefused(t, one, with(entra(tenantB)), "issuer")
	wantRefused(t, one, with(entra(tenantA), "aud", "00000003-0000-0000-c000-000000000000"),
		"audience")
	wantRefused(t, one, with(entra(tenantA), "scp", nil, "azpacr", nil, "azp", nil,
		"roles", []string{"notes.read"}), "Unmarked") // may be an ID token
	wantRefused(t, one, with(entra(tenantA), "scp", nil, "roles", "notes.read"), "ScopesOf")
	wantEqual(t, "the metadata names", readIssuers(t, all),
		"https://login.microsoftonline.com/organizations/v2.0")
	for _, tenant := range []string{"", "common", "organizations", "consumers", "*",
		"{tenantid}", "contoso.onmicrosoft.com", strings.ToUpper(tenantA)} {
		wantNoServer(t, withIssuer(func(i *bearer.Issuer) { *i = bearer.EntraID(tenant, id) }))
	}
	wantNoServer(t, withIssuer(func(i *bearer.Issuer) { *i = bearer.EntraID(tenantA, "") }))
	wantNoServer(t, withIssuer(func(i *bearer.Issuer) { *i = bearer.EntraIDAnyTenant("") }))
}

// This server is registered with Entra ID. Its tools name scopes in the form that clients request.
func ExampleEntraID() {
	const clientID = "11112222-bbbb-3333-cccc-4444dddd5555"
	guard, err := bearer.New(bearer.Options{
		Resource: "https://mcp.example.com/mcp",
		Issuers:  []bearer.Issuer{bearer.EntraID("8eaef023-2b34-4da1-9baa-8bc8c9d6a490", clientID)},
		Scopes:   []string{"api://" + clientID + "/notes.read"},
	})
	if err != nil {
		log.Fatal(err)
	}
	path, _ := guard.Metadata()
	fmt.Println(path)
	// Output: /.well-known/oauth-protected-resource/mcp
}
