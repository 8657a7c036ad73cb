package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// TestConfigurationMistakes fail where they are made.
func TestConfigurationMistakes(t *testing.T) {
	const good = "https://mcp.example/mcp"
	for name, c := range map[string]struct {
		endpoint string
		opts     oauth.Options
	}{
		"plain http":     {"http://mcp.example/mcp", oauth.Options{}},
		"private http":   {"http://10.0.0.1/mcp", oauth.Options{}},
		"fragment":       {good + "#x", oauth.Options{}},
		"password":       {"https://a:b@mcp.example/mcp", oauth.Options{}},
		"relative":       {"/mcp", oauth.Options{}},
		"no issuer":      {good, registered("", "c", "")},
		"issuer of http": {good, registered("http://a.example", "c", "")},
		"no client id":   {good, registered("https://a.example", "", "")},
		"unknown method": {good, registered("https://a.example", "c", "tls")},
		"issuer twice": {good, oauth.Options{Registrations: append(
			registered("https://a.example", "c", "").Registrations,
			registered("https://a.example", "d", "").Registrations...)}},
		"document http":   {good, documentAt("http://127.0.0.1/c.json")},
		"document root":   {good, documentAt("https://c.example/")},
		"script redirect": {good, oauth.Options{RedirectURI: "javascript:alert(1)"}},
	} {
		if _, err := oauth.New(c.endpoint, &c.opts); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := oauth.New(good, nil); err != nil {
		t.Error(err)
	}
}

func documentAt(url string) oauth.Options {
	return oauth.Options{Client: oauth.ClientInfo{MetadataURL: url}}
}

func registered(issuer, id, method string) oauth.Options {
	return oauth.Options{Registrations: []oauth.Registration{{Issuer: issuer, ClientID: id,
		ClientSecret: "hush", Method: method}}}
}

// TestSecretGoesToItsIssuerAlone: a server that names another authorization server gets nothing.
func TestSecretGoesToItsIssuerAlone(t *testing.T) {
	s := newSite(t, &oauthtest.Options{NoDynamic: true, NoDocuments: true}, nil)
	source := s.person(t, func(o *oauth.Options) {
		o.Registrations = []oauth.Registration{{Issuer: "https://mine.example", ClientID: "me",
			ClientSecret: "hush"}}
	})
	registrationError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Authorize: 0, oauthtest.Token: 0})
}

// TestWhatIsRegisteredComesFirst: before the document of the client, and before a registration.
func TestWhatIsRegisteredComesFirst(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			s := newSite(t, nil, nil)
			s.as.AddClient(oauthtest.Client{ID: "me & you", Secret: "h+u/s h", Method: method,
				RedirectURIs: []string{"http://127.0.0.1/callback"}})
			source := s.person(t, func(o *oauth.Options) {
				o.Client.MetadataURL = "https://client.example/client.json"
				o.Registrations = []oauth.Registration{{Issuer: s.as.URL, ClientID: "me & you",
					ClientSecret: "h+u/s h", Method: method}}
			})
			noError.check(t, s.call(t.Context(), source, "search"))
			s.as.Expire()
			noError.check(t, s.call(t.Context(), source, "search"))
			if err := source.Logout(t.Context()); err != nil {
				t.Error(err)
			}
			s.wantCounts(t, counts{oauthtest.Register: 0,
				oauthtest.Token: 1, oauthtest.Refresh: 1, oauthtest.Revoke: 1})
		})
	}
}

// TestEveryRequestNamesTheResource: the login, the code and the refresh. It is never in a URL of
// the server, and no token is.
func TestEveryRequestNamesTheResource(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	s.as.Expire()
	noError.check(t, s.call(t.Context(), source, "search"))
	for _, e := range []oauthtest.Endpoint{oauthtest.Authorize, oauthtest.Token,
		oauthtest.Refresh} {
		for _, r := range s.as.Requests(e) {
			if got := r.Form["resource"]; len(got) != 1 || got[0] != s.resource.Identifier {
				t.Errorf("%s: resource %q", e, got)
			}
		}
	}
	for _, r := range s.resource.Requests(oauthtest.Call) {
		if r.URL.RawQuery != "" {
			t.Errorf("the endpoint was asked with the query %s", r.URL.RawQuery)
		}
	}
	for _, r := range s.as.Requests(oauthtest.Register) {
		for _, text := range []string{`"refresh_token"`, `"application_type":"native"`} {
			if !strings.Contains(string(r.Body), text) {
				t.Errorf("%s is not in the registration %s", text, r.Body)
			}
		}
	}
}

// TestTokenGoesToItsEndpointAlone.
func TestTokenGoesToItsEndpointAlone(t *testing.T) {
	s, source := newLogin(t, (*site).person)
	for _, other := range []string{s.resource.Origin, s.resource.URL + "/", s.resource.URL + "?a",
		"https://other.example/mcp"} {
		u, err := url.Parse(other)
		check(t, err)
		header, err := source.Credentials(t.Context(), clienthttp.Outgoing{URL: u})
		if err == nil || len(header) > 0 {
			t.Errorf("%s would get %d headers, %v", other, len(header), err)
		}
	}
}

// TestStrayRequestsDoNotEndTheWait: whatever else comes to the page of the login gets 400, and the
// login goes on.
func TestStrayRequestsDoNotEndTheWait(t *testing.T) {
	for _, host := range []string{"", "localhost"} {
		s := newSite(t, nil, nil)
		s.browser.Deliver = func(ctx context.Context, callback *url.URL) {
			stray(t, s.browser, callback)
			ctx = context.WithoutCancel(ctx) // the login may end before the page is read
			page, err := s.browser.Load(ctx, callback.String())
			if err != nil || page.Status != http.StatusOK {
				t.Errorf("the right one: status %d, %v", page.Status, err)
			}
			for name, want := range map[string]string{"Cache-Control": "no-store",
				"Referrer-Policy":         "no-referrer",
				"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"} {
				if got := page.Header.Get(name); got != want {
					t.Errorf("%s is %q", name, got)
				}
			}
			if again, err := s.browser.Load(ctx, callback.String()); err == nil &&
				again.Status == http.StatusOK {
				t.Error("a second callback was taken")
			}
		}
		source := s.source(t, func(o *oauth.Options) {
			o.Interaction = &oauth.Loopback{Host: host, Browse: s.browser.Open}
		})
		noError.check(t, s.call(t.Context(), source, "search"))
		s.browser.Wait()
		s.wantCounts(t, counts{oauthtest.Token: 1})
	}
}

// stray sends requests that are not the callback.
func stray(t *testing.T, b *oauthtest.Browser, callback *url.URL) {
	t.Helper()
	change := func(f func(u *url.URL, q url.Values)) string {
		u, q := *callback, callback.Query()
		f(&u, q)
		if u.RawQuery == callback.RawQuery {
			u.RawQuery = q.Encode()
		}
		return u.String()
	}
	for name, r := range map[string]struct{ method, url, host string }{
		"another path": {"GET", change(func(u *url.URL, _ url.Values) { u.Path = "/" }), ""},
		"wrong state":  {"GET", change(func(_ *url.URL, q url.Values) { q.Set("state", "x") }), ""},
		"no state":     {"GET", change(func(_ *url.URL, q url.Values) { q.Del("state") }), ""},
		"two codes":    {"GET", change(func(_ *url.URL, q url.Values) { q.Add("code", "x") }), ""},
		"foreign issuer": {"GET", change(func(_ *url.URL, q url.Values) {
			q.Set("iss", "https://x.example")
		}), ""},
		"another host": {"GET", callback.String(), "rebound.example"},
		"another port": {"GET", callback.String(), "127.0.0.1:1"},
		"POST":         {"POST", callback.String(), ""},
		"HEAD":         {"HEAD", callback.String(), ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), r.method, r.url, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		request.Host = r.host
		page, err := b.Do(request)
		if err != nil || page.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d, %v", name, page.Status, err)
		}
	}
}

// TestPortOfTheLastLoginIsUsedAgain: a registration may be bound to it. A busy one means another
// registration.
func TestPortOfTheLastLoginIsUsedAgain(t *testing.T) {
	s := newSite(t, &oauthtest.Options{ExactRedirect: true, NoRefresh: true}, nil)
	source := s.source(t, nil)
	noError.check(t, s.call(t.Context(), source, "search"))
	noError.check(t, s.call(t.Context(), source, "write"))
	s.wantCounts(t, counts{oauthtest.Register: 1, oauthtest.Authorize: 2})
	redirect := s.as.Requests(oauthtest.Authorize)[0].Form.Get("redirect_uri")
	u, err := url.Parse(redirect)
	check(t, err)
	busy, err := net.Listen("tcp", u.Host)
	check(t, err)
	defer busy.Close()
	check(t, source.Logout(t.Context()))
	noError.check(t, s.call(t.Context(), source, "search"))
	s.wantCounts(t, counts{oauthtest.Register: 2, oauthtest.Authorize: 3})
}

func TestBusyPortsFailTheLogin(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer busy.Close()
	s := newSite(t, nil, nil)
	source := s.source(t, func(o *oauth.Options) {
		o.Interaction = &oauth.Loopback{Ports: []int{busy.Addr().(*net.TCPAddr).Port}}
	})
	err = s.call(t.Context(), source, "search")
	if err == nil || !strings.Contains(err.Error(), "no port to come back to") {
		t.Errorf("got %v", err)
	}
	s.wantCounts(t, counts{oauthtest.Register: 0})
}

// TestPortOfLocalhostThatAnotherProgramHas: localhost is two addresses. If another program listens
// on one of them, the browser may come back to that program, so the port is not used.
func TestPortOfLocalhostThatAnotherProgramHas(t *testing.T) {
	busy, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6: ", err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	b := &oauth.Loopback{Host: "localhost", Ports: []int{port, 0}}
	r, err := b.Open(t.Context(), oauth.Redirect{})
	check(t, err)
	defer r.Close()
	if u := r.RedirectURI(); u == fmt.Sprintf("http://localhost:%d/callback", port) {
		t.Errorf("the redirect URI is %s, where another program listens", u)
	}
}

// TestNobodyComesBack: the wait for a person ends after five minutes.
func TestNobodyComesBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := &oauth.Loopback{Browse: func(ctx context.Context, _ string) error {
		defer cancel()
		end, ok := ctx.Deadline()
		if left := time.Until(end); !ok || left > 5*time.Minute || left < 4*time.Minute {
			t.Errorf("the wait ends in %v", left)
		}
		return nil
	}}
	receiver, err := b.Open(ctx, oauth.Redirect{})
	check(t, err)
	defer receiver.Close()
	_, err = receiver.Receive(ctx, &oauth.Login{URL: "https://as.example/"},
		func(*url.URL) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestPagesThatAreNotOpened: whatever an authorization server calls its page.
func TestPagesThatAreNotOpened(t *testing.T) {
	for _, page := range []string{"javascript:alert(1)", "file:///etc/passwd", "-help", "",
		"http://as.example/", "calc.exe"} {
		b := &oauth.Loopback{Browse: func(context.Context, string) error {
			t.Errorf("%s was opened", page)
			return nil
		}}
		receiver, err := b.Open(t.Context(), oauth.Redirect{})
		check(t, err)
		_, err = receiver.Receive(t.Context(), &oauth.Login{URL: page}, func(*url.URL) error {
			return nil
		})
		if err == nil {
			t.Errorf("%s: no error", page)
		}
		receiver.Close()
	}
}

// TestPersonPastesTheURL: the browser is on another machine and cannot come back.
func TestPersonPastesTheURL(t *testing.T) {
	s := newSite(t, nil, nil)
	paste, typed := io.Pipe()
	defer typed.Close()
	var shown strings.Builder
	source := s.source(t, func(o *oauth.Options) {
		o.Interaction = &oauth.Loopback{Prompt: &shown, Paste: paste,
			Browse: func(ctx context.Context, page string) error {
				callback, err := s.browser.Visit(ctx, page)
				if err == nil {
					_, err = fmt.Fprintf(typed, "what?\nhttp://x/?code=1\n  %s\r\n", callback)
				}
				return errors.Join(err, errors.New("there is no browser here"))
			}}
	})
	noError.check(t, s.call(t.Context(), source, "search"))
	if n := strings.Count(shown.String(), "That is not where"); n != 2 {
		t.Errorf("shown: %s", shown.String())
	}
	s.wantNoSecrets(t, shown.String())
}

// TestLoginThatAnotherProcessFinishes: a call reports that a login is needed, the host sends a
// browser to a page, and another process takes what it comes back with.
func TestLoginThatAnotherProcessFinishes(t *testing.T) {
	s := newSite(t, nil, nil)
	store := oauth.NewMemoryStore()
	opts := &oauth.Options{Store: store, RedirectURI: "https://host.example/callback",
		Account: "alice"}
	first, err := oauth.New(s.resource.URL, opts)
	check(t, err)
	cause := s.call(t.Context(), first, "search")
	required, ok := errors.AsType[*oauth.LoginRequiredError](cause)
	if !ok || len(required.Scopes) != 1 || required.Scopes[0] != "read" {
		t.Fatalf("got %v", cause)
	}
	login, callback := s.begin(t, first, cause)
	sealed, err := json.Marshal(login)
	check(t, err)
	second, err := oauth.New(s.resource.URL, opts)
	check(t, err)
	var found oauth.Login
	check(t, json.Unmarshal(sealed, &found))
	forged := *callback
	forged.RawQuery = strings.Replace(forged.RawQuery, "state=", "state=x", 1)
	callbackError.check(t, second.Finish(t.Context(), &found, &forged))
	s.wantCounts(t, counts{oauthtest.Token: 0})
	noError.check(t, second.Finish(t.Context(), &found, callback))
	noError.check(t, s.call(t.Context(), second, "search"))
	noError.check(t, s.call(t.Context(), first, "search")) // it finds the login in the store
	bob, err := oauth.New(s.resource.URL, &oauth.Options{Store: store,
		RedirectURI: opts.RedirectURI, Account: "bob"})
	check(t, err)
	if bob.Finish(t.Context(), &found, callback) == nil {
		t.Error("the login of one person was finished for another")
	}
	if isA[*oauth.LoginRequiredError](s.call(t.Context(), bob, "search")) == false {
		t.Error("one person has the tokens of another")
	}
	if _, err := bob.Begin(t.Context(), nil); err != nil {
		t.Error(err)
	}
	s.wantCounts(t, counts{oauthtest.Register: 1}) // it is the program's
}

// TestBeginRequestsTheScopesOfTheStoredLogin: a Source that has sent no request yet reads the store
// first. A login without the scopes of the last one would lose them.
func TestBeginRequestsTheScopesOfTheStoredLogin(t *testing.T) {
	s := newSite(t, nil, nil)
	store := oauth.NewMemoryStore()
	first := s.source(t, func(o *oauth.Options) { o.Store = store })
	noError.check(t, s.call(t.Context(), first, "search"))
	noError.check(t, s.call(t.Context(), first, "write"))
	second, err := oauth.New(s.resource.URL, &oauth.Options{Store: store,
		RedirectURI: "https://host.example/callback"})
	check(t, err)
	login, err := second.Begin(t.Context(), nil)
	check(t, err)
	u, err := url.Parse(login.URL)
	check(t, err)
	scopes := strings.Fields(u.Query().Get("scope"))
	for _, want := range []string{"read", "write"} {
		if !slices.Contains(scopes, want) {
			t.Errorf("the scopes are %q, want %q among them", scopes, want)
		}
	}
}

// TestNothingPrintsSecrets: whatever a program logs by accident.
func TestNothingPrintsSecrets(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.AddClient(oauthtest.Client{ID: "me", Secret: "the-secret-of-me",
		RedirectURIs: []string{"https://host.example/callback"}})
	store := oauth.NewMemoryStore()
	opts := oauth.Options{Store: store, RedirectURI: "https://host.example/callback",
		Registrations: []oauth.Registration{{Issuer: s.as.URL, ClientID: "me",
			ClientSecret: "the-secret-of-me"}}}
	var events []oauth.LoginEvent
	opts.Observe = func(e oauth.LoginEvent) { events = append(events, e) }
	source, err := oauth.New(s.resource.URL, &opts)
	check(t, err)
	login, callback := s.begin(t, source, nil)
	noError.check(t, source.Finish(t.Context(), login, callback))
	again := source.Finish(t.Context(), login, callback) // the code was used
	tokenError.check(t, again)
	files, err := oauth.NewFileStore(t.TempDir(), childKey)
	check(t, err)
	opts.Observe = nil // JSON has no functions
	asJSON, err := json.Marshal(opts.Registrations)
	check(t, err)
	withoutURL := *login
	withoutURL.URL = "" // it has the state, which the browser shows
	for _, v := range []any{source, *login, login, opts, &opts, store, files, *files, events,
		again, opts.Registrations[0], withoutURL} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			s.wantNoSecrets(t, fmt.Sprintf(verb, v))
		}
	}
	s.wantNoSecrets(t, string(asJSON))
}

// TestMetadataDocumentOfTheClient is what authorization servers read.
func TestMetadataDocumentOfTheClient(t *testing.T) {
	opts := &oauth.Options{Client: oauth.ClientInfo{Name: "Notes",
		MetadataURL: "https://client.example/client.json"}}
	w := httptest.NewRecorder()
	opts.ServeMetadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/client.json", nil))
	var got struct {
		ID        string   `json:"client_id"`
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	check(t, json.Unmarshal(w.Body.Bytes(), &got))
	if got.ID != opts.Client.MetadataURL || got.Name != "Notes" || len(got.Redirects) == 0 ||
		got.Method != "none" {
		t.Errorf("got %+v", got)
	}
	w = httptest.NewRecorder()
	opts.ServeMetadata().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/client.json", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", w.Code)
	}
}

// TestCodeOfThePage does what the page says.
func TestCodeOfThePage(t *testing.T) {
	stage, notes := openNotes()
	defer stage.close()
	c, err := newClient(notes.resource.URL, &oauth.Loopback{Browse: notes.browser.Open})
	check(t, err)
	defer c.Close()
	_, err = c.CallTool(t.Context(), "list", nil)
	noError.check(t, err)

	key := newKeys(t)["ES256"]
	notes.as.AddClient(oauthtest.Client{ID: "job", Key: key.Public()})
	job, err := newJob(notes.resource.URL, notes.as.URL, "job", key)
	check(t, err)
	defer job.Close()
	_, err = job.CallTool(t.Context(), "add", nil)
	noError.check(t, err)
	notes.wantCounts(t, counts{oauthtest.Authorize: 1})

	_, err = newEntraLogin(notes.resource.URL, "00000000-0000-0000-0000-00000000000a", "me")
	noError.check(t, err)
}
