package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// errGaveUp ends a login whose person has looked at a page to its end and was not logged in.
var errGaveUp = errors.New("the person gave up")

// An impatientPerson opens one page and gives up when that leads to nothing.
type impatientPerson struct {
	browser *oauthtest.Browser
	looking *sync.Mutex // held while they do
}

func (p impatientPerson) Open(ctx context.Context, r oauth.Redirect) (oauth.Receiver, error) {
	looked := make(chan struct{})
	loopback := &oauth.Loopback{Browse: func(ctx context.Context, page string) error {
		p.looking.Lock()
		defer p.looking.Unlock()
		defer close(looked)
		err := p.browser.Open(ctx, page)
		p.browser.Wait()
		return err
	}}
	receiver, err := loopback.Open(ctx, r)
	return impatientReceiver{receiver, looked}, err
}

type impatientReceiver struct {
	oauth.Receiver
	looked chan struct{}
}

func (r impatientReceiver) Receive(ctx context.Context, l *oauth.Login,
	check func(*url.URL) error) (*url.URL, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.looked:
			cancel(errGaveUp)
		case <-ctx.Done():
		}
	}()
	return r.Receiver.Receive(ctx, l, check)
}

// person makes a source whose person gives up, and whose requests do not wait for long.
func (s *site) person(t testing.TB, change func(o *oauth.Options)) *oauth.Source {
	t.Helper()
	return s.source(t, func(o *oauth.Options) {
		o.Interaction = impatientPerson{s.browser, &s.looking}
		if change != nil {
			change(o)
		}
	})
}

// wantNoSecrets fails if a text has a secret of the authorization server.
func (s *site) wantNoSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range s.as.Secrets() {
		if secret != "" && strings.Contains(text, secret) {
			t.Errorf("a secret is in %s", text)
		}
	}
	if strings.Contains(text, foreignText) {
		t.Errorf("a foreign text is in %s", text)
	}
}

// A wantedError is what has to become of a call.
type wantedError struct {
	name string
	is   func(err error) bool
}

func isA[T error](err error) bool { _, ok := errors.AsType[T](err); return ok }

var (
	noError       = wantedError{"no error", func(err error) bool { return err == nil }}
	metadataError = wantedKind(oauth.ErrMetadata, "")
	issuerError   = wantedKind(oauth.ErrUntrusted, "the issuer is ")
	resourceError = wantedKind(oauth.ErrUntrusted, "the metadata is about the resource ")
	blockedError  = wantedKind(oauth.ErrUntrusted, "must not be asked")
	callbackError = wantedKind(oauth.ErrCallback, "")
	tokenError    = wantedError{"a TokenError", isA[*oauth.TokenError]}
	retryable     = wantedError{"a TokenError that is retryable", func(err error) bool {
		failed, ok := errors.AsType[*oauth.TokenError](err)
		return ok && failed.Retryable
	}}
	registrationError = wantedKind(oauth.ErrRegistration, "")
)

// wantedKind wants an error of a class whose text has a part.
func wantedKind(kind oauth.ErrorKind, part string) wantedError {
	return wantedError{fmt.Sprintf("%s (%q)", kind, part), func(err error) bool {
		return errors.Is(err, kind) && strings.Contains(err.Error(), part)
	}}
}

func (w wantedError) check(t *testing.T, err error) {
	t.Helper()
	if !w.is(err) {
		t.Errorf("got %v, want %s", err, w.name)
	}
}

// spoiled returns a site with a fault, and a source whose person gives up. It does not wait for
// long if a server hangs.
func spoiled(t *testing.T, f fault, name string) (*site, *oauth.Source) {
	t.Helper()
	s := newSite(t, nil, nil)
	f(s)
	return s, s.person(t, func(o *oauth.Options) {
		if name == "does not answer" {
			o.HTTPClient = &http.Client{Timeout: time.Second}
		}
	})
}

// mended ends the faults, and has the person log in after a minute.
func (s *site) mended(t *testing.T, source *oauth.Source) {
	t.Helper()
	s.as.Behave()
	s.resource.Behave()
	source.AgeFailures(time.Minute)
	noError.check(t, s.call(t.Context(), source, "search"))
}

// wantNoLogin fails if the person was sent to a page, or the authorization server was asked for
// anything but metadata.
func (s *site) wantNoLogin(t *testing.T) {
	t.Helper()
	s.wantCounts(t, counts{oauthtest.Authorize: 0, oauthtest.Register: 0,
		oauthtest.Token: 0, oauthtest.Other: 0})
	if opened := s.browser.Opened(); len(opened) > 0 {
		t.Errorf("the person was sent to %q", opened)
	}
}

func TestMetadataThatIsRefusedLeadsToNoLogin(t *testing.T) {
	const (
		authorize = "authorization_endpoint"
		token     = "token_endpoint"
		methods   = "code_challenge_methods_supported"
	)
	test := func(name string, f fault, want wantedError) {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, f, name)
			want.check(t, s.call(t.Context(), source, "search"))
			places := 1
			switch name { // answers of servers that do not know the first place
			case "redirects", "a page", "status 503", "is not an object":
				places = 2
			}
			s.wantCounts(t, counts{oauthtest.Metadata: places})
			s.wantNoLogin(t)
			s.mended(t, source)
		})
	}
	for name, edit := range map[string]docEdit{
		"a slash more":  suffix("issuer", "/"),
		"other letters": change("issuer", strings.ToUpper),
		"another port":  change("issuer", otherPort),
		"somebody else": oauthtest.Set("issuer", foreignIssuer),
	} {
		test("issuer: "+name, edited(oauthtest.Metadata, edit), issuerError)
	}
	for name, edit := range map[string]docEdit{
		"no code challenge methods":    oauthtest.Remove(methods),
		"plain code challenges only":   oauthtest.Set(methods, []string{"plain"}),
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
		test(name, edited(oauthtest.Metadata, edit), metadataError)
	}
	for name, f := range documentFaults(oauthtest.Metadata, token) {
		test(name, f, metadataError)
	}
}

func TestResourceMetadataThatIsRefusedLeadsToNoLogin(t *testing.T) {
	test := func(name string, f fault, want wantedError) {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, f, name)
			want.check(t, s.call(t.Context(), source, "search"))
			s.wantCounts(t, counts{oauthtest.Metadata: 0})
			s.wantNoLogin(t)
			s.mended(t, source)
		})
	}
	for name, edit := range foreignResources() {
		test("resource: "+name, edited(oauthtest.ResourceMetadata, edit), resourceError)
	}
	const servers = "authorization_servers"
	for name, value := range map[string]any{
		"none": []string{}, "a wrong type": foreignIssuer, "empty": []string{""},
		"javascript":           []string{"javascript:alert(1)"},
		"no TLS":               []string{"http://attacker.example"},
		"a link-local address": []string{"http://169.254.169.254"},
		"a thousand":           slices.Repeat([]string{"http://127.0.0.1:1/tenant"}, 1000),
	} {
		test("authorization servers: "+name, edited(oauthtest.ResourceMetadata,
			oauthtest.Set(servers, value)), metadataError)
	}
	test("authorization servers: a query", edited(oauthtest.ResourceMetadata,
		oauthtest.Set(servers, []string{"http://127.0.0.1:1?tenant=1"})),
		wantedKind(oauth.ErrMetadata, "URL has a query"))
	for name, f := range documentFaults(oauthtest.ResourceMetadata, servers) {
		test(name, f, metadataError)
	}
	const path = "/.well-known/oauth-protected-resource/mcp"
	for _, address := range []string{foreignIssuer + path, "http://169.254.169.254" + path,
		"javascript:alert(1)"} {
		test("metadata at "+address, metadataAt(address), metadataError)
	}
}

// foreignResources are edits of metadata that is about another resource.
func foreignResources() map[string]docEdit {
	const resource = "resource"
	return map[string]docEdit{
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

// TestCallbackThatIsNotTheAnswer: a page that is not the answer to the login is refused, and its
// code is never sent to the authorization server.
func TestCallbackThatIsNotTheAnswer(t *testing.T) {
	for name, edit := range map[string]docEdit{
		"advertised iss missing":         oauthtest.Remove("iss"),
		"iss of somebody else":           oauthtest.Set("iss", foreignIssuer),
		"iss with a slash more":          suffix("iss", "/"),
		"foreign iss and not advertised": oauthtest.Set("iss", foreignIssuer),
		"iss twice":                      twice("iss"),
		"state missing":                  oauthtest.Remove("state"),
		"state wrong":                    oauthtest.Set("state", "another"),
		"state twice":                    twice("state"),
		"code missing":                   oauthtest.Remove("code"),
		"code twice":                     oauthtest.Add("code", "another"),
		"code and error":                 oauthtest.Add("error", "access_denied"),
		"error with foreign iss": func(d *oauthtest.Document) {
			oauthtest.Remove("code")(d)
			d.Add("error", "access_denied")
			d.Add("error_description", foreignText)
			d.Set("iss", foreignIssuer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, edited(oauthtest.Authorize, edit), name)
			if strings.HasSuffix(name, "not advertised") {
				s.as.Edit(oauthtest.Metadata,
					oauthtest.Remove("authorization_response_iss_parameter_supported"))
			}
			err := s.call(t.Context(), source, "search")
			callbackError.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			s.wantCounts(t, counts{oauthtest.Authorize: 1, oauthtest.Token: 0})
			pages := s.browser.Pages()
			last := pages[len(pages)-1]
			if last.Status != http.StatusBadRequest {
				t.Errorf("the person saw status %d", last.Status)
			}
			s.wantNoSecrets(t, last.Body)
		})
	}
}

// TestTokenAnswerThatIsRefused: a code is sent once, and nothing of the answer is kept.
func TestTokenAnswerThatIsRefused(t *testing.T) {
	const access = "access_token"
	faults := documentFaults(oauthtest.Token, access)
	faults["invalid_client"] = replied(oauthtest.Token,
		refusal(http.StatusUnauthorized, "invalid_client"))
	for name, edit := range map[string]docEdit{
		"of another type":         oauthtest.Set("token_type", "mac"),
		"without a type":          oauthtest.Remove("token_type"),
		"lifetime is a word":      oauthtest.Set("expires_in", "soon"),
		"lifetime is negative":    oauthtest.Set("expires_in", -1),
		"none":                    oauthtest.Remove(access),
		"token with a line break": oauthtest.Set(access, "abc\r\nX-Injected: yes"),
	} {
		faults[name] = edited(oauthtest.Token, edit)
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, f, name)
			before := source.Partition(t.Context())
			err := s.call(t.Context(), source, "search")
			tokenError.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			s.wantCounts(t, counts{oauthtest.Token: 1, oauthtest.Other: 0})
			if source.Partition(t.Context()) != before {
				t.Error("somebody is logged in")
			}
			s.mended(t, source)
			registered := 1 // a registration is forgotten when it is not known any more
			if name == "invalid_client" {
				registered = 2
			}
			s.wantCounts(t, counts{oauthtest.Register: registered})
		})
	}
}

func TestWhatIsLegalLogsIn(t *testing.T) {
	for name, f := range map[string]fault{
		"iss is sent and not advertised": edited(oauthtest.Metadata,
			oauthtest.Remove("authorization_response_iss_parameter_supported")),
		"token without expires_in": edited(oauthtest.Token, oauthtest.Remove("expires_in")),
		"token without scope":      edited(oauthtest.Token, oauthtest.Remove("scope")),
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
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, f, name)
			noError.check(t, s.call(t.Context(), source, "write"))
		})
	}
}

func TestRegistrationThatFailsSendsNobodyToAPage(t *testing.T) {
	const register = oauthtest.Register
	for name, f := range map[string]fault{
		"invalid_client_metadata": replied(register,
			refusal(http.StatusBadRequest, "invalid_client_metadata")),
		"made_up":    replied(register, refusal(http.StatusBadRequest, "made_up")),
		"status 503": replied(register, unavailable),
		"a page":     replied(register, page),
		"status 400, a client_id": replied(register, oauthtest.Reply{
			Status: http.StatusBadRequest, Body: `{"client_id":"c"}`}),
		"no client_id": edited(register, oauthtest.Remove("client_id")),
		"unknown authentication method": edited(register,
			oauthtest.Set("token_endpoint_auth_method", "made_up")),
		"secret has expired": func(s *site) {
			s.as.Edit(register, oauthtest.Set("token_endpoint_auth_method", "client_secret_basic"))
			s.as.Edit(register, oauthtest.Set("client_secret", "secret"))
			s.as.Edit(register, oauthtest.Set("client_secret_expires_at",
				time.Now().Add(-time.Hour).Unix()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, f, name)
			err := s.call(t.Context(), source, "search")
			registrationError.check(t, err)
			text := fmt.Sprint(err)
			s.wantNoSecrets(t, text)
			const code = "invalid_client_metadata"
			if strings.Contains(text, code+"\n") != (name == code) ||
				strings.Contains(text, "\n\n") {
				t.Errorf("got %q, want the code where it is a known one", text)
			}
			s.wantCounts(t, counts{oauthtest.Authorize: 0})
			s.mended(t, source)
		})
	}
}

// TestRefreshThatFails: after a well-formed error the person logs in again. Whatever else goes
// wrong, nobody has to.
func TestRefreshThatFails(t *testing.T) {
	const refresh, retryAfter = oauthtest.Refresh, 17
	for name, test := range map[string]struct {
		fault  fault
		want   wantedError
		logins int
	}{
		"invalid_grant": {replied(refresh, refusal(http.StatusBadRequest, "invalid_grant")),
			noError, 2},
		"an error of no standard": {replied(refresh, refusal(http.StatusBadRequest, "made_up")),
			noError, 2},
		"an error with 200": {replied(refresh, refusal(http.StatusOK, "bad_refresh_token")),
			noError, 2},
		"status 503": {replied(refresh, unavailable), retryable, 1},
		"status 429": {replied(refresh, oauthtest.Reply{Status: http.StatusTooManyRequests,
			Header: http.Header{"Retry-After": {fmt.Sprint(retryAfter)}}}), retryable, 1},
		"a page with 200": {replied(refresh, page), retryable, 1},
		"does not answer": {replied(refresh, oauthtest.Reply{Hangs: true}), retryable, 1},
		// After these the refresh token is used up.
		"answer lost":    {replied(refresh, oauthtest.Reply{Lost: true}), retryable, 2},
		"a member twice": {edited(refresh, twice("access_token")), retryable, 2},
		"another type":   {edited(refresh, oauthtest.Set("token_type", "mac")), retryable, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, source := spoiled(t, func(*site) {}, name)
			noError.check(t, s.call(t.Context(), source, "search"))
			s.as.Expire()
			test.fault(s)
			err := s.call(t.Context(), source, "search")
			test.want.check(t, err)
			s.wantNoSecrets(t, fmt.Sprint(err))
			failed, ok := errors.AsType[*oauth.TokenError](err)
			if name == "status 429" && (!ok || failed.RetryAfter != retryAfter*time.Second) {
				t.Errorf("got %v, want a time to try again", err)
			}
			s.mended(t, source)
			s.wantCounts(t, counts{oauthtest.Authorize: test.logins, oauthtest.Register: 1})
		})
	}
}

// TestRegistrationThatIsForgotten: a client that is not known any more registers again and has the
// person log in.
func TestRegistrationThatIsForgotten(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	s.as.Expire()
	s.as.RemoveClients()
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Register: 2, oauthtest.Authorize: 2})
}

// TestServerThatWantsMoreForEver: after the login and one for more scopes there is no other.
func TestServerThatWantsMoreForEver(t *testing.T) {
	s := newSite(t, nil, nil)
	s.resource.Refuse(http.StatusForbidden)
	source := s.person(t, nil)
	for range 3 {
		wantedError{"a ScopeError", isA[*oauth.InsufficientScopeError]}.check(t,
			s.call(t.Context(), source, "search"))
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 2, oauthtest.Register: 1})
}

// TestServerThatWantsSomethingElseEachTime: no operation leads to more than two logins for scopes
// within ten minutes.
func TestServerThatWantsSomethingElseEachTime(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	n := 0
	s.resource.Refuse(http.StatusForbidden)
	s.resource.Challenge(func(_ int, right string) []string {
		n++
		return []string{`Bearer error="insufficient_scope", scope="more` + strings.Repeat("!", n) +
			`", ` + right[strings.Index(right, "resource_metadata"):]}
	})
	for range 3 {
		wantedError{"a ScopeError", isA[*oauth.InsufficientScopeError]}.check(t,
			s.call(t.Context(), source, "search"))
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 3})
	source.AgeRefusals(10*time.Minute - time.Second)
	_ = s.call(t.Context(), source, "search")
	s.wantCounts(t, counts{oauthtest.Authorize: 3})
	source.AgeRefusals(time.Second)
	_ = s.call(t.Context(), source, "search")
	s.wantCounts(t, counts{oauthtest.Authorize: 5})
}

// A panickingPerson is an Interaction with a bug.
type panickingPerson struct{}

func (panickingPerson) Open(context.Context, oauth.Redirect) (oauth.Receiver, error) {
	panic("a bug of the host")
}

// TestHostThatPanics gets an error with the stack, and can make other calls.
func TestHostThatPanics(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, func(o *oauth.Options) { o.Interaction = panickingPerson{} })
	for range 2 {
		var bug *client.PanicError
		err := s.call(t.Context(), source, "search")
		if !errors.As(err, &bug) || !strings.Contains(string(bug.Stack), "panickingPerson") {
			t.Errorf("got %v", err)
		}
	}
}

// TestPersonWhoSaysNo is not asked again for the same, and keeps what was granted before.
func TestPersonWhoSaysNo(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	s.as.Deny(true)
	for range 3 {
		if err := s.call(t.Context(), source, "write"); !errors.Is(err, oauth.ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 2, oauthtest.Token: 1})
}

// TestServerThatWantsAnotherLoginEachTime: a person who says no to several is left alone, whatever
// scopes the next one is for.
func TestServerThatWantsAnotherLoginEachTime(t *testing.T) {
	s := newSite(t, nil, nil)
	source := s.person(t, nil)
	s.as.Deny(true)
	n := 0
	s.resource.Challenge(func(_ int, right string) []string {
		n++
		return []string{`Bearer scope="more` + strings.Repeat("!", n) + `", ` +
			right[strings.Index(right, "resource_metadata"):]}
	})
	for range 6 {
		if err := s.call(t.Context(), source, "search"); !errors.Is(err, oauth.ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
	s.wantCounts(t, counts{oauthtest.Authorize: 3, oauthtest.Token: 0})
}

// TestServerThatMovesToAnotherAuthorizationServer: nothing of the first is sent to the second.
func TestServerThatMovesToAnotherAuthorizationServer(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	old := s.as.Secrets()
	second := oauthtest.NewServer(t, nil)
	s.resource.SetServers(second)
	noError.check(t, s.call(t.Context(), source, "search"))
	if n := s.as.Count(oauthtest.Refresh); n != 0 {
		t.Errorf("%d refreshes at the old one", n)
	}
	ids := s.as.ClientIDs()
	for _, endpoint := range []oauthtest.Endpoint{oauthtest.Register, oauthtest.Authorize,
		oauthtest.Token, oauthtest.Refresh} {
		for _, r := range second.Requests(endpoint) {
			text := r.URL.String() + r.Form.Encode() + r.Header.Get("Authorization") +
				string(r.Body)
			for _, secret := range slices.Concat(old, ids) {
				if secret != "" && strings.Contains(text, secret) {
					t.Errorf("%s got something of the old one: %s", endpoint, text)
				}
			}
		}
	}
}
