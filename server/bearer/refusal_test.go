package bearer_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/server/bearer"
)

// Every refusal is explained: to the client, with details in the log, and in TROUBLESHOOTING.md.
func TestEveryRefusalIsExplained(t *testing.T) {
	f := newFakeIssuer(t)
	page, err := os.ReadFile("TROUBLESHOOTING.md")
	check(t, err)
	of := func(kind string, changes map[string]any) string {
		return sign(t, jose.ES256, f.signer, kind, claimsOf(changes))
	}
	clientOnly := &bearer.NoAudience{Clients: []string{"app"}, Scope: "own"}
	unmarked := map[string]any{"scope": nil, "client_id": nil, "azp": "app"}
	for name, row := range map[string]struct {
		token  string
		change func(i *bearer.Issuer)
		want   string // error_description
		log    string // additional text in the log
	}{
		"opaque": {token: "gho_x", want: "malformed: it is not a JSON Web Token, and the server " +
			"looks none up (see Issuer.Introspection, Issuer.Verify)"},
		"encrypted": {token: "a.b.c.d.e", want: "malformed: it is encrypted, so request one that " +
			"is signed, of Auth0 with the parameter audience, or have the issuer look it up (see " +
			"Issuer.Introspection)"},
		"algorithm": {
			token: sign(t, jose.HS256, []byte(strings.Repeat("x", 32)), "", claimsOf(nil)),
			want:  "algorithm: its signature algorithm is not accepted",
			log:   `alg is "\"HS256\""`},
		"type in the header": {token: of("Bearer", nil), want: "type: typ in its header is not " +
			"an access token's (see Issuer.Type)",
			log: `typ in its header is "bearer"`},
		"ID token": {token: of("JWT", map[string]any{"at_hash": "x"}),
			want: "type: it is an ID token, or another that is not for access"},
		"unmarked": {token: of("JWT", unmarked),
			want: "type: it may be an ID token (see Issuer.Unmarked)",
			log:  `typ in its header is "jwt", and it has none of scope, scp, client_id, `},
		"issuer": {token: f.token(map[string]any{"iss": issuerURL + "/"}),
			want: "issuer: its iss is not accepted (see Options.Issuers, Issuer.AnyTenant)",
			log:  `iss is "` + issuerURL + `/"`},
		"tenant": {token: f.token(map[string]any{
			"iss": "https://login.example.com/" + tenantA + "/v2.0", "tid": tenantB}),
			change: anyTenant,
			want:   "issuer: its tid is not the tenant in its iss (see Issuer.AnyTenant)",
			log:    `tid is "` + tenantB},
		"key": {token: sign(t, jose.ES256, jose.JSONWebKey{Key: f.signer.Key, KeyID: "other"}, "",
			claimsOf(map[string]any{"iat": time.Now().Add(-time.Hour).Unix()})),
			want: "key: its issuer does not publish the key (see Issuer.KeysURL)",
			log:  `kid is "other"`},
		"audience": {token: f.token(map[string]any{"aud": "account"}), want: audience,
			log: `aud is "account"`},
		"no audience": {token: f.token(map[string]any{"aud": nil}), want: "audience: the token " +
			"has no aud; it must be for " + resource + " (see Issuer.NoAudience)"},
		"client": {token: f.token(map[string]any{"aud": nil, "client_id": "evil"}),
			change: func(i *bearer.Issuer) { i.NoAudience = clientOnly },
			want: "audience: the token has no aud, and its client is not in " +
				"Issuer.NoAudience", log: `"evil"`},
		"own scope": {token: f.token(map[string]any{"aud": nil}),
			change: func(i *bearer.Issuer) { i.NoAudience = clientOnly },
			want: "audience: the token has no aud, and lacks the scope in " +
				"Issuer.NoAudience", log: `it has the scopes "files:read"`},
		"nobody": {token: f.token(map[string]any{"sub": nil}),
			want: "subject: it has no sub (see Issuer.Machines, Options.Subject)"},
		"called like a client": {token: f.token(map[string]any{"sub": "client:x"}),
			want: "subject: its sub looks like a client (see Options.Subject)"},
		"scopes": {token: f.token(nil), change: func(i *bearer.Issuer) {
			i.ScopesOf = func(*bearer.Token) ([]string, error) { return nil, os.ErrInvalid }
		}, want: "scopes: Issuer.ScopesOf refused it", log: os.ErrInvalid.Error()},
		"no expiry": {token: f.token(map[string]any{"exp": nil}), want: "expired: it has no exp"},
		"expired": {token: f.token(map[string]any{"exp": 1}), want: "expired",
			log: "exp is 1970-01-01T00:00:01Z, and it is 2"},
		"not yet": {token: f.token(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
			want: "not yet valid: compare the clocks", log: "nbf is 2"},
		"of tomorrow": {token: f.token(map[string]any{"iat": time.Now().Add(time.Hour).Unix()}),
			want: "not yet valid: compare the clocks", log: "iat is 2"},
		"signature": {token: f.token(nil)[:len(f.token(nil))-8] + "AAAAAAAA",
			want: "signature: its issuer publishes another key under its key id",
			log:  `kid is "k1"`},
	} {
		t.Run(name, func(t *testing.T) {
			change := row.change
			if change == nil {
				change = func(*bearer.Issuer) {}
			}
			g := newResourceServer(t, f, withIssuer(change))
			// A good token causes a fetch of the keys: only then is an unknown key invalid.
			send(t, g, f.token(nil))
			got := send(t, g, row.token).Header.Get("WWW-Authenticate")
			if !strings.HasPrefix(got, `Bearer error="invalid_token", error_description="`+
				row.want+`"`) {
				t.Errorf("challenge %s, want %s", got, row.want)
			}
			wantRefused(t, g, row.token, row.want, row.log)
			if row.log != "" && strings.Contains(got, row.log) {
				t.Errorf("the client is told what is for the log: %s", got)
			}
			_, hint, _ := strings.Cut(row.want, ": ")
			hint = strings.ReplaceAll(hint, resource, "%s")
			if !strings.Contains(string(page), hint) {
				t.Errorf("TROUBLESHOOTING.md does not have %q", hint)
			}
		})
	}
}

// An ID token whose audience is accepted is refused, unless Unmarked is set.
func TestIDTokensAreRefused(t *testing.T) {
	f := newFakeIssuer(t)
	audiences := func(i *bearer.Issuer) { i.Audiences = []string{"app"} }
	strict := newResourceServer(t, f, withIssuer(audiences))
	lenient := newResourceServer(t, f, withIssuer(func(i *bearer.Issuer) {
		audiences(i)
		i.Unmarked = true
	}))
	for name, row := range map[string]struct {
		kind            string
		claims          map[string]any
		strict, lenient bool
	}{
		"plain":              {"JWT", nil, false, true},
		"no type":            {"", nil, false, true},
		"azp":                {"JWT", map[string]any{"azp": "app"}, false, true},
		"roles of Entra ID":  {"JWT", map[string]any{"roles": []string{"a"}}, false, true},
		"nonce":              {"JWT", map[string]any{"nonce": "n"}, false, false},
		"hash":               {"JWT", map[string]any{"at_hash": "h"}, false, false},
		"nonce, and at+jwt":  {"at+jwt", map[string]any{"nonce": "n"}, false, false},
		"at+jwt":             {"at+jwt", nil, true, true},
		"application/at+jwt": {"application/at+jwt", nil, true, true},
		"scope":              {"JWT", map[string]any{"scope": ""}, true, true},
		"scp":                {"JWT", map[string]any{"scp": []string{}}, true, true},
		"client_id":          {"JWT", map[string]any{"client_id": "app"}, true, true},
		"cid":                {"JWT", map[string]any{"cid": "app"}, true, true},
		"appid":              {"JWT", map[string]any{"appid": "app"}, true, true},
		"program at Entra":   {"JWT", map[string]any{"azpacr": "1", "azp": "app"}, true, true},
		"token_use of Hydra": {"JWT", map[string]any{"token_use": "access_token"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			claims := map[string]any{"aud": "app", "scope": nil, "client_id": nil}
			for key, value := range row.claims {
				claims[key] = value
			}
			token := sign(t, jose.ES256, f.signer, row.kind, claimsOf(claims))
			for g, want := range map[protector]bool{
				strict: row.strict, lenient: row.lenient,
			} {
				if got := send(t, g, token).StatusCode == http.StatusOK; got != want {
					t.Errorf("lenient %v: accepted %v, want %v", g == lenient, got, want)
				}
			}
		})
	}
}

// Two people are not one principal: without sub, all users of a client look the same.
func TestTwoPeopleAreNotOnePrincipal(t *testing.T) {
	for _, machines := range []bool{false, true} {
		g := newGuarded(t, introspecting, withIssuer(func(i *bearer.Issuer) {
			i.Machines = machines
		}))
		g.says = claimsOf(map[string]any{"sub": nil, "scope": nil}, "active", true,
			"username", "alice")
		if machines {
			wantPassed(t, send(t, g, "opaque"), " of "+issuerURL+", client app, scopes ")
		} else {
			wantRefused(t, g, "opaque", "it has no sub")
		}
	}
}

// If an issuer refuses the server, the log names the issuer and its refusal.
func TestAnIssuerThatRefusesTheServer(t *testing.T) {
	g := newGuarded(t, introspecting, withIssuer(func(i *bearer.Issuer) {
		i.Introspection.ClientSecret = "rotated"
	}))
	g.run("x:503=5")
	_, err := identify(g, "opaque")
	if err == nil || !strings.Contains(err.Error(), "status 401: it does not accept "+
		"Introspection.ClientID and ClientSecret") {
		t.Errorf("got %v", err)
	}
}
