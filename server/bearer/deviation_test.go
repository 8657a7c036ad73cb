package bearer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/server/bearer"
)

const (
	tenantA = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490"
	tenantB = "82229342-1101-4ab6-817b-70c0747630f3"
)

func withIssuer(change func(i *bearer.Issuer)) func(o *bearer.Options) {
	return func(o *bearer.Options) { change(&o.Issuers[0]) }
}

// wantRefused checks that a token is refused with 401, and that the cause contains all words.
func wantRefused(t testing.TB, g protector, token string, words ...string) {
	t.Helper()
	response := send(t, g, token)
	wantEqual(t, "status", response.StatusCode, http.StatusUnauthorized)
	_, err := identify(g, token)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want an error with %q", err, word)
		}
	}
}

func TestScopesOfAFunction(t *testing.T) {
	f := newFakeIssuer(t)
	token := f.token(map[string]any{"permissions": []string{"files:write"}})
	for name, of := range map[string]struct {
		scopesOf func(t *bearer.Token) ([]string, error)
		want     string // the scopes, or part of the error
		refused  bool
	}{
		"claim": {func(t *bearer.Token) (scopes []string, err error) {
			_, err = t.Claim("permissions", &scopes)
			return append(t.Scopes, scopes...), err
		}, "scopes files:read files:write", false},
		"none":  {func(*bearer.Token) ([]string, error) { return nil, nil }, "scopes ", false},
		"panic": {func(*bearer.Token) ([]string, error) { panic("oops") }, "panic: oops", true},
		"end of the goroutine": {func(*bearer.Token) ([]string, error) {
			runtime.Goexit()
			return []string{"files:write"}, nil
		}, "panic", true},
		"error": {func(*bearer.Token) ([]string, error) { return nil, errors.ErrUnsupported },
			"unsupported", true},
		"a space": {func(*bearer.Token) ([]string, error) { return []string{"a b"}, nil },
			"RFC 6749", true},
		"an empty one": {func(*bearer.Token) ([]string, error) { return []string{""}, nil },
			"RFC 6749", true},
		"10,000": {func(*bearer.Token) ([]string, error) {
			return strings.Fields(strings.Repeat("a ", 10_000)), nil
		}, "10000 scopes", true},
		"1,000": {func(*bearer.Token) ([]string, error) {
			return strings.Fields(strings.Repeat("a ", 1000)), nil
		}, "scopes a" + strings.Repeat(" a", 999), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newResourceServer(t, f, withIssuer(func(i *bearer.Issuer) {
				i.ScopesOf = of.scopesOf
			}))
			if of.refused {
				wantRefused(t, g, token, "scopes: Issuer.ScopesOf refused it: ", of.want)
				return
			}
			wantPassed(t, send(t, g, token),
				strings.Replace(alice, "scopes files:read", of.want, 1))
		})
	}
}

// If a host function blocks, its tokens get 503, other tokens pass, and calls do not accumulate.
func TestAFunctionThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var running atomic.Int32
		g := newGuarded(t, withIssuer(func(i *bearer.Issuer) {
			i.ScopesOf = func(t *bearer.Token) ([]string, error) {
				if t.Subject == "bob" {
					running.Add(1)
					<-hold
				}
				return t.Scopes, nil
			}
		}))
		begun := time.Now()
		wantUnavailable(t, send(t, g, g.token(map[string]any{"sub": "bob"})), "5")
		if took := time.Since(begun); took != 15*time.Second {
			t.Errorf("the request took %v, want 15s", took)
		}
		g.run("good")
		for n := range 100 {
			wantUnavailable(t, send(t, g, g.token(map[string]any{"sub": "bob", "jti": n})), "5")
		}
		if n := running.Load(); n != 64 {
			t.Errorf("%d calls run, want 64 at most", n)
		}
		close(hold)
		synctest.Wait()
		g.run("good")
	})
}

func TestTokensWithoutAudience(t *testing.T) {
	g := newGuarded(t, func(o *bearer.Options) {
		o.Issuers[0].NoAudience = &bearer.NoAudience{Clients: []string{"app", "cli"},
			Scope: "files:read"}
		o.Implies = func(_, _ string) bool { return true }
	})
	for _, changes := range []map[string]any{{"aud": nil}, {"aud": nil, "client_id": nil,
		"azp": "cli"}, {"aud": resource, "client_id": "foreign"}} {
		if status := send(t, g, g.token(changes)).StatusCode; status != http.StatusOK {
			t.Errorf("%v: status %d", changes, status)
		}
	}
	for name, changes := range map[string]map[string]any{
		"foreign audience":  {"aud": "https://other.example.com"},
		"empty audience":    {"aud": ""},
		"empty audiences":   {"aud": []string{}},
		"foreign client":    {"aud": nil, "client_id": "foreign"},
		"no client":         {"aud": nil, "client_id": nil},
		"client of another": {"aud": nil, "client_id": "foreign", "azp": "app"},
		"other scope":       {"aud": nil, "scope": "files"},
		"scope, and a tab":  {"aud": nil, "scope": "files:read\tfiles:write"},
		"no-break space":    {"aud": nil, "scope": "files:read\u00a0files:write"},
		"no scope":          {"aud": nil, "scope": ""},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, g, g.token(changes), "audience: ") })
	}
	for name, n := range map[string]bearer.NoAudience{
		"no clients":   {Scope: "files:read"},
		"empty client": {Clients: []string{"app", ""}, Scope: "files:read"},
		"no scope":     {Clients: []string{"app"}},
		"common scope": {Clients: []string{"app"}, Scope: "openid"},
	} {
		t.Run(name, func(t *testing.T) {
			wantNoServer(t, withIssuer(func(i *bearer.Issuer) { i.NoAudience = &n }))
		})
	}
}

func wantNoServer(t testing.TB, change func(o *bearer.Options)) {
	t.Helper()
	opts := bearer.Options{Resource: resource, Issuers: []bearer.Issuer{{URL: issuerURL}}}
	change(&opts)
	if g, err := bearer.New(opts); err == nil {
		t.Errorf("got %v and no error", g)
	}
}

func anyTenant(i *bearer.Issuer) {
	*i = bearer.Issuer{URL: "https://login.example.com/{tenantid}/v2.0", AnyTenant: true,
		KeysURL: "https://login.example.com/keys", LoginURL: "https://login.example.com/all/v2.0"}
}

func TestAnyTenant(t *testing.T) {
	g := newGuarded(t, withIssuer(anyTenant))
	of := func(tenant string) string { return "https://login.example.com/" + tenant + "/v2.0" }
	for _, tenant := range []string{tenantA, tenantB} {
		token := g.token(map[string]any{"iss": of(tenant), "tid": tenant})
		wantPassed(t, send(t, g, token), strings.Replace(alice, issuerURL, of(tenant), 1))
		if id, err := identify(g, token); err != nil || id.Principal.Issuer != of(tenant) {
			t.Errorf("got principal %v, %v", id.Principal, err)
		}
	}
	for name, changes := range map[string]map[string]any{
		"tid of another":  {"iss": of(tenantA), "tid": tenantB},
		"no tid":          {"iss": of(tenantA)},
		"tid is a list":   {"iss": of(tenantA), "tid": []string{tenantA}},
		"the pattern":     {"iss": of("{tenantid}"), "tid": "{tenantid}"},
		"name":            {"iss": of("common"), "tid": "common"},
		"empty":           {"iss": of(""), "tid": ""},
		"two segments":    {"iss": of(tenantA + "/" + tenantA), "tid": tenantA + "/" + tenantA},
		"capital letters": {"iss": of(strings.ToUpper(tenantA)), "tid": strings.ToUpper(tenantA)},
		"longer":          {"iss": of(tenantA) + "/", "tid": tenantA},
		"of another host": {"iss": "https://evil.example.com/" + tenantA + "/v2.0",
			"tid": tenantA},
		"without the rest": {"iss": "https://login.example.com/" + tenantA, "tid": tenantA},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, g, g.token(changes), "issuer") })
	}
	wantEqual(t, "the metadata names", readIssuers(t, g), "https://login.example.com/all/v2.0")
}

func TestPatternsOfTenantsAreChecked(t *testing.T) {
	const entra = "https://login.microsoftonline.com/"
	for _, url := range []string{
		issuerURL, "https://login.example.com/*/v2.0", "https://login.example.com/{tenant}/v2.0",
		"https://{tenantid}/v2.0", "https://login.example.com/x{tenantid}/v2.0",
		"https://login.example.com/{tenantid}/{tenantid}", "https://login.example.com/{tenantid}/*",
		"https://login.example.com/?{tenantid}", "https://login.example.com/{tenantid}/?x",
	} {
		t.Run(url, func(t *testing.T) {
			wantNoServer(t, withIssuer(func(i *bearer.Issuer) { anyTenant(i); i.URL = url }))
		})
	}
	for _, url := range []string{
		entra + "common/v2.0", entra + "organizations/v2.0", entra + "consumers/v2.0",
		entra + "v2.0", entra + "/v2.0", entra + "*/v2.0", entra + "{tenantid}/v2.0",
		entra + "contoso.onmicrosoft.com/v2.0", "https://sts.windows.net/common/",
		"https://LOGIN.microsoftonline.com/common/v2.0", "https://login.example.com/*",
	} {
		t.Run(url, func(t *testing.T) {
			wantNoServer(t, withIssuer(func(i *bearer.Issuer) { i.URL = url }))
		})
	}
	for name, change := range map[string]func(i *bearer.Issuer){
		"no keys":     func(i *bearer.Issuer) { i.KeysURL = "" },
		"no login":    func(i *bearer.Issuer) { i.LoginURL = "" },
		"login a URL": func(i *bearer.Issuer) { i.LoginURL = "login" },
	} {
		t.Run(name, func(t *testing.T) {
			wantNoServer(t, withIssuer(func(i *bearer.Issuer) { anyTenant(i); change(i) }))
		})
	}
}

func readIssuers(t *testing.T, g protector) string {
	t.Helper()
	_, h := g.Metadata()
	var document struct {
		Servers []string `json:"authorization_servers"`
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	check(t, json.Unmarshal(w.Body.Bytes(), &document))
	return fmt.Sprint(strings.Join(document.Servers, " "))
}

// An issuer that only signs is not in the metadata; every login URL is there once.
func TestLoginURL(t *testing.T) {
	g := newGuarded(t, func(o *bearer.Options) {
		o.Issuers = append(o.Issuers, bearer.Issuer{URL: "https://sts.example.com/tenant/",
			KeysURL: "https://login.example.com/keys", LoginURL: issuerURL})
	})
	wantEqual(t, "the metadata names", readIssuers(t, g), issuerURL)
	wantPassed(t, send(t, g, g.token(map[string]any{"iss": "https://sts.example.com/tenant/"})),
		strings.Replace(alice, issuerURL, "https://sts.example.com/tenant/", 1))
}

type deviation struct {
	name   string
	word   string         // the option that allows the deviation; empty: not needed
	kind   string         // typ in the header; empty: JWT
	claims map[string]any // changes to the claims of a good token
	change func(i *bearer.Issuer)
}

// deviations returns the deviations of common identity providers that servers see.
func deviations() []deviation {
	const client = "b1b2c3d4-0000-4000-8000-000000000001"
	audience := func(name string) func(i *bearer.Issuer) {
		return func(i *bearer.Issuer) { i.Audiences = []string{name} }
	}
	noAudience := func(i *bearer.Issuer) {
		i.NoAudience = &bearer.NoAudience{Clients: []string{"app"}, Scope: "files:read"}
	}
	scopesIn := func(claim, prefix string) func(i *bearer.Issuer) {
		return func(i *bearer.Issuer) {
			i.ScopesOf = func(t *bearer.Token) ([]string, error) {
				var scopes []string
				_, err := t.Claim(claim, &scopes)
				for _, scope := range t.Scopes {
					scopes = append(scopes, prefix+scope)
				}
				return scopes, err
			}
		}
	}
	return []deviation{
		{"Keycloak: aud is account", "Audiences", "", map[string]any{"aud": "account"},
			audience("account")},
		{"Keycloak, Cognito: no aud", "NoAudience", "", map[string]any{"aud": nil,
			"client_id": nil, "azp": "app", "typ": "Bearer"}, noAudience},
		{"Auth0: issuer with slash", "URL", "", map[string]any{"iss": issuerURL + "/"},
			func(i *bearer.Issuer) { i.URL, i.KeysURL = issuerURL+"/", keysURL }},
		{"Auth0: permissions", "ScopesOf", "", map[string]any{"scope": "openid",
			"permissions": []string{"files:read"}}, scopesIn("permissions", "")},
		{"Entra: no resource", "Audiences", "", map[string]any{"aud": "api://mcp"},
			audience("api://mcp")},
		{"Entra: short and long scopes", "ScopesOf", "", map[string]any{"scope": nil,
			"scp": "read"}, func(i *bearer.Issuer) {
			i.ScopesOf = func(t *bearer.Token) ([]string, error) {
				return strings.Fields(strings.ReplaceAll(t.Scopes[0], "read", "files:read")), nil
			}
		}},
		{"Entra: aud is the client id", "Audiences", "", map[string]any{"aud": client,
			"client_id": nil, "azp": "app"}, audience(client)},
		{"Entra: iss of version 1", "a second Issuer, LoginURL", "", map[string]any{
			"iss": "https://sts.windows.net/" + tenantA + "/", "client_id": nil, "appid": "app"},
			func(i *bearer.Issuer) {
				i.URL, i.KeysURL = "https://sts.windows.net/"+tenantA+"/", keysURL
				i.LoginURL = issuerURL
			}},
		{"Entra: template of common", "AnyTenant, LoginURL", "", ofTenant(tenantA), anyTenant},
		{"Entra: any tenant", "AnyTenant", "", ofTenant(tenantB), anyTenant},
		{"Entra: app roles", "ScopesOf", "", map[string]any{"scope": nil, "client_id": nil,
			"azp": "app", "azpacr": "1", "roles": []string{"files:read"}}, scopesIn("roles", "")},
		{"Okta: scp array, cid", "Audiences", "", map[string]any{"aud": "api://default",
			"client_id": nil, "cid": "app", "scope": nil, "scp": []string{"files:read"}},
			audience("api://default")},
		{"no at+jwt; nonce and scope", "", "", map[string]any{"nonce": "n"}, nil},
		{"typ Bearer in the header", "Type", "Bearer", map[string]any{},
			func(i *bearer.Issuer) { i.Type = "Bearer" }},
		{"GitHub: no expiry", "Verify", "opaque", map[string]any{"exp": nil}, verifiedAs(0)},
		{"GitHub, Google: opaque, no RFC 7662", "Verify", "opaque", map[string]any{},
			verifiedAs(time.Hour)},
		{"Hydra: introspection", "", "introspected", map[string]any{"token_use": "access_token",
			"token_type": "access_token"}, nil},
		{"introspection without aud", "NoAudience", "introspected", map[string]any{"aud": nil},
			noAudience},
		{"path issuers", "", "", map[string]any{}, nil},
		{"ID tokens", "Unmarked", "", map[string]any{"scope": nil, "client_id": nil}, func(
			i *bearer.Issuer) {
			i.Unmarked = true
			i.ScopesOf = func(*bearer.Token) ([]string, error) {
				return []string{"files:read"}, nil
			}
		}},
		{"programs", "Machines", "", map[string]any{"sub": nil},
			func(i *bearer.Issuer) { i.Machines = true }},
	}
}

const keysURL = "https://login.example.com/keys"

func ofTenant(tenant string) map[string]any {
	return map[string]any{"iss": "https://login.example.com/" + tenant + "/v2.0", "tid": tenant}
}

// verifiedAs makes the host look up tokens, which expire after lifetime. 0: never.
func verifiedAs(lifetime time.Duration) func(i *bearer.Issuer) {
	return func(i *bearer.Issuer) {
		i.Audiences = []string{"app"}
		i.Verify = func(context.Context, string) (*bearer.Token, error) {
			t := &bearer.Token{Subject: "alice", ClientID: "app", Scopes: []string{"files:read"}}
			if lifetime > 0 {
				t.Expiry = time.Now().Add(lifetime)
			}
			return t, nil
		}
	}
}

// addElsewhere allows the deviation for another issuer, which must not help.
func (d *deviation) addElsewhere(o *bearer.Options) {
	other := bearer.Issuer{URL: issuerURL}
	if d.change(&other); other.Verify != nil || other.URL != issuerURL {
		return // the deviation is not about the issuer's tokens
	}
	other.URL, other.KeysURL = "https://other.example.com", keysURL
	o.Issuers = append(o.Issuers, other)
}

// Each provider's token passes with the option that its refusal names.
func TestDeviations(t *testing.T) {
	works := 0
	for n, d := range deviations() {
		t.Run(d.name, func(t *testing.T) {
			works++
			f := newFakeIssuer(t)
			base := func(o *bearer.Options) {
				o.Scopes = []string{"files:read"}
				if d.kind == "introspected" {
					introspecting(o)
				}
			}
			token := "opaque"
			switch d.kind {
			case "introspected":
				f.says = claimsOf(d.claims)
				f.says["active"] = true
			case "", "Bearer":
				token = sign(t, jose.ES256, f.signer, cmp.Or(d.kind, "JWT"), claimsOf(d.claims))
			}
			with := newResourceServer(t, f, func(o *bearer.Options) {
				base(o)
				if d.change != nil {
					d.change(&o.Issuers[0])
				}
			})
			if got := send(t, with, token); got.StatusCode != http.StatusOK {
				t.Errorf("status %d: %s", got.StatusCode, got.Header.Get("WWW-Authenticate"))
			}
			t.Logf("%2d %-36s %s", n+1, d.name, cmp.Or(d.word, "by default"))
			if d.word != "" {
				wantNamed(t, newResourceServer(t, f, func(o *bearer.Options) {
					base(o)
					d.addElsewhere(o)
				}), token, d.word)
			}
		})
	}
	if works != 21 || len(deviations()) != 21 {
		t.Errorf("%d of %d deviations concern servers and work", works, len(deviations()))
	}
}

// wantNamed checks that a token is refused and that only the log names the option.
func wantNamed(t testing.TB, g protector, token, word string) {
	t.Helper()
	_, err := identify(g, token)
	switch word {
	case "URL", "a second Issuer, LoginURL":
		word = "Options.Issuers"
	}
	for _, part := range strings.Split(word, ", ") {
		if part != "LoginURL" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("the log has %v, want %s in it", err, part)
		}
	}
}
