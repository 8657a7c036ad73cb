package interop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/server/bearer"
)

// A foreignServer is a third-party authorization server, used in one way.
type foreignServer struct {
	name string
	// start starts the server, for the MCP server at endpoint.
	start func(t *testing.T, endpoint string) foreignTrust
	// The server issues no refresh tokens, or cannot revoke tokens.
	noRefresh, noRevocation bool
}

// A foreignTrust configures our server and our client for an authorization server. The test sets
// Resource, Scopes, Store, Interaction and Observe.
type foreignTrust struct {
	server  bearer.Options
	client  oauth.Options
	subject string // the user's or machine's subject
	// lastRefusal returns the last challenge with an error that our server sent.
	lastRefusal func() string
}

// foreignLifetime is the lifetime of access tokens: clients refresh soon, but not for each call.
const foreignLifetime = time.Second

// testForeignServers makes our client log in, refresh, step up and log out at each server, in both
// eras. Our server checks the tokens. The outcomes are logged. All run at once, because tokens must
// expire.
func testForeignServers(t *testing.T, servers []foreignServer) {
	t.Helper()
	var running sync.WaitGroup
	eras := []string{modern, v20251125}
	rows := make([]string, len(servers)*len(eras))
	for i, s := range servers {
		running.Go(func() {
			t.Run(s.name, func(t *testing.T) {
				trust := s.protect(t)
				var running sync.WaitGroup
				for j, revision := range eras {
					running.Go(func() {
						t.Run(revision, func(t *testing.T) {
							cells := s.try(t, trust, revision)
							rows[i*len(eras)+j] = strings.Join(
								append([]string{s.name, revision}, cells...), "\t")
						})
					})
				}
				running.Wait()
			})
		})
	}
	running.Wait()
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "server\tera\tlogin\trefresh\tstep-up\tlogout\tcalls")
	for _, row := range rows {
		if row != "" { // if empty, -run excludes it
			fmt.Fprintln(w, row)
		}
	}
	_ = w.Flush()
	t.Logf("\n%s", table.String())
}

// protect starts the authorization server, and our server, which trusts it.
func (s *foreignServer) protect(t *testing.T) foreignTrust {
	t.Helper()
	mux := http.NewServeMux()
	var last atomic.Value
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r)
		if c := w.Header().Get("WWW-Authenticate"); strings.Contains(c, "error=") {
			last.Store(c)
		}
	}))
	t.Cleanup(ts.Close)
	trust := s.start(t, ts.URL+"/mcp")
	trust.lastRefusal = func() string { return fmt.Sprint(last.Load()) }
	trust.server.Resource, trust.server.Scopes = ts.URL+"/mcp", []string{"read"}
	protectRondo(t, mux, "/mcp", trust.server)
	return trust
}

// try returns the outcomes of a login, a refresh, a step-up, a logout, and the calls between them.
func (s *foreignServer) try(t *testing.T, trust foreignTrust, revision string) []string {
	t.Helper()
	ctx, events, store := within(t, patience), &loginEvents{}, newCopiedStore()
	opts := trust.client
	opts.Observe, opts.Store = events.observe, store
	if opts.Machine == nil {
		opts.Interaction = &oauth.Loopback{Browse: newFormBrowser(t).open}
	}
	endpoint := trust.server.Resource
	login, err := oauth.New(endpoint, &opts)
	noError(t, err)
	call, calls := dialAs(t, endpoint, revision, login), 0
	use := func(tool, want string, logins int) {
		t.Helper()
		got, err := call(ctx, tool)
		if want += " for " + trust.subject; err != nil || got != want {
			t.Fatalf("%s: got %q, %v, want %q", tool, got, err, want)
		}
		if n := events.count(oauth.LoginEnded); n != logins && opts.Machine == nil {
			t.Fatalf("%s: %d logins, want %d; errors %v", tool, n, logins, events.errs)
		}
		calls++
	}
	use("read", "read", 1)
	cells := []string{"ok", "no refresh tokens", "ok", "ok", ""}
	if opts.Machine != nil {
		// Servers allow a minute after expiry. A just issued token that is refused is not replaced.
		time.Sleep(11 * time.Second)
		n := events.count(oauth.LoginEnded)
		refuseToken(ctx, t, login, endpoint)
		if use("read", "read", 0); events.count(oauth.LoginEnded) != n+1 {
			t.Fatalf("%d requests for tokens, want one more than %d", events.count(oauth.LoginEnded), n)
		}
		cells[1] = "a new token"
	} else if !s.noRefresh {
		for events.count(oauth.TokenRefresh) < 2 { // the second refresh uses the first one's result
			use("read", "read", 1)
			time.Sleep(20 * time.Millisecond)
		}
		cells[1] = "ok, twice"
	}
	use("write", "written", 2)
	use("read", "read", 2)
	stolen := store.clone(ctx, t)
	if err := login.Logout(ctx); err != nil || events.count(oauth.LoggedOut) != 1 {
		t.Fatalf("logout: %v, %d events", err, events.count(oauth.LoggedOut))
	}
	switch {
	case s.noRevocation:
		cells[3] = "forgotten, not revoked"
	case opts.Machine == nil && !s.noRefresh:
		opts.Store = stolen
		checkRefreshRefused(t, endpoint, revision, opts)
		cells[3] = "ok, refresh refused"
	}
	use("read", "read", 3)
	if len(events.errs) > 0 {
		t.Errorf("errors %v", events.errs)
	}
	cells[4] = fmt.Sprintf("%d ok", calls)
	return cells
}

// refuseToken rejects a login's token, like a server after the token's expiry.
func refuseToken(ctx context.Context, t *testing.T, login *oauth.Source, endpoint string) {
	t.Helper()
	at, err := url.Parse(endpoint)
	noError(t, err)
	out := clienthttp.Outgoing{Method: http.MethodPost, URL: at, RPC: "tools/call"}
	sent, err := login.Credentials(ctx, out)
	noError(t, err)
	again, err := login.Refused(ctx, clienthttp.Refusal{Outgoing: out, Sent: sent, Attempt: 1,
		Status: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {"Bearer"}}})
	if err != nil || !again {
		t.Fatalf("after a refusal: got %v, %v", again, err)
	}
}

// checkRefreshRefused uses a copy of a login from before its logout. Its refresh must be refused.
func checkRefreshRefused(t *testing.T, endpoint, revision string, opts oauth.Options) {
	t.Helper()
	events, ctx := &loginEvents{}, within(t, patience)
	opts.Observe, opts.Interaction = events.observe, nil
	login, err := oauth.New(endpoint, &opts)
	noError(t, err)
	call := dialAs(t, endpoint, revision, login)
	for events.count(oauth.TokenRefresh) == 0 && ctx.Err() == nil {
		_, _ = call(ctx, "read") // the access token may still be valid after the logout
		time.Sleep(20 * time.Millisecond)
	}
	events.mu.Lock()
	defer events.mu.Unlock()
	refused := (*oauth.TokenError)(nil)
	if len(events.errs) == 0 || !errors.As(events.errs[0], &refused) ||
		refused.Code != "invalid_grant" {
		t.Errorf("the refresh after the logout: got %v, want invalid_grant", events.errs)
	}
}

type loginEvents struct {
	mu    sync.Mutex
	kinds map[oauth.LoginEventKind]int
	errs  []error
}

func (e *loginEvents) observe(event oauth.LoginEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kinds == nil {
		e.kinds = map[oauth.LoginEventKind]int{}
	}
	e.kinds[event.Kind]++
	if event.Err != nil {
		e.errs = append(e.errs, event.Err)
	}
}

func (e *loginEvents) count(kind oauth.LoginEventKind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kinds[kind]
}

// A copiedStore is an in-memory store whose records can be copied.
type copiedStore struct {
	oauth.TokenStore
	mu      sync.Mutex
	records map[oauth.Key][]byte
}

func newCopiedStore() *copiedStore {
	return &copiedStore{TokenStore: oauth.NewMemoryStore(), records: map[oauth.Key][]byte{}}
}

func (s *copiedStore) Save(ctx context.Context, k oauth.Key, record []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[k] = record
	return s.TokenStore.Save(ctx, k, record)
}

func (s *copiedStore) clone(ctx context.Context, t *testing.T) oauth.TokenStore {
	t.Helper()
	s.mu.Lock()
	records := maps.Clone(s.records)
	s.mu.Unlock()
	other := oauth.NewMemoryStore()
	for k, record := range records {
		noError(t, other.Save(ctx, k, record))
	}
	return other
}

// A formBrowser keeps cookies. It fills in and submits each form.
type formBrowser struct{ client *http.Client }

func newFormBrowser(t *testing.T) *formBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	noError(t, err)
	return &formBrowser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// open loads pages until a page redirects to the redirect URI.
func (b *formBrowser) open(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	redirect := u.Query().Get("redirect_uri")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	for range 20 {
		if err != nil {
			return err
		}
		page, body, err := b.load(r)
		if err != nil {
			return err
		}
		if strings.HasPrefix(r.URL.String(), redirect) {
			return nil
		}
		if location, none := page.Location(); none == nil {
			r, err = http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
		} else {
			r, err = newSubmission(ctx, r.URL, page.StatusCode, body)
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the browser was shown too many pages")
}

func (b *formBrowser) load(r *http.Request) (*http.Response, string, error) {
	r.Header.Set("Accept", "text/html")
	page, err := b.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer page.Body.Close()
	body, err := io.ReadAll(io.LimitReader(page.Body, 1<<20))
	return page, string(body), err
}

var (
	formPattern  = regexp.MustCompile(`(?is)<form\b([^>]*)>(.*?)</form>`)
	inputPattern = regexp.MustCompile(`(?is)<input\b[^>]*>`)
)

func newSubmission(ctx context.Context, at *url.URL, status int, page string) (
	*http.Request, error) {
	form := formPattern.FindStringSubmatch(page)
	if status != http.StatusOK || form == nil {
		return nil, fmt.Errorf("the browser ends at %s with status %d: %s", at, status, page)
	}
	values := url.Values{}
	for _, input := range inputPattern.FindAllString(form[2], -1) {
		value := attribute(input, "value")
		switch name := attribute(input, "name"); name {
		case "username", "login", "email":
			values.Set(name, foreignUser)
		case "password":
			values.Set(name, foreignPassword)
		default:
			values.Set(name, value)
		}
	}
	action, err := at.Parse(attribute(form[1], "action"))
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, action.String(),
		strings.NewReader(values.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r, err
}

// This is the user's name and password at all foreign servers.
const foreignUser, foreignPassword = "test-user2", "verysecure"

func attribute(element, name string) string {
	found := regexp.MustCompile(`(?is)\b` + name + `\s*=\s*"([^"]*)"`).FindStringSubmatch(element)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}
