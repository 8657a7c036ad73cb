package visit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A database is the subject of the page, a secret its input.
type database struct {
	Name string `json:"name"`
}

type secret struct {
	Password string `json:"password"`
}

const (
	question = "marker-of-the-question"
	password = "marker-of-the-password"
)

var form = template.Must(template.New("").Parse(`<!doctype html><title>Password</title>
<p>{{.About.Name}}: {{.Visitor.Subject}}<form method="post">
<input type="hidden" name="visit_token" value="{{.Token}}">
<input type="password" name="password"><button>Send</button></form>`))

func showForm(w http.ResponseWriter, r *http.Request, v *visit.Visit[database, secret]) {
	entered := r.PostFormValue("password")
	if r.Method != http.MethodPost || entered == "" {
		_ = form.Execute(w, v)
		return
	}
	switch err := v.Finish(r.Context(), secret{entered}); {
	case errors.Is(err, visit.ErrOver):
		http.Error(w, "too late", http.StatusConflict)
	case err != nil:
		http.Error(w, "please try again", http.StatusServiceUnavailable)
	default:
		fmt.Fprint(w, "thank you")
	}
}

func cookieLogin(w http.ResponseWriter, r *http.Request) (protocol.Principal, bool) {
	cookie, err := r.Cookie("who")
	if err != nil {
		http.Error(w, "log in first", http.StatusUnauthorized)
		return protocol.Principal{}, false
	}
	return principal(cookie.Value), true
}

func principal(name string) protocol.Principal {
	return protocol.Principal{Issuer: "https://id.example", Subject: name}
}

// A site is two replicas of a server behind one address: clients of 2026-07-28 alternate, sessions
// use the first, browsers the second.
type site struct {
	url   string
	mux   *http.ServeMux
	pages [2]*visit.Page[database, secret]
	wire  bytes.Buffer // all traffic between clients and the server
	mu    sync.Mutex   // of wire
	log   strings.Builder
	seen  []event.VisitServed // by the second replica
}

// lastSeen returns the observer's last event about a browser.
func (s *site) lastSeen() event.VisitServed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

// listen opens an address before its handlers exist: a page has to know its address.
func listen(t *testing.T) (url string, mux *http.ServeMux) {
	mux = http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, mux
}

func newPage(t *testing.T, url string, opts visit.Options) *visit.Page[database, secret] {
	t.Helper()
	p, err := visit.NewPage(url, &opts, showForm)
	noError(t, err)
	return p
}

// newSite returns replicas with a shared store and separate, equal keyrings.
func newSite(t *testing.T, shared store.StateStore, opts visit.Options) *site {
	t.Helper()
	s := &site{}
	s.url, s.mux = listen(t)
	var replicas [2]http.Handler
	for i := range replicas {
		o := opts
		o.Visitor, o.Store, o.Keys = cookieLogin, shared, servertest.NewKeyring("k")
		o.Observer = observe(func(e event.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen = append(s.seen, e.(event.VisitServed))
		})
		s.pages[i] = newPage(t, s.url+"/password", o)
		srv := newServer(t, s.pages[i], s)
		replicas[i] = servertest.NewHandler(t, srv, &serverhttp.Options{
			Authenticate: func(r *http.Request) (protocol.Principal, error) {
				name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				if name == "" {
					return protocol.Principal{}, nil
				}
				return principal(name), nil
			}})
	}
	var n atomic.Int64
	s.mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		i := int64(0)
		if r.Header.Get("Mcp-Protocol-Version") == string(protocol.Latest) {
			i = n.Add(1) % 2
		}
		replicas[i].ServeHTTP(w, r)
	})
	s.mux.HandleFunc("/password", func(w http.ResponseWriter, r *http.Request) {
		s.pages[1].ServeHTTP(w, r)
	})
	return s
}

func newServer(t *testing.T, p *visit.Page[database, secret], s *site) *server.Server {
	t.Helper()
	srv, err := server.New(&server.Options{Info: servertest.Info(),
		Roundtrip: roundtrip.Options{Sealer: servertest.NewKeyring("k"), MinHumanTime: -1},
		Observer: observe(func(e event.Event) {
			if s != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				fmt.Fprintf(&s.log, "%+v\n", e)
			}
		})})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	server.AddTool(srv, server.Tool{Name: "unlock", Task: server.TaskCan}, func(ctx context.Context,
		_ *server.ToolCall, in database) (protocol.CallToolOutcome, error) {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
		if _, err := roundtrip.Memo(ctx, "password", func(context.Context) (string, error) {
			return "a key of the author's, and not that of the page", nil
		}); err != nil {
			return nil, err
		}
		got, err := p.Ask(ctx, "password", "Please enter the password.", in)
		if err != nil {
			return nil, err
		}
		_, err = roundtrip.Ask[struct{}](ctx, "sure", "Unlock it?")
		if err != nil {
			return nil, err
		}
		return server.Text("unlocked: " + fmt.Sprint(got.Password == password)), nil
	})
	return srv
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.record(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		res.Body = &recorded{res.Body, s}
	}
	return res, err
}

func (s *site) record(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire.Write(text)
}

type recorded struct {
	io.ReadCloser
	site *site
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.site.record(p[:n])
	return n, err
}

// connect returns a client of a user, anonymous without a name, who opens links with go.
func (s *site) connect(t *testing.T, era protocol.Era, name string,
	visit func(link string) protocol.ElicitAction) *client.Client {
	t.Helper()
	header := http.Header{}
	if name != "" {
		header.Set("Authorization", "Bearer "+name)
	}
	peer, err := clienthttp.New(s.url+"/mcp", &clienthttp.Options{
		HTTPClient: &http.Client{Transport: s}, Header: header})
	noError(t, err)
	return connectTo(t, peer, era, visit)
}

func connectTo(t *testing.T, peer protocol.Peer, era protocol.Era,
	visit func(link string) protocol.ElicitAction) *client.Client {
	t.Helper()
	c, err := client.New(peer, &client.Options{Era: era, NoBusyRetry: true,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
		},
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: visit(q.URL)}, nil
		}})
	noError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func unlock(t *testing.T, c *client.Client) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), "unlock", database{question})
	if err != nil {
		return err.Error()
	}
	return result.Content[0].(*protocol.TextContent).Text
}

type browser struct {
	t    *testing.T
	http *http.Client
}

// newBrowser returns the browser of a user, logged in unless the name is empty.
func newBrowser(t *testing.T, site, name string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	noError(t, err)
	if name != "" {
		u, _ := url.Parse(site)
		jar.SetCookies(u, []*http.Cookie{{Name: "who", Value: name}})
	}
	return &browser{t, &http.Client{Jar: jar}}
}

// send sends a browser's request, after changes, and returns its status and text.
func (b *browser) send(method, link string, fields url.Values,
	change func(*http.Request)) (int, string) {
	b.t.Helper()
	r, err := http.NewRequest(method, link, strings.NewReader(fields.Encode()))
	noError(b.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+r.URL.Host)
	}
	if change != nil {
		change(r)
	}
	res, err := b.http.Do(r)
	noError(b.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	noError(b.t, err)
	for name, want := range map[string]string{"Cache-Control": "no-store",
		"Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
		if got := res.Header.Get(name); got != want {
			b.t.Errorf("%s %d: %s is %q, want %q", method, res.StatusCode, name, got, want)
		}
	}
	return res.StatusCode, string(text)
}

// sendEight sends eight forms at once, and counts the statuses.
func (b *browser) sendEight(link string, form func(i int) url.Values) map[int]int {
	statuses, got := make(chan int), map[int]int{}
	for i := range 8 {
		go func() {
			status, _ := b.send(http.MethodPost, link, form(i), nil)
			statuses <- status
		}()
	}
	for range 8 {
		got[<-statuses]++
	}
	return got
}

var tokenOf = regexp.MustCompile(`name="visit_token" value="([^"]+)"`)

func (b *browser) open(link string) url.Values {
	b.t.Helper()
	status, text := b.send(http.MethodGet, link, nil, nil)
	found := tokenOf.FindStringSubmatch(text)
	if status != http.StatusOK || found == nil {
		b.t.Fatalf("the link: %d %s", status, text)
	}
	return url.Values{visit.TokenField: {found[1]}, "password": {password}}
}

func (b *browser) finish(link string) {
	b.t.Helper()
	if status, text := b.send(http.MethodPost, link, b.open(link), nil); status != http.StatusOK {
		b.t.Errorf("finishing: %d %s", status, text)
	}
}

type observe func(event.Event)

func (o observe) Observe(_ context.Context, e event.Event) { o(e) }
