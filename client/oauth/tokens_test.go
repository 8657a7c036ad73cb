package oauth_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// A step-up requests the union: a refresh the granted scopes, a login all scopes ever requested.
func TestStepUpAsksForTheUnion(t *testing.T) {
	s, source := newLogin(t)
	challengedWith(`scope="read write"`, `scope="write"`)(s)
	s.run(source, "search write register=1 token=2")
	s.as.Edit(oauthtest.Refresh, change("scope", func(right string) string {
		fewer, _, _ := strings.Cut(right, " ")
		return fewer
	}))
	s.run(source, "expire search expire search")
	request := s.post()
	sent, err := source.Credentials(t.Context(), request)
	noError.check(t, err)
	again, err := source.Refused(t.Context(), clienthttp.Refusal{Outgoing: request, Sent: sent,
		Status: http.StatusForbidden, Attempt: 1, Header: http.Header{"Www-Authenticate": {
			`Bearer error="insufficient_scope", scope="delete"`}}})
	if !again || err != nil {
		t.Fatalf("got %v, %v, want a login", again, err)
	}
	for e, want := range map[oauthtest.Endpoint]string{
		oauthtest.Authorize: "read, read write, read write delete, ",
		oauthtest.Refresh:   "read write, read, ",
	} {
		got := ""
		for _, r := range s.as.Requests(e) {
			got += r.Form.Get("scope") + ", "
		}
		wantEqual(t, fmt.Sprintf("%s: got the scopes", e), got, want)
	}
}

// The expiry of a token is known after a login and each refresh.
func TestEveryTokenEnds(t *testing.T) {
	for text, valid := range map[any]bool{60: true, "60": true, "": false, "1h": false,
		"-60": false, "99999999999999999999": false} {
		s := newSite(t, nil)
		for _, e := range []oauthtest.Endpoint{oauthtest.Token, oauthtest.Refresh} {
			s.as.Edit(e, oauthtest.Set("expires_in", text))
		}
		source := s.source()
		if !valid {
			s.run(source, "search:token")
			continue
		}
		for refreshes := range 3 {
			before := time.Now()
			s.run(source, fmt.Sprintf("search refresh=%d expire", refreshes))
			if ends := source.TokenEnds(); ends.Before(before.Add(time.Minute)) ||
				ends.After(time.Now().Add(time.Minute)) {
				t.Errorf("%v: the token ends at %v, want in a minute", text, ends)
			}
		}
	}
}

// A revoked refresh token is sent once, even if no login is possible.
func TestRevokedRefreshTokenIsSentOnce(t *testing.T) {
	store := oauth.NewMemoryStore()
	s, first := newLogin(t, storedIn(store))
	first.AgeLogin(time.Hour)
	s.as.RevokeAll()
	for range 2 {
		s.run(s.source(storedIn(store), nobody), "search:required refresh=1")
	}
}

// A refresh without a new refresh token keeps the old one (RFC 6749, section 6).
func TestRefreshWithoutANewRefreshToken(t *testing.T) {
	s, source := newLogin(t)
	s.as.Edit(oauthtest.Refresh, oauthtest.Remove("refresh_token"))
	s.run(source, "expire search expire search:any") // this server refuses the second refresh
	refreshes := s.as.Requests(oauthtest.Refresh)
	if len(refreshes) != 2 || refreshes[0].Form.Get("refresh_token") !=
		refreshes[1].Form.Get("refresh_token") {
		t.Errorf("got the refreshes %+v", refreshes)
	}
}

// If a token endpoint repeats secrets, an error shows none of them, whole or cut.
func TestTokenEndpointThatRepeatsSecrets(t *testing.T) {
	for name, of := range map[string]func(secret string) string{
		"code": func(secret string) string { return `{"error":"no ` + secret + `"}` },
		"description": func(secret string) string {
			return `{"error":"x","error_description":"` + secret[:20] + `"}`
		},
		"secret of the client": func(string) string {
			return `{"error":"invalid_grant","error_description":"it is not hush"}`
		},
		"type": func(secret string) string {
			return `{"access_token":"` + secret + `","token_type":"` + secret + `"}`
		},
	} {
		for before, e := range map[string]oauthtest.Endpoint{"": oauthtest.Token,
			"search expire": oauthtest.Refresh} {
			secret, events := "", ""
			scenario{before: before, fault: rewritten(e, func(r *oauthtest.Request,
				_ oauthtest.Next) *oauthtest.Answer {
				secret = r.Form.Get("code") + r.Form.Get("refresh_token")
				return &oauthtest.Answer{Body: of(secret)}
			}), opts: func(s *site, o *oauth.Options) {
				s.register(o)
				o.Observe = func(e oauth.LoginEvent) { events += fmt.Sprint(e.Err) }
			}, script: "search:any"}.play(t)
			if !strings.Contains(events, "redacted") || strings.Contains(events, secret[:16]) ||
				strings.Contains(events, "hush") {
				t.Errorf("%s: got %s", name, events)
			}
		}
	}
}

// The first Bearer challenge counts, whatever the other challenges are.
func TestChallenges(t *testing.T) {
	for header, want := range map[string]string{
		`Bearer error="insufficient_scope", scope="more", DPoP algs="ES256"`: "insufficient_scope " +
			"[more]",
		`DPoP error="use_dpop_nonce", Bearer scope="read"`: " [read]",
		`DPoP error="invalid_token"`:                       " []",
		`error="invalid_token", Bearer`:                    " []",
		`Basic abc=, Bearer error=a`:                       "a []",
		`Basic a/b Bearer error=a`:                         " []",
		`Bearer error="a\"b", error_uri="\\"`:              `a"b []`,
		`Bearer error=a, Bearer error=b, x="`:              " []",
		`Bearer error=a, Bearer error=b`:                   "a []",
	} {
		code, scopes, _ := oauth.ReadChallenge(http.Header{"Www-Authenticate": {header}})
		wantEqual(t, header, fmt.Sprint(code, " ", scopes), want)
	}
}

// Logout revokes the refresh token, or else the access token, if the client is still configured.
func TestLogout(t *testing.T) {
	for _, c := range []struct {
		noRefresh, forgotten bool
		revoked              string // the kind of token
	}{{false, false, "refresh_token"}, {true, false, "access_token"}, {true, true, ""}} {
		s, store := newSite(t, nil), oauth.NewMemoryStore()
		if c.noRefresh {
			s.as.Edit(oauthtest.Token, oauthtest.Remove("refresh_token"))
		}
		source := s.source(storedIn(store), s.register)
		s.run(source, "search")
		sent, err := source.Credentials(t.Context(), s.post())
		noError.check(t, err)
		token := strings.TrimPrefix(sent.Get("Authorization"), "Bearer ")
		if c.forgotten {
			source = s.source(storedIn(store))
		}
		s.run(source, "logout")
		got := ""
		for _, r := range s.as.Requests(oauthtest.Revoke) {
			got += r.Form.Get("token_type_hint")
			if (r.Form.Get("token") == token) != c.noRefresh {
				t.Errorf("got %q, want the %s", r.Form, c.revoked)
			}
		}
		wantEqual(t, "revoked", got, c.revoked)
		if sent, err := source.Credentials(t.Context(), s.post()); err != nil || len(sent) > 0 {
			t.Errorf("got %d headers, %v after a logout", len(sent), err)
		}
	}
}

// If only access tokens cannot be revoked, Logout succeeds.
func TestLogoutWhereTokensAreNotRevoked(t *testing.T) {
	for _, c := range []struct {
		code      string
		noRefresh bool
		want      wantedError
	}{
		{"unsupported_token_type", true, noError},
		{"unsupported_token_type", false, outcomes["error"]},
		{"invalid_request", true, outcomes["error"]},
	} {
		s, source := newLogin(t)
		if c.noRefresh {
			s.as.Edit(oauthtest.Token, oauthtest.Remove("refresh_token"))
			s.run(source, "logout search")
		}
		replied(oauthtest.Revoke, refusal(http.StatusBadRequest, c.code))(s)
		err := source.Logout(t.Context())
		c.want.check(t, err)
		if err != nil {
			wantText(t, err, "status 400")
		}
	}
}
