package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A loginSite is a gateway in front of an upstream that requires a login of each user.
type loginSite struct {
	url      string // of the gateway
	host     string // of the login pages
	store    oauth.TokenStore
	as       *oauthtest.Server
	resource *oauthtest.Resource

	mu      sync.Mutex
	commits []string // subjects of the calls that were confirmed
}

// tokenOf returns a user's token at the gateway.
func tokenOf(name string) string { return "token-of-" + name + "-at-the-gateway" }

func whoIs(r *http.Request) (protocol.Principal, error) {
	name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "token-of-")
	name, _ = strings.CutSuffix(name, "-at-the-gateway")
	return protocol.Principal{Subject: name}, nil
}

// visitor identifies a browser's user by a cookie, which stands for the host's login.
func visitor(w http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
	cookie, err := r.Cookie("who")
	if err != nil {
		http.Error(w, "log in at the gateway first", http.StatusUnauthorized)
		return protocol.Principal{}, false
	}
	return protocol.Principal{Subject: cookie.Value}, true
}

func startLoginSite(t *testing.T, era protocol.Era, change func(*gateway.Options)) *loginSite {
	t.Helper()
	s := newLoginSite(t)
	srv := newServer(t, nil)
	addTool(srv, "whoami", s.whoami)
	s.serve(t, servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			grant, _ := s.as.Check(token)
			return protocol.Principal{Subject: grant.Subject}, nil
		}}), era, change)
	return s
}

func newLoginSite(t *testing.T) *loginSite {
	t.Helper()
	return &loginSite{as: oauthtest.NewServer(t, nil), store: oauth.NewMemoryStore()}
}

func (s *loginSite) serve(
	t *testing.T, upstream http.Handler, era protocol.Era, change func(*gateway.Options),
) {
	t.Helper()
	s.resource = oauthtest.NewResource(t, &oauthtest.ResourceOptions{
		Servers: []*oauthtest.Server{s.as}, Scopes: []string{"read"}, Handler: upstream})
	s.url = s.startGateway(t, era, change)
}

// startGateway serves a gateway. All gateways share the first gateway's login pages.
func (s *loginSite) startGateway(
	t *testing.T, era protocol.Era, change func(*gateway.Options),
) (endpoint string) {
	t.Helper()
	var mux http.ServeMux
	listener := httptest.NewServer(&mux)
	if s.host == "" {
		s.host = listener.URL
	}
	opts := &gateway.Options{Log: zaplog.New(zaptest.NewLogger(t)),
		Upstreams: []gateway.Upstream{{Name: "docs", Era: era,
			Connect: gateway.HTTP(s.resource.URL, nil), Credential: s.credentials()}},
		Logins: &gateway.Logins{URL: s.host + "/login", Visitor: visitor}}
	if change != nil {
		change(opts)
	}
	g, err := gateway.New(opts)
	noError(t, err)
	front, err := g.Handler(&serverhttp.Options{Authenticate: whoIs})
	noError(t, err)
	mux.Handle("/mcp", front)
	mux.Handle("/login", g.LoginHandler())
	t.Cleanup(func() { stopGateway(t, g, listener) })
	return listener.URL + "/mcp"
}

// credentials returns the users' credentials at the upstream, each with its own Source.
func (s *loginSite) credentials() func(
	context.Context, protocol.Principal) (gateway.Credential, error) {
	var mu sync.Mutex
	sources := map[string]*oauth.Source{}
	return func(_ context.Context, p protocol.Principal) (gateway.Credential, error) {
		if p.Anonymous() {
			own := s.as.Issue(oauthtest.Grant{Resource: s.resource.Identifier,
				Scopes: []string{"read"}}) // for the lists
			return gateway.Credential{Key: "gateway", Authorizer: asUser("Bearer " + own)}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		source := sources[p.Subject]
		if source == nil {
			var err error
			source, err = oauth.New(s.resource.URL, &oauth.Options{Account: p.Subject,
				RedirectURI: s.host + "/login", Store: s.store})
			if err != nil {
				return gateway.Credential{}, err
			}
			sources[p.Subject] = source
		}
		return gateway.Credential{Key: p.Subject, Authorizer: source}, nil
	}
}

func (s *loginSite) whoami(ctx context.Context, call *server.ToolCall) (outcome, error) {
	if _, err := roundtrip.Ask[target](ctx, "where", "Deploy where?"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits = append(s.commits, call.Principal.Subject)
	return server.Text("at the upstream you are " + call.Principal.Subject), nil
}

type visitingPerson struct {
	person
	name  string
	site  *loginSite
	links []string // links that were shown
	visit func(link string)
}

func (s *loginSite) newPerson(t *testing.T, name string) *visitingPerson {
	p := &visitingPerson{name: name, site: s}
	browser := newBrowser(t, s.url, name)
	p.visit = func(link string) { go s.open(browser, link, name) }
	return p
}

// newBrowser returns a browser logged in at the gateway; name may be empty.
func newBrowser(t *testing.T, gatewayURL, name string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	noError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	browser := &http.Client{Jar: jar, Transport: transport}
	if name != "" {
		logIn(t, browser, gatewayURL, name)
	}
	return browser
}

func logIn(t *testing.T, browser *http.Client, gatewayURL, name string) {
	t.Helper()
	at, err := url.Parse(gatewayURL)
	noError(t, err)
	browser.Jar.SetCookies(at, []*http.Cookie{{Name: "who", Value: name, Path: "/"}})
}

// open opens a link in a browser, whose user consents at the authorization server.
func (s *loginSite) open(browser *http.Client, link, subject string) (status int, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.as.SetSubject(subject + "-at-docs")
	resp, err := browser.Get(link)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func (p *visitingPerson) goTo(
	_ context.Context, q *client.URLQuestion,
) (*protocol.ElicitResult, error) {
	p.mu.Lock()
	again := len(p.links) > 0 && p.links[len(p.links)-1] == q.URL
	if !again {
		p.links = append(p.links, q.URL)
	}
	p.mu.Unlock()
	if p.visit == nil {
		return &protocol.ElicitResult{Action: protocol.ActionDecline}, nil
	}
	if !again {
		p.visit(q.URL)
	}
	return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
}

func (p *visitingPerson) connect(
	t *testing.T, era protocol.Era, change func(*client.Options),
) *client.Client {
	t.Helper()
	opts := &client.Options{ElicitForm: p.fill, ElicitURL: p.goTo, Era: era}
	if change != nil {
		change(opts)
	}
	return connectUser(t, p.site.url, tokenOf(p.name), *opts, "docs_whoami")
}

func (p *visitingPerson) wantShown(t *testing.T, links, forms int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.links) != links || len(p.shown) != forms {
		t.Errorf("%s was shown %d links and %q, want %d and %d", p.name, len(p.links), p.shown,
			links, forms)
	}
}

// wantCommits compares the effects, and checks that no secret went upstream.
func (s *loginSite) wantCommits(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	wantEqual(t, "commits", fmt.Sprint(s.commits), fmt.Sprint(want))
	for _, r := range s.resource.Requests(oauthtest.Call) {
		if strings.Contains(fmt.Sprint(r.Header, string(r.Body)), "at-the-gateway") {
			t.Errorf("a token of a caller went upstream: %v", r.Header)
		}
	}
}

func TestEachPersonLogsInAtTheUpstreamOnce(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		s := startLoginSite(t, upstreamEra, nil)
		var want []string
		for _, name := range []string{"alice", "bob"} {
			p := s.newPerson(t, name)
			c := p.connect(t, clientEra, nil)
			for range 2 { // the second call finds the login
				wantText(t, c, "docs_whoami", "at the upstream you are "+name+"-at-docs")
				want = append(want, name+"-at-docs")
			}
			p.wantShown(t, 1, 2)
		}
		s.wantCommits(t, want...)
	})
}

func TestALinkToALoginIsForOnePersonAndOneBrowser(t *testing.T) {
	t.Parallel()
	s := startLoginSite(t, 0, nil)
	alice := s.newPerson(t, "alice")
	links := make(chan string, 1)
	alice.visit = func(link string) { links <- link }
	c := alice.connect(t, protocol.Modern, nil)
	done := make(chan string, 1)
	go func() { done <- callText(t, c, "docs_whoami") }()
	link := <-links
	tryFrom := func(who, what, link string, status int) {
		t.Helper()
		got, page := s.open(newBrowser(t, s.url, who), link, "mallory")
		if got != status {
			t.Errorf("%s: status %d, want %d: %s", what, got, status, page)
		}
	}
	tryFrom("bob", "another person", link, http.StatusForbidden)
	tryFrom("", "a browser that nobody is logged in with", link, http.StatusUnauthorized)
	tryFrom("alice", "a link that was changed", link[:len(link)-4]+"AAAA", http.StatusForbidden)
	wantEqual(t, "visits to the authorization server", s.as.Count(oauthtest.Authorize), 0)

	// Alice consents in her browser, and the response is opened in other browsers.
	browser := newBrowser(t, s.url, "alice")
	var callback string
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Query().Has("code") {
			callback = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	s.open(browser, link, "alice")
	if callback == "" {
		t.Fatal("the authorization server did not send the browser back")
	}
	tryFrom("alice", "another browser of the person", callback, http.StatusForbidden)
	tryFrom("bob", "the browser of another person", callback, http.StatusForbidden)
	logIn(t, browser, s.url, "bob")
	if status, page := s.open(browser, callback, "alice"); status != http.StatusForbidden {
		t.Errorf("another person in the browser: status %d: %s", status, page)
	}
	wantEqual(t, "codes redeemed", s.as.Count(oauthtest.Token), 0)
	logIn(t, browser, s.url, "alice")
	if status, page := s.open(browser, callback, "alice"); status != http.StatusOK {
		t.Errorf("status %d: %s", status, page)
	}
	wantEqual(t, "the result", <-done, "at the upstream you are alice-at-docs")
	s.wantCommits(t, "alice-at-docs")
}

type expiring struct{ keys.Sealer }

func (e expiring) Seal(ctx context.Context, plain []byte) (string, error) {
	var link map[string]any
	if json.Unmarshal(plain, &link) == nil && link["ends"] != nil {
		link["ends"] = time.Now().Add(-time.Second)
		plain, _ = json.Marshal(link)
	}
	return e.Sealer.Seal(ctx, plain)
}

func TestALinkThatIsOverLeadsNowhere(t *testing.T) {
	t.Parallel()
	s := startLoginSite(t, 0, func(opts *gateway.Options) {
		opts.Server.Roundtrip.Sealer = expiring{keys.EphemeralKeyring()}
		opts.Server.Roundtrip.Audience = "gateway"
	})
	alice := s.newPerson(t, "alice")
	var status int
	alice.visit = func(link string) {
		status, _ = s.open(newBrowser(t, s.url, "alice"), link, "alice")
	}
	c := alice.connect(t, protocol.Modern, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, _ = c.CallTool(ctx, "docs_whoami", nil)
	if n := s.as.Count(oauthtest.Authorize); status != http.StatusForbidden || n != 0 {
		t.Errorf("status %d, %d visits came to the authorization server", status, n)
	}
}

func TestALoginThatDoesNotHappenEndsTheCall(t *testing.T) {
	for _, era := range bothEras {
		for _, c := range []struct {
			name   string
			change func(*visitingPerson)
			opts   func(*client.Options)
			want   string
		}{
			{"denied", func(p *visitingPerson) {
				p.site.as.Edit(oauthtest.Authorize, oauthtest.Failure("access_denied"))
			}, nil, "login has failed"},
			{"declined", func(p *visitingPerson) { p.visit = nil }, nil, "declined"},
			{"closed", func(p *visitingPerson) { p.visit = func(string) {} }, nil,
				"not finished in time"},
			{"no links", func(*visitingPerson) {}, func(o *client.Options) { o.ElicitURL = nil },
				"this client cannot show links (URL elicitation): call once from a client that can"},
		} {
			t.Run(fmt.Sprintf("%v %s", era, c.name), func(t *testing.T) {
				t.Parallel()
				s := startLoginSite(t, 0, func(o *gateway.Options) {
					o.Server.Roundtrip.HumanTimeout = 2 * time.Second
					o.Server.Roundtrip.MinHumanTime = -1
				})
				p := s.newPerson(t, "alice")
				c.change(p)
				got := callText(t, p.connect(t, era, c.opts), "docs_whoami")
				wantPart(t, "the result", got, c.want)
				s.wantCommits(t)
			})
		}
	}
}

// In TestALoginThatEndsWithinACall a user's answer counts only after another login.
func TestALoginThatEndsWithinACall(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		s := startLoginSite(t, upstreamEra, nil)
		p := s.newPerson(t, "alice")
		c := p.connect(t, clientEra, nil)
		for range 2 { // before the second one the gateway reads the user's lists
			wantText(t, c, "docs_whoami", "at the upstream you are alice-at-docs")
		}
		if upstreamEra == protocol.Modern {
			p.answer = func(context.Context, string) *protocol.ElicitResult {
				p.answer = nil
				s.as.RevokeAll()
				result, _ := client.Accept(target{"production"})
				return result
			}
		} else {
			s.as.RevokeAll()
		}
		wantText(t, c, "docs_whoami", "at the upstream you are alice-at-docs")
		p.wantShown(t, 2, 3)
		s.wantCommits(t, "alice-at-docs", "alice-at-docs", "alice-at-docs")
	})
}

// In this test the call waits at one replica, and the browser comes to the other.
func TestALoginIsFinishedByAnotherReplica(t *testing.T) {
	t.Parallel()
	ring := keys.EphemeralKeyring()
	share := func(o *gateway.Options) { o.Server.Roundtrip.Sealer = ring }
	s := startLoginSite(t, 0, share)
	p := s.newPerson(t, "alice") // her browser comes to the first gateway
	s.url = s.startGateway(t, 0, share)
	wantText(t, p.connect(t, 0, nil), "docs_whoami", "at the upstream you are alice-at-docs")
	p.wantShown(t, 1, 1)
	s.wantCommits(t, "alice-at-docs")
}

// If an upstream refuses the result's stream, the call may have run, and is not made again.
func TestACallWhoseStreamIsRefusedIsNotMadeAgain(t *testing.T) {
	forEachEra(t, func(t *testing.T, era protocol.Era) {
		s := newLoginSite(t)
		u := newRaw(func(c *rawCall) {
			c.event(`{"jsonrpc":"2.0","method":"notifications/x"}` + "\nid: 7")
			c.ended = true
			s.as.RevokeAll()
		})
		u.tool = "whoami"
		s.serve(t, u, protocol.Legacy, nil)
		p := s.newPerson(t, "alice")
		got := callText(t, p.connect(t, era, nil), "docs_whoami")
		if strings.HasPrefix(got, "error: ") || !strings.Contains(got, "is not known") {
			t.Errorf("got %q", got)
		}
		p.wantShown(t, 1, 0)
		wantEqual(t, "calls of the upstream", u.calls.Load(), int64(1))
	})
}
