package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// TestRefreshThatNarrowsTheScopes: what was granted last is what the next refresh asks for, and a
// login for more asks for all that was ever asked for.
func TestRefreshThatNarrowsTheScopes(t *testing.T) {
	s, source := newLogin(t, (*site).source)
	noError.check(t, s.call(t.Context(), source, "write"))
	s.as.Edit(oauthtest.Refresh, change("scope", func(right string) string {
		fewer, _, _ := strings.Cut(right, " ")
		return fewer
	}))
	for range 2 {
		s.as.Expire()
		noError.check(t, s.call(t.Context(), source, "search"))
	}
	refreshes := s.as.Requests(oauthtest.Refresh)
	if len(refreshes) != 2 || refreshes[0].Form.Get("scope") != "read write" ||
		refreshes[1].Form.Get("scope") != "read" {
		t.Errorf("got the refreshes %+v", refreshes)
	}
	request := s.post(t)
	sent, err := source.Credentials(t.Context(), request)
	noError.check(t, err)
	again, err := source.Refused(t.Context(), clienthttp.Refusal{Outgoing: request, Sent: sent,
		Status: http.StatusForbidden, Attempt: 1, Header: http.Header{"Www-Authenticate": {
			`Bearer error="insufficient_scope", scope="delete"`}}})
	if !again || err != nil {
		t.Fatalf("got %v, %v, want a login", again, err)
	}
	logins := s.as.Requests(oauthtest.Authorize)
	asked := strings.Fields(logins[len(logins)-1].Form.Get("scope"))
	if !slices.Equal(asked, []string{"read", "write", "delete"}) {
		t.Errorf("the login asked for %q", asked)
	}
}

// TestLifetimeAsText: RFC 6749 has expires_in be a number, and some authorization servers send the
// number as a text, which means the same to everybody. What is no number is refused.
func TestLifetimeAsText(t *testing.T) {
	for text, valid := range map[string]bool{"60": true, "": false, "1h": false, "-60": false,
		"99999999999999999999": false} {
		s := newSite(t, nil, nil)
		s.as.Edit(oauthtest.Token, oauthtest.Set("expires_in", text))
		source, before := s.person(t, nil), time.Now()
		err := s.call(t.Context(), source, "search")
		if !valid {
			tokenError.check(t, err)
			continue
		}
		noError.check(t, err)
		if ends := source.TokenEnds(); ends.Before(before.Add(time.Minute)) ||
			ends.After(time.Now().Add(time.Minute)) {
			t.Errorf("%q: the token ends at %v, want in a minute", text, ends)
		}
	}
}

// TestRevokedRefreshTokenIsSentOnce, also where nobody can log in.
func TestRevokedRefreshTokenIsSentOnce(t *testing.T) {
	s, store := newSite(t, nil, nil), oauth.NewMemoryStore()
	first := s.source(t, func(o *oauth.Options) { o.Store = store })
	noError.check(t, s.call(t.Context(), first, "search"))
	first.AgeLogin(time.Hour)
	s.as.RevokeAll()
	for range 2 {
		source := s.source(t, func(o *oauth.Options) { o.Store, o.Interaction = store, nil })
		if err := s.call(t.Context(), source, "search"); !isA[*oauth.LoginRequiredError](err) {
			t.Errorf("got %v, want a login", err)
		}
	}
	s.wantCounts(t, counts{oauthtest.Refresh: 1})
}

// TestRefreshWithoutANewRefreshToken: the old one stays (RFC 6749, section 6).
func TestRefreshWithoutANewRefreshToken(t *testing.T) {
	s, source := newLogin(t, (*site).source)
	s.as.Edit(oauthtest.Refresh, oauthtest.Remove("refresh_token"))
	for range 2 {
		s.as.Expire()
		_ = s.call(t.Context(), source, "search") // the server here rotates, and refuses the second
	}
	refreshes := s.as.Requests(oauthtest.Refresh)
	if len(refreshes) != 2 || refreshes[0].Form.Get("refresh_token") !=
		refreshes[1].Form.Get("refresh_token") {
		t.Errorf("got the refreshes %+v", refreshes)
	}
}

// TestTokenEndpointThatRepeatsSecrets: an error has nothing of what was sent or returned, wherever
// the authorization server repeats it, whole or cut.
func TestTokenEndpointThatRepeatsSecrets(t *testing.T) {
	for name, of := range map[string]func(token string) string{
		"code": func(token string) string { return `{"error":"no ` + token + `"}` },
		"description": func(token string) string {
			return `{"error":"x","error_description":"` + token[:20] + `"}`
		},
		"type": func(token string) string {
			return `{"access_token":"` + token + `","token_type":"` + token + `"}`
		},
	} {
		s := newSite(t, nil, nil)
		var events, token string
		source := s.source(t, func(o *oauth.Options) {
			o.Observe = func(e oauth.LoginEvent) { events += fmt.Sprint(e.Err) }
		})
		noError.check(t, s.call(t.Context(), source, "search"))
		for _, secret := range s.as.Secrets() {
			token = secret // the last one is the refresh token
		}
		s.as.Expire()
		s.as.Reply(oauthtest.Refresh, oauthtest.Reply{Status: http.StatusOK,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: of(token)})
		events = ""
		if err := s.call(t.Context(), source, "search"); err != nil {
			events += err.Error()
		}
		if !strings.Contains(events, "redacted") || strings.Contains(events, token[:16]) {
			t.Errorf("%s: got %s", name, events)
		}
	}
}

// TestTypeOfTheToken: a token that is no bearer token is refused and not sent, and the error says
// what came.
func TestTypeOfTheToken(t *testing.T) {
	for _, c := range []struct {
		edit func(*oauthtest.Document)
		want string
	}{
		{oauthtest.Set("token_type", "DPoP"), `token_type is "DPoP", want Bearer`},
		{oauthtest.Set("token_type", "mac"), `token_type is "mac", want Bearer`},
		{oauthtest.Remove("token_type"), "token_type is absent, want Bearer"},
		{oauthtest.Remove("access_token"), "the answer is not that of a token endpoint"},
	} {
		s := newSite(t, nil, nil)
		s.as.Edit(oauthtest.Token, c.edit)
		err := s.call(t.Context(), s.person(t, nil), "search")
		if tokenError.check(t, err); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		for _, r := range s.resource.Requests(oauthtest.Call) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the token was sent")
			}
		}
	}
}

// TestBoundTokenInTheStore: a token that an older version has bound to a key is never sent as a
// bearer token; the person logs in anew.
func TestBoundTokenInTheStore(t *testing.T) {
	s, store := newSite(t, nil, nil), oauth.NewMemoryStore()
	stored := func(o *oauth.Options) { o.Store = store }
	noError.check(t, s.call(t.Context(), s.source(t, stored), "search"))
	k := oauth.Key{Issuer: s.as.URL, Resource: s.resource.URL}
	data, err := store.Load(t.Context(), k)
	record := map[string]any{}
	if err != nil || json.Unmarshal(data, &record) != nil {
		t.Fatal(err)
	}
	old := record["access_token"]
	record["jkt"] = "thumbprint"
	data, _ = json.Marshal(record)
	noError.check(t, store.Save(t.Context(), k, data))
	before := s.resource.Count(oauthtest.Call)
	noError.check(t, s.call(t.Context(), s.source(t, stored), "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 2})
	for _, r := range s.resource.Requests(oauthtest.Call)[before:] {
		if strings.HasSuffix(r.Header.Get("Authorization"), fmt.Sprint(old)) {
			t.Error("the bound token was sent")
		}
	}
}

// TestChallenges: the first Bearer challenge counts, among whatever others.
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
		if got := fmt.Sprint(code, " ", scopes); got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
}
