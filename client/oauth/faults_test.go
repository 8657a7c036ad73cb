package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// noLogin has the request counts of a site where only metadata was requested.
const noLogin = " authorize=0 register=0 token=0 other=0 opened=0"

func TestMetadataThatIsRefusedLeadsToNoLogin(t *testing.T) {
	const (
		authorize = "authorization_endpoint"
		token     = "token_endpoint"
	)
	faults := documentFaults(oauthtest.Metadata, token)
	for name, f := range map[string]edit{
		"issuer: a slash more":         suffix("issuer", "/"),
		"issuer: other letters":        change("issuer", strings.ToUpper),
		"issuer: another port":         change("issuer", otherPort),
		"issuer: somebody else":        oauthtest.Set("issuer", foreignIssuer),
		"no code challenge methods":    oauthtest.Remove(challengeMethods),
		"plain code challenges only":   oauthtest.Set(challengeMethods, []string{"plain"}),
		"authorization: javascript":    oauthtest.Set(authorize, "javascript:alert(1)"),
		"authorization: a fragment":    suffix(authorize, "#fragment"),
		"authorization: none":          oauthtest.Remove(authorize),
		"authorization: a wrong type":  oauthtest.Set(authorize, []string{"https://a.example"}),
		"token: no TLS":                oauthtest.Set(token, "http://attacker.example/token"),
		"token: a link-local address":  oauthtest.Set(token, "http://169.254.169.254/token"),
		"token: a password in its URL": oauthtest.Set(token, "https://user:word@as.example/token"),
		"token: none":                  oauthtest.Remove(token),
		"registration: a private address": oauthtest.Set("registration_endpoint",
			"http://10.0.0.1/register"),
		"revocation: a file": oauthtest.Set("revocation_endpoint", "file:///etc/passwd"),
	} {
		faults[name] = edited(oauthtest.Metadata, f)
	}
	all := map[string]scenario{}
	for name, f := range faults {
		outcome, places, says := "metadata", 1, ""
		switch name { // the answer of a server that does not know the first place
		case "redirects", "a page", "is not an object":
			places = 2
		case "status 503":
			places, says = 2, "oauth-authorization-server\": status 503" // of the first place
		}
		if strings.HasPrefix(name, "issuer") {
			outcome = "issuer"
		}
		all[name] = scenario{fault: f, says: says, script: fmt.Sprintf(
			"search:%s metadata=%d"+noLogin, outcome, places)}
	}
	playAndMend(t, all)
}

func TestResourceMetadataThatIsRefusedLeadsToNoLogin(t *testing.T) {
	const servers = "authorization_servers"
	all := map[string]scenario{}
	add := func(name string, f fault, outcome, says string) {
		all[name] = scenario{fault: f, says: says, script: "search:" + outcome + " metadata=0" +
			noLogin}
	}
	for name, f := range foreignResources() {
		add("resource: "+name, edited(oauthtest.ResourceMetadata, f), "resource", "")
	}
	for name, value := range map[string]any{
		"none": []string{}, "a wrong type": foreignIssuer, "empty": []string{""},
		"javascript":           []string{"javascript:alert(1)"},
		"no TLS":               []string{"http://attacker.example"},
		"a link-local address": []string{"http://169.254.169.254"},
		"a thousand":           slices.Repeat([]string{"http://127.0.0.1:1/tenant"}, 1000),
	} {
		add("authorization servers: "+name, edited(oauthtest.ResourceMetadata,
			oauthtest.Set(servers, value)), "metadata", "")
	}
	add("authorization servers: a query", edited(oauthtest.ResourceMetadata, oauthtest.Set(servers,
		[]string{"http://127.0.0.1:1?tenant=1"})), "metadata", "URL has a query")
	for name, f := range documentFaults(oauthtest.ResourceMetadata, servers) {
		add(name, f, "metadata", "")
	}
	const path = "/.well-known/oauth-protected-resource/mcp"
	for _, address := range []string{foreignIssuer + path, "http://169.254.169.254" + path,
		"javascript:alert(1)"} {
		add("metadata at "+address, challenged(func(string) []string {
			return []string{fmt.Sprintf("Bearer resource_metadata=%q", address)}
		}), "metadata", "")
	}
	playAndMend(t, all)
}

func playAndMend(t *testing.T, all map[string]scenario) {
	t.Helper()
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			s, source := c.play(t)
			s.run(source, "behave age=1m search")
		})
	}
}

// foreignResources returns edits that make the metadata be about another resource.
func foreignResources() map[string]edit {
	const resource = "resource"
	return map[string]edit{
		"somebody else": oauthtest.Set(resource, "https://other.example/mcp"),
		"a slash more":  suffix(resource, "/"),
		"a parent path": change(resource, func(right string) string {
			return strings.TrimSuffix(right, "mcp")
		}),
		"other letters": change(resource, strings.ToUpper),
		"another port":  change(resource, otherPort),
		"none":          oauthtest.Remove(resource),
	}
}

// A callback that is not the login's answer is refused, and its code is never sent.
func TestCallbackThatIsNotTheAnswer(t *testing.T) {
	foreign := oauthtest.Set("iss", foreignIssuer)
	for name, edits := range map[string][]edit{
		"advertised iss missing":         {oauthtest.Remove("iss")},
		"iss of somebody else":           {foreign},
		"iss with a slash more":          {suffix("iss", "/")},
		"foreign iss and not advertised": {foreign},
		"iss twice":                      {twice("iss", nil)},
		"state missing":                  {oauthtest.Remove("state")},
		"state wrong":                    {oauthtest.Set("state", "another")},
		"state twice":                    {twice("state", nil)},
		"code missing":                   {oauthtest.Remove("code")},
		"code twice":                     {twice("code", "another")},
		"code and error":                 {oauthtest.Set("error", "access_denied")},
		"error with foreign iss": {oauthtest.Failure("access_denied"),
			oauthtest.Set("error_description", foreignText), foreign},
	} {
		t.Run(name, func(t *testing.T) {
			f := edited(oauthtest.Authorize, edits...)
			if strings.HasSuffix(name, "not advertised") {
				f = both(f, edited(oauthtest.Metadata, oauthtest.Remove(sendsIssuer)))
			}
			s, _ := scenario{fault: f, script: "search:callback authorize=1 token=0"}.play(t)
			last := s.browser.LastPage()
			wantEqual(t, "the person saw status", last.Status, http.StatusBadRequest)
			s.wantNoSecrets(last.Body)
		})
	}
}

// If a token response is refused, the code is sent once, and nothing of the response is used.
func TestTokenAnswerThatIsRefused(t *testing.T) {
	const access = "access_token"
	faults := documentFaults(oauthtest.Token, access)
	faults["invalid_client"] = replied(oauthtest.Token,
		refusal(http.StatusUnauthorized, "invalid_client"))
	for name, f := range map[string]edit{
		`token_type is "mac"`:     oauthtest.Set("token_type", "mac"),
		`token_type is "DPoP"`:    oauthtest.Set("token_type", "DPoP"),
		"token_type is absent":    oauthtest.Remove("token_type"),
		"lifetime is a word":      oauthtest.Set("expires_in", "soon"),
		"lifetime is negative":    oauthtest.Set("expires_in", -1),
		"neither token nor error": oauthtest.Remove(access),
		"token with a line break": oauthtest.Set(access, "abc\r\nX-Injected: yes"),
	} {
		faults[name] = edited(oauthtest.Token, f)
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			says := ""
			switch {
			case strings.HasPrefix(name, "token_type"):
				says = name + ", want Bearer"
			case name == "neither token nor error":
				says = "the response is not a token response"
			}
			s, source := scenario{fault: f, says: says,
				script: "search:token token=1 other=0"}.play(t)
			if calls := s.resource.Count(oauthtest.Call); source.HasToken() || calls != 1 {
				t.Errorf("somebody is logged in, or has made %d calls", calls)
			}
			registered := 1
			if name == "invalid_client" {
				registered = 2
			}
			s.run(source, fmt.Sprintf("behave age=1m search register=%d", registered))
		})
	}
}

func TestWhatIsLegalLogsIn(t *testing.T) {
	all := map[string]scenario{}
	for name, f := range map[string]fault{
		"iss is sent and not advertised": edited(oauthtest.Metadata, oauthtest.Remove(sendsIssuer)),
		"token without expires_in":       edited(oauthtest.Token, oauthtest.Remove("expires_in")),
		"token without scope":            edited(oauthtest.Token, oauthtest.Remove("scope")),
		"several schemes in one header": challenged(func(right string) []string {
			return []string{`Negotiate YIIabc==, Basic realm="a, b=\"c\"", ` + right +
				`, Digest realm="x", nonce="n"`}
		}),
		"several headers": challenged(func(right string) []string {
			return []string{`Basic realm="x"`, right, "Negotiate"}
		}),
		"commas in quotes": challengedWith("Bearer ",
			`bearer realm="a, Basic scope=\"x\", b" , , `),
	} {
		all[name] = scenario{fault: f, script: "write"}
	}
	play(t, all)
}

func TestRegistrationThatFailsSendsNobodyToAPage(t *testing.T) {
	const register, code = oauthtest.Register, "invalid_client_metadata"
	for name, f := range map[string]fault{
		code:         replied(register, refusal(http.StatusBadRequest, code)),
		"made_up":    replied(register, refusal(http.StatusBadRequest, "made_up")),
		"status 503": replied(register, unavailable),
		"a page":     replied(register, page),
		"status 400, a client_id": replied(register, oauthtest.Answer{
			Status: http.StatusBadRequest, Body: `{"client_id":"c"}`}),
		"no client_id": edited(register, oauthtest.Remove("client_id")),
		"unknown authentication method": edited(register,
			oauthtest.Set("token_endpoint_auth_method", "made_up")),
		"secret has expired": edited(register,
			oauthtest.Set("token_endpoint_auth_method", "client_secret_basic"),
			oauthtest.Set("client_secret", "secret"), oauthtest.Set("client_secret_expires_at",
				time.Now().Add(-time.Hour).Unix())),
	} {
		t.Run(name, func(t *testing.T) {
			s, source := scenario{fault: f}.play(t)
			text := fmt.Sprint(s.run(source, "search:registration authorize=0"))
			if strings.Contains(text, code+"\n") != (name == code) ||
				strings.Contains(text, "\n\n") {
				t.Errorf("got %q, want the code where it is a known one", text)
			}
			s.run(source, "behave age=1m search")
		})
	}
}

// If a refresh fails, only a well-formed error leads to a login.
func TestRefreshThatFails(t *testing.T) {
	const refresh = oauthtest.Refresh
	const again, kept = "search authorize=2", "search:retryable behave age=1m search authorize=1"
	const spent = "search:retryable behave age=1m search authorize=2" // the refresh token is used up
	for name, c := range map[string]struct {
		fault  fault
		script string
	}{
		"invalid_grant": {replied(refresh, refusal(http.StatusBadRequest, "invalid_grant")), again},
		"an error of no standard": {replied(refresh, refusal(http.StatusBadRequest, "made_up")),
			again},
		"an error with 200": {replied(refresh, refusal(http.StatusOK, "bad_refresh_token")), again},
		"status 503":        {replied(refresh, unavailable), kept},
		"a page with 200":   {replied(refresh, page), kept},
		"does not answer":   {rewritten(refresh, hangs), kept},
		"answer lost": {rewritten(refresh, func(_ *oauthtest.Request,
			next oauthtest.Next) *oauthtest.Answer {
			next()
			return nil
		}), spent},
		"a member twice": {edited(refresh, twice("access_token", nil)), spent},
		"another type":   {edited(refresh, oauthtest.Set("token_type", "mac")), spent},
	} {
		t.Run(name, func(t *testing.T) {
			scenario{before: "search expire", fault: c.fault, script: c.script +
				" register=1"}.play(t)
		})
	}
	s, source := scenario{before: "search expire", fault: replied(refresh, tooManyFor17)}.play(t)
	failed, ok := errors.AsType[*oauth.TokenError](s.run(source, "search:retryable"))
	if !ok || failed.RetryAfter != 17*time.Second {
		t.Errorf("got %v, want a time to try again", failed)
	}
	s.run(source, "behave age=1m search authorize=1 register=1")
}

var tooManyFor17 = oauthtest.Answer{Status: http.StatusTooManyRequests,
	Header: http.Header{"Retry-After": {"17"}}}

// The server or the user refuses a login.
func TestLoginsThatAreRefused(t *testing.T) {
	forbidden := refusing(http.StatusForbidden)
	play(t, map[string]scenario{
		"a client that is not known any more registers again": {before: "search expire",
			fault:  replied(oauthtest.Refresh, refusal(http.StatusUnauthorized, "invalid_client")),
			script: "search register=2 authorize=2"},
		"a server that wants more for ever": {fault: forbidden,
			script: "search:scopes*3 authorize=2 register=1"},
		"a server that grants less": {fault: rewritten(oauthtest.Authorize, func(r *oauthtest.Request,
			next oauthtest.Next) *oauthtest.Answer {
			r.Form.Set("scope", "read")
			return next()
		}), script: "search write:scopes",
			says: `needs the scopes "read write", and "read" were granted`},
		"two logins for more scopes in ten minutes": {before: "search",
			fault: both(forbidden, wantsMore), script: "search:scopes*3 authorize=3 " +
				"refusals=9m59s search:error authorize=3 refusals=1s search:error authorize=5"},
		"a person who says no is not asked again, and keeps what was granted": {before: "search deny",
			script: "write:denied*3 search authorize=2 token=1"},
		"nor for other scopes for ever": {fault: wantsMore,
			script: "deny search:denied*6 authorize=3 token=0"},
		"a server of new scopes does not get a page each": {
			fault:  both(replied(oauthtest.Token, unavailable), wantsMore),
			script: "search:error*6 authorize=3"},
		"a denial lasts five minutes": {script: "deny search:denied age=4m59s search:denied " +
			"authorize=1 age=1s search:denied authorize=2"},
		"a token that ends early is refreshed": {
			script: "search expire search expire search authorize=1 refresh=2"},
		"a server that refuses every token": {fault: refusing(http.StatusUnauthorized),
			script: "search:new*3 authorize=1 refresh=0 behave search authorize=1 refresh=0"},
		"for five minutes": {fault: refusing(http.StatusUnauthorized),
			script: "search:new refusals=4m59s search:error authorize=1 refresh=0 " +
				"refusals=1s search:error authorize=1 refresh=1"},
		"the code means that scopes would not help": {before: "search",
			fault:  challengedWith("insufficient_scope", "invalid_request"),
			script: "write:403 authorize=1"},
		"another scheme is asked for": {before: "search",
			fault:  challenged(func(string) []string { return []string{`Basic realm="x"`} }),
			script: "write:403 authorize=1"},
	})
}

// A 403 without an error code leads to no login: the error reports the missing code.
func TestForbiddenWithoutACode(t *testing.T) {
	s, source := newLogin(t)
	challengedWith(`error="insufficient_scope", `, "")(s)
	err := s.run(source, "write:error authorize=1")
	status, ok := errors.AsType[*clienthttp.StatusError](err)
	if !ok || status.Status != http.StatusForbidden ||
		!strings.Contains(err.Error(), "has no error code") {
		t.Errorf("got %v", err)
	}
}

// If challenges say nothing, the metadata is still found, and a 403 leads to no login.
func TestChallengesThatSayNothing(t *testing.T) {
	for name, f := range map[string]fault{
		"none":                         challenged(func(string) []string { return nil }),
		"one that ends in a quote":     edited(oauthtest.Call, spoilChallenge(`, x="`)),
		"one that ends in a backslash": edited(oauthtest.Call, spoilChallenge(`, x="\`)),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil, func(o *oauthtest.ResourceOptions) {
				o.Supported = []string{"read"}
			})
			f(s)
			s.run(s.source(), "search write:403 authorize=1")
		})
	}
}

func spoilChallenge(end string) edit {
	return func(a *oauthtest.Answer) {
		if right := a.Header.Get("WWW-Authenticate"); right != "" {
			a.Header.Set("WWW-Authenticate", right+end)
		}
	}
}

// If a new token is refused, the error quotes the start of the refusal.
func TestRefusalsSayWhy(t *testing.T) {
	for description, want := range map[string]string{
		`audience: the token must be for x`: `, and says "audience: the token must be for x": log`,
		"\u202eé":                           `, and says "\u202e\u00e9": log`,
		strings.Repeat("x", 1000):           `x\u2026": log`,
		"":                                  " has issued a moment ago: log",
	} {
		err := fmt.Sprint(scenarioError(t, scenario{fault: both(refusing(http.StatusUnauthorized),
			edited(oauthtest.Call, spoilChallenge(`, error="invalid_token", error_description="`+
				description+`"`))), script: "search:new"}))
		if !strings.Contains(err, want) || len(err) > 600 {
			t.Errorf("%q: got %v", description, err)
		}
	}
	lack := &oauth.InsufficientScopeError{Needed: []string{"read"}, Granted: []string{"read", "x"}}
	wantText(t, lack, "does not find them in the token")
}

func scenarioError(t *testing.T, c scenario) error {
	t.Helper()
	script := c.script
	c.script = ""
	s, source := c.play(t)
	return s.run(source, script)
}

type panickingPerson struct{}

func (panickingPerson) Open(context.Context, string, string) (oauth.Receiver, error) {
	panic("a bug of the host")
}

// A host whose hook panics gets an error with the stack, and can make other calls.
func TestHostThatPanics(t *testing.T) {
	s := newSite(t, nil)
	source := s.source(func(o *oauth.Options) { o.Interaction = panickingPerson{} })
	for range 2 {
		bug, ok := errors.AsType[*client.PanicError](s.call(source, "search"))
		if !ok || !strings.Contains(string(bug.Stack), "panickingPerson") {
			t.Errorf("got %v", bug)
		}
	}
}

// If the server moves to another authorization server, that one gets nothing of the first one's.
func TestServerThatMovesToAnotherAuthorizationServer(t *testing.T) {
	s, source := newLogin(t)
	old := append(s.as.Secrets(), s.as.Requests(oauthtest.Authorize)[0].Form.Get("client_id"))
	second := oauthtest.NewServer(t, nil)
	s.resource.SetServers(second)
	s.run(source, "search refresh=0")
	for _, endpoint := range []oauthtest.Endpoint{oauthtest.Register, oauthtest.Authorize,
		oauthtest.Token, oauthtest.Refresh} {
		for _, r := range second.Requests(endpoint) {
			text := r.URL.String() + r.Form.Encode() + r.Header.Get("Authorization") +
				string(r.Body)
			for _, secret := range old {
				if strings.Contains(text, secret) {
					t.Errorf("%s got something of the old one: %s", endpoint, text)
				}
			}
		}
	}
}

func failedPages() map[string]scenario {
	closed := errors.New("the window was closed")
	return map[string]scenario{
		"an error of the issuer": {fault: edited(oauthtest.Authorize,
			oauthtest.Failure("server_error")), script: "login", says: "server_error"},
		"the code is refused": {fault: replied(oauthtest.Token,
			refusal(http.StatusBadRequest, "invalid_grant")), script: "token"},
		"an error with 200": {fault: replied(oauthtest.Token, refusal(http.StatusOK, "made_up")),
			script: "token"},
		"a foreign iss": {fault: edited(oauthtest.Authorize, oauthtest.Set("iss", foreignIssuer)),
			script: "callback"},
		"the page is closed": {opts: func(s *site, o *oauth.Options) {
			o.Interaction = &oauth.Loopback{Browse: func(ctx context.Context, page string) error {
				return errors.Join(s.browser.Open(ctx, "about:"), closed)
			}}
		}, script: "error", says: closed.Error()},
	}
}

// After any login failure only one page opens per minute.
func TestOnePageAMinute(t *testing.T) {
	all := failedPages()
	for name, c := range maps.Clone(all) {
		c.script = fmt.Sprintf("search:%[1]s age=59s search:paused*5 opened=1 age=1s search:%[1]s "+
			"opened=2", c.script)
		all[name] = c
	}
	play(t, all)
}

// Each end of a login and of a refresh is an event with its error.
func TestEndsAreObserved(t *testing.T) {
	s := newSite(t, nil)
	var events []string
	source := s.source(func(o *oauth.Options) {
		o.Observe = func(e oauth.LoginEvent) {
			if e.Kind != oauth.ClientCreated {
				events = append(events, fmt.Sprint(e.Kind, " ", e.Err != nil))
			}
		}
	})
	refused := refusal(http.StatusBadRequest, "invalid_grant")
	for _, step := range []struct {
		name   string
		fault  fault
		script string
		want   string
	}{
		{"denied", nil, "deny", "login_began false, login_ended true"},
		{"the code is refused", replied(oauthtest.Token, refused), "",
			"login_began false, login_ended true"},
		{"a foreign iss", edited(oauthtest.Authorize, oauthtest.Set("iss", foreignIssuer)), "",
			"login_began false, login_ended true"},
		{"logged in", nil, "", "login_began false, login_ended false"},
		{"refreshed", nil, "expire", "refreshed false"},
		{"the issuer is down", replied(oauthtest.Refresh, unavailable), "expire", "refreshed true"},
		{"the refresh is refused", replied(oauthtest.Refresh, refusal(http.StatusOK, "made_up")),
			"", "refreshed true, login_began false, login_ended false"},
		{"the next call", nil, "logout", "logged_out false, login_began false, login_ended false"},
	} {
		events = nil
		s.run(source, "behave age=5m "+step.script)
		if step.fault != nil {
			step.fault(s)
		}
		s.run(source, "search:any")
		wantEqual(t, step.name, strings.Join(events, ", "), step.want)
	}
}

// If a login is given up, later calls open no page, and get no context error.
func TestLoginThatIsGivenUp(t *testing.T) {
	s := newSite(t, nil)
	pages := 0
	ctx, cancel := context.WithCancel(t.Context())
	source := s.source(func(o *oauth.Options) {
		o.Interaction = &oauth.Loopback{Browse: func(context.Context, string) error {
			pages++
			cancel()
			return nil
		}}
	})
	wantIs(t, "error", s.callWith(ctx, source, "search"), context.Canceled)
	for range 3 {
		err := s.run(source, "search:paused")
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is the error of a context that is not the caller's", err)
		}
	}
	wantEqual(t, "pages", pages, 1)
}

// The pause does not delay a login at another issuer, for new scopes, or after Logout.
func TestPauseIsForOneLogin(t *testing.T) {
	s, source := newLogin(t)
	replied(oauthtest.Token, refusal(http.StatusBadRequest, "invalid_grant"))(s)
	s.run(source, "write:token behave write:paused revoke search") // for scope read

	other := oauthtest.NewServer(t, nil)
	s.resource.SetServers(other)
	s.run(source, "write")

	replied(oauthtest.Token, unavailable)(s)
	s.resource.SetServers(s.as)
	s.run(source, "search:token logout behave search")
}

// If refreshes stay unreadable, a login follows, unless the endpoint is down.
func TestRefreshThatCannotBeReadForEver(t *testing.T) {
	all := map[string]scenario{}
	for name, c := range map[string]struct {
		reply  oauthtest.Answer
		script string
	}{
		"a page":            {page, "search authorize=2"},
		"a page with 404":   {oauthtest.Answer{Status: http.StatusNotFound}, "search authorize=2"},
		"down":              {unavailable, "search:error authorize=1"},
		"too many requests": {tooManyFor17, "search:error authorize=1"},
		"another type of token": {oauthtest.Answer{
			Body: `{"access_token":"a","token_type":"mac"}`}, "search authorize=2"},
	} {
		all[name] = scenario{before: "search expire", fault: replied(oauthtest.Refresh, c.reply),
			script: "search:retryable*2 " + c.script}
	}
	play(t, all)
}

// The server has moved to another issuer, and the old one's token has expired.
func TestIssuerThatIsGone(t *testing.T) {
	for outcome, f := range map[string]fault{
		"retryable": replied(oauthtest.Refresh, unavailable),
		"metadata":  replied(oauthtest.Metadata, unavailable),
	} {
		s, store := newSite(t, nil), oauth.NewMemoryStore()
		s.run(s.source(storedIn(store)), "search")
		other := oauthtest.NewServer(t, nil)
		s.resource.SetServers(other)
		f(s)
		source := s.source(storedIn(expiring(store))) // this source has not read the metadata
		s.run(source, "search:"+outcome+"*2 search")
		if n := other.Count(oauthtest.Token); n != 1 {
			t.Errorf("%s: %d logins at the other issuer, want 1", outcome, n)
		}
	}
}
