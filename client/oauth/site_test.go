package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		if endpoint := os.Getenv(childEndpoint); endpoint != "" {
			refreshOften(folder, endpoint)
		} else {
			holdLock(folder)
		}
		return
	}
	testkit.Main(m)
}

const (
	foreignText   = "Call the number on this page to repair your account" // never shown
	foreignIssuer = "https://attacker.example"

	challengeMethods = "code_challenge_methods_supported"
	sendsIssuer      = "authorization_response_iss_parameter_supported"
	authMethods      = "token_endpoint_auth_methods_supported"
)

// A site is an authorization server, a resource (scope read; write for tool write), and a user.
type site struct {
	t        testing.TB
	as       *oauthtest.Server
	resource *oauthtest.Resource
	browser  *oauthtest.Browser
	looking  sync.Mutex // held while the user looks at a page
}

func newSite(t testing.TB, server *oauthtest.Options,
	change ...func(o *oauthtest.ResourceOptions)) *site {
	t.Helper()
	as := oauthtest.NewServer(t, server)
	resource := &oauthtest.ResourceOptions{Servers: []*oauthtest.Server{as},
		Scopes: []string{"read"}, Need: func(tool string) []string {
			if tool == "write" {
				return []string{"write"}
			}
			return nil
		}}
	for _, f := range change {
		f(resource)
	}
	return &site{t: t, as: as, resource: oauthtest.NewResource(t, resource),
		browser: oauthtest.NewBrowser(t)}
}

// source makes a source for the site. Its user gives up if a page leads nowhere.
func (s *site) source(changes ...func(o *oauth.Options)) *oauth.Source {
	s.t.Helper()
	opts := &oauth.Options{Interaction: impatientPerson{s},
		Client: oauth.ClientInfo{Name: "test"}}
	for _, change := range changes {
		change(opts)
	}
	source, err := oauth.New(s.resource.URL, opts)
	check(s.t, err)
	return source
}

func storedIn(store oauth.TokenStore) func(o *oauth.Options) {
	return func(o *oauth.Options) { o.Store = store }
}

// The function nobody removes the local user from a host's options.
func nobody(o *oauth.Options) { o.Interaction, o.RedirectURI = nil, "https://host.example/back" }

func newLogin(t testing.TB, changes ...func(o *oauth.Options)) (*site, *oauth.Source) {
	t.Helper()
	s := newSite(t, nil)
	source := s.source(changes...)
	s.run(source, "search")
	return s, source
}

// begin begins a login, and returns the URL at which the browser calls back.
func (s *site) begin(source *oauth.Source, cause error) (*oauth.Login, *url.URL) {
	s.t.Helper()
	login, err := source.Begin(s.t.Context(), cause)
	check(s.t, err)
	callback, err := s.browser.Visit(s.t.Context(), login.URL)
	check(s.t, err)
	return login, callback
}

func (s *site) register(o *oauth.Options) {
	s.as.AddClient(oauthtest.Client{ID: "me", Secret: "hush",
		RedirectURIs: []string{"http://127.0.0.1/callback"}})
	o.Registrations = []oauth.Registration{{Issuer: s.as.URL, ClientID: "me",
		ClientSecret: "hush"}}
}

func (s *site) post() clienthttp.Outgoing {
	u, err := url.Parse(s.resource.URL)
	check(s.t, err)
	return clienthttp.Outgoing{Method: http.MethodPost, URL: u, RPC: "tools/call", Target: "search"}
}

// call sends a request as clienthttp does, with the credentials of the source.
func (s *site) call(source *oauth.Source, tool string) error {
	return s.callWith(s.t.Context(), source, tool)
}

func (s *site) callWith(ctx context.Context, source *oauth.Source, tool string) error {
	out := s.post()
	out.Target = tool
	for attempt := 1; ; attempt++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.resource.URL,
			strings.NewReader(fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q}}`, tool)))
		check(s.t, err)
		sent, err := source.Credentials(ctx, out)
		if err != nil {
			return err
		}
		for name, values := range sent {
			r.Header[name] = values
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		again := false
		if (response.StatusCode == http.StatusUnauthorized ||
			response.StatusCode == http.StatusForbidden) && attempt < 4 {
			again, err = source.Refused(ctx, clienthttp.Refusal{Outgoing: out, Sent: sent,
				Status: response.StatusCode, Header: response.Header, Attempt: attempt})
		}
		if err != nil || !again {
			return errors.Join(err, fmt.Errorf("status %d", response.StatusCode))
		}
	}
}

// run runs the words of a script in order, and returns the last error:
//
//	search, write       a call of the tool, which must succeed
//	search:denied       a call with an outcome; see outcomes
//	search:denied*3     three such calls
//	expire, revoke      the access tokens, or all tokens, are no longer valid
//	deny                the user denies consent from now on
//	behave              the site has no faults from now on
//	logout              the login ends
//	age=1m              time passes for failed logins
//	refusals=1m         time passes for refused tokens and step-ups
//	authorize=2         an endpoint of the authorization server got so many requests
//	opened=2            the user was sent to so many pages
//
// No error may show a secret.
func (s *site) run(source *oauth.Source, script string) (last error) {
	s.t.Helper()
	for word := range strings.FieldsSeq(script) {
		step, times, _ := strings.Cut(word, "*")
		step, outcome, _ := strings.Cut(step, ":")
		name, value, _ := strings.Cut(step, "=")
		duration, _ := time.ParseDuration(value)
		switch name {
		case "search", "write":
			n, _ := strconv.Atoi(times)
			for range max(n, 1) {
				last = s.call(source, name)
				outcomes[outcome].check(s.t, last)
				s.wantNoSecrets(fmt.Sprint(last))
			}
		case "expire":
			s.as.Expire()
		case "revoke":
			s.as.RevokeAll()
		case "deny":
			s.as.Edit(oauthtest.Authorize, oauthtest.Failure("access_denied"))
		case "behave":
			s.as.Behave()
			s.resource.Behave()
		case "logout":
			noError.check(s.t, source.Logout(s.t.Context()))
		case "age":
			source.AgeFailures(duration)
		case "refusals":
			source.AgeRefusals(duration)
		default:
			got := s.as.Count(oauthtest.Endpoint(name))
			if name == "opened" {
				got = len(s.browser.Opened())
			}
			if want, err := strconv.Atoi(value); err != nil || got != want {
				s.t.Errorf("%s: got %d in %s", word, got, script)
			}
		}
	}
	return last
}

type scenario struct {
	server *oauthtest.Options
	before string // the script before the fault
	fault  fault
	opts   func(s *site, o *oauth.Options)
	script string
	says   string // part of the last error
}

func (c scenario) play(t *testing.T) (s *site, source *oauth.Source) {
	t.Helper()
	s = newSite(t, c.server)
	source = s.source(func(o *oauth.Options) {
		if strings.HasSuffix(t.Name(), "does_not_answer") {
			o.HTTPClient = &http.Client{Timeout: time.Second}
		}
		if c.opts != nil {
			c.opts(s, o)
		}
	})
	s.run(source, c.before)
	if c.fault != nil {
		c.fault(s)
	}
	wantText(t, s.run(source, c.script), c.says)
	return s, source
}

func wantText(t testing.TB, err error, part string) {
	t.Helper()
	testkit.WantPart(t, "the error", fmt.Sprint(err), part)
}

func play(t *testing.T, all map[string]scenario) {
	t.Helper()
	for name, c := range all {
		t.Run(name, func(t *testing.T) { c.play(t) })
	}
}

func (s *site) wantNoSecrets(text string) {
	s.t.Helper()
	for _, secret := range append(s.as.Secrets(), foreignText) {
		if strings.Contains(text, secret) {
			s.t.Errorf("a secret is in %s", text)
		}
	}
}

type wantedError struct {
	name string
	is   func(err error) bool
}

func isA[T error](err error) bool { _, ok := errors.AsType[T](err); return ok }

var (
	noError       = wantedError{"no error", func(err error) bool { return err == nil }}
	metadataError = wantedKind(oauth.ErrMetadata, "")
	blockedError  = wantedKind(oauth.ErrUntrusted, "must not be asked")
	callbackError = wantedKind(oauth.ErrCallback, "")
	tokenError    = wantedError{"a TokenError", isA[*oauth.TokenError]}
)

var outcomes = map[string]wantedError{
	"":         noError,
	"any":      {"an error or none", func(error) bool { return true }},
	"error":    {"an error", func(err error) bool { return err != nil }},
	"metadata": metadataError,
	"issuer":   wantedKind(oauth.ErrUntrusted, "the issuer is "),
	"resource": wantedKind(oauth.ErrUntrusted, "the metadata is about the resource "),
	"blocked":  blockedError,
	"callback": callbackError,
	"token":    tokenError,
	"retryable": {"a TokenError that is retryable", func(err error) bool {
		failed, ok := errors.AsType[*oauth.TokenError](err)
		return ok && failed.Retryable
	}},
	"final": {"a TokenError that is not retryable", func(err error) bool {
		failed, ok := errors.AsType[*oauth.TokenError](err)
		return ok && !failed.Retryable
	}},
	"registration": wantedKind(oauth.ErrRegistration, ""),
	"login":        wantedKind(oauth.ErrLogin, ""),
	"paused":       wantedKind(oauth.ErrLogin, "no other login begins"),
	"denied":       wantedKind(oauth.ErrDenied, ""),
	"store":        wantedKind(oauth.ErrStore, ""),
	"required":     {"a LoginRequiredError", isA[*oauth.LoginRequiredError]},
	"scopes":       {"a ScopeError", isA[*oauth.InsufficientScopeError]},
	"403": {"the status alone", func(err error) bool {
		return err != nil && err.Error() == "status 403"
	}},
	"new": {"a new token that is refused", func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "logging in again would not help")
	}},
}

func wantedKind(kind oauth.ErrorKind, part string) wantedError {
	return wantedError{fmt.Sprintf("%s (%q)", kind, part), func(err error) bool {
		return errors.Is(err, kind) && strings.Contains(err.Error(), part)
	}}
}

func (w wantedError) check(t testing.TB, err error) {
	t.Helper()
	if w.is == nil || !w.is(err) {
		t.Errorf("got %v, want %s", err, w.name)
	}
}

var (
	check     = testkit.NoError
	wantEqual = testkit.WantEqual
)

// errGaveUp ends the login of a user whose page leads nowhere.
var errGaveUp = errors.New("the person gave up")

// An impatientPerson opens one page and gives up if it leads nowhere.
type impatientPerson struct{ s *site }

func (p impatientPerson) Open(ctx context.Context, path, last string) (oauth.Receiver, error) {
	looked := make(chan struct{})
	loopback := &oauth.Loopback{Browse: func(ctx context.Context, page string) error {
		p.s.looking.Lock()
		defer p.s.looking.Unlock()
		defer close(looked)
		err := p.s.browser.Open(ctx, page)
		p.s.browser.Wait()
		return err
	}}
	receiver, err := loopback.Open(ctx, path, last)
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

type fault func(s *site)

type edit = func(*oauthtest.Answer)

func rewritten(e oauthtest.Endpoint, f oauthtest.Rewrite) fault {
	return func(s *site) {
		if e == oauthtest.ResourceMetadata || e == oauthtest.Call {
			s.resource.Rewrite(e, f)
		} else {
			s.as.Rewrite(e, f)
		}
	}
}

func edited(e oauthtest.Endpoint, edits ...edit) fault {
	return rewritten(e, func(_ *oauthtest.Request, next oauthtest.Next) *oauthtest.Answer {
		a := next()
		for _, f := range edits {
			f(a)
		}
		return a
	})
}

func replied(e oauthtest.Endpoint, a oauthtest.Answer) fault {
	return rewritten(e, func(*oauthtest.Request, oauthtest.Next) *oauthtest.Answer {
		answer := a
		return &answer
	})
}

func hangs(r *oauthtest.Request, _ oauthtest.Next) *oauthtest.Answer {
	<-r.Context().Done()
	return nil
}

func both(faults ...fault) fault {
	return func(s *site) {
		for _, f := range faults {
			f(s)
		}
	}
}

// onlyMethod makes a server name one client authentication method.
func onlyMethod(method string) fault {
	return edited(oauthtest.Metadata, oauthtest.Set(authMethods, []string{method}))
}

// The function refusing makes a server refuse tokens: with 401, or 403 and an impossible scope.
func refusing(status int) fault {
	return func(s *site) {
		s.resource.Rewrite(oauthtest.Call, func(r *oauthtest.Request,
			next oauthtest.Next) *oauthtest.Answer {
			switch {
			case r.Header.Get("Authorization") == "":
			case status == http.StatusForbidden:
				return s.resource.Refusal(status, "insufficient_scope", "read", "impossible")
			default:
				r.Header.Set("Authorization", "Bearer refused")
			}
			return next()
		})
	}
}

func challenged(f func(right string) []string) fault {
	return edited(oauthtest.Call, func(a *oauthtest.Answer) {
		if right := a.Header.Get("WWW-Authenticate"); right != "" {
			a.Header["Www-Authenticate"] = f(right)
		}
	})
}

func challengedWith(oldNew ...string) fault {
	return challenged(func(right string) []string {
		return []string{strings.NewReplacer(oldNew...).Replace(right)}
	})
}

// wantsMore makes a server name another scope in each challenge of a status.
func wantsMore(s *site) {
	n := 0
	challenged(func(right string) []string {
		n++
		return []string{strings.Replace(right, `scope="`,
			`scope="more`+strings.Repeat("!", n)+" ", 1)}
	})(s)
}

// documentFaults returns an endpoint's faults in a JSON response. name is one of its members.
func documentFaults(e oauthtest.Endpoint, name string) map[string]fault {
	return map[string]fault{
		"redirects": replied(e, oauthtest.Answer{Status: http.StatusTemporaryRedirect,
			Header: http.Header{"Location": {oauthtest.Elsewhere}}}),
		"too large":      edited(e, oauthtest.Set("padding", strings.Repeat("x", 2<<20))),
		"a member twice": edited(e, twice(name, foreignIssuer)),
		"nested too deep": edited(e, oauthtest.Set("nested", json.RawMessage(
			strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)))),
		"a page":           replied(e, page),
		"status 503":       replied(e, unavailable),
		"does not answer":  rewritten(e, hangs),
		"is not an object": replied(e, oauthtest.Answer{Body: "[]"}),
	}
}

var (
	unavailable = oauthtest.Answer{Status: http.StatusServiceUnavailable,
		Header: http.Header{"Content-Type": {"text/plain"}}}
	page = oauthtest.Answer{Header: http.Header{"Content-Type": {"text/html"}},
		Body: "<!DOCTYPE html><title>Sign in</title><p>Welcome."}
)

// refusal returns an error response whose description has markup and a control character.
func refusal(status int, code string) oauthtest.Answer {
	return oauthtest.Answer{Status: status, Body: fmt.Sprintf(
		`{"error":%q,"error_description":"\u001b[31m<b>%s</b>"}`, code, code)}
}

func change(name string, f func(right string) string) edit {
	return func(a *oauthtest.Answer) {
		if right, ok := a.Document[name]; ok {
			a.Document[name] = f(fmt.Sprint(right))
		}
	}
}

func suffix(name, text string) edit {
	return change(name, func(right string) string { return right + text })
}

// The function twice returns an edit that duplicates a member, with value or, if nil, its own.
func twice(name string, value any) edit {
	return func(a *oauthtest.Answer) {
		a.Extra = oauthtest.Document{name: value}
		if value == nil {
			a.Extra[name] = a.Document[name]
		}
	}
}

func otherPort(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		panic(err) // the URL is the server's
	}
	u.Host = u.Hostname() + ":1"
	return u.String()
}

var wantIs = testkit.WantIs
