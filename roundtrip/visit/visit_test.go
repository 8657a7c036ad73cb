package visit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/visit"
	"github.com/rondo-mcp/rondo/server/serverhttp"
	"github.com/rondo-mcp/rondo/server/tasks"
)

var noError = testkit.NoError

func TestMain(m *testing.M) { testkit.Main(m) }

var eras = map[string]protocol.Era{"2026-07-28": protocol.Modern, "2025-11-25": protocol.Legacy}

const accept, decline = protocol.ActionAccept, protocol.ActionDecline

// TestPasswordByVisit: input at one replica reaches the handler at another, past client and
// observer.
func TestPasswordByVisit(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, store.NewMemoryStateStore(0), visit.Options{})
			ann, done := newBrowser(t, s.url, "ann"), make(chan struct{})
			c := s.connect(t, era, "ann", func(link string) protocol.ElicitAction {
				fields := ann.open(link) // before anybody has agreed
				go func() {
					defer close(done)
					time.Sleep(50 * time.Millisecond) // the call waits by then
					if status, text := ann.send(http.MethodPost, link, fields, nil); status != 200 {
						t.Errorf("%d %s", status, text)
					}
				}()
				return accept
			})
			if got := unlock(t, c); got != "unlocked: true" {
				t.Errorf("the call ended with %q", got)
			}
			<-done
			s.mu.Lock()
			defer s.mu.Unlock()
			for where, text := range map[string]string{"wire": s.wire.String(),
				"log": s.log.String()} {
				if len(text) < 500 || strings.Contains(text, password) {
					t.Errorf("the password is in the %s, of %d bytes", where, len(text))
				}
			}
			if completed := strings.Contains(s.wire.String(),
				protocol.NotifyElicitationCompleted); completed != (era == protocol.Legacy) {
				t.Errorf("the client is told that the visit is complete: %v", completed)
			}
		})
	}
}

// serveLines serves a page and its server like a stdio process.
func serveLines(t *testing.T, era protocol.Era,
	visitPage func(link string) protocol.ElicitAction) *client.Client {
	at, mux := listen(t)
	page := newPage(t, at+"/password", visit.Options{Visitor: visit.LocalVisitor})
	mux.Handle("/password", page)
	srv := newServer(t, page, nil)
	r, w := servertest.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
		_ = srv.ServeStream(ctx, in.(io.ReadCloser), out.(io.WriteCloser), nil)
	})
	return connectTo(t, client.NewStream(r, w, nil), era, visitPage)
}

func TestVisitOverStdio(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t, "", "")
			var last string
			c := serveLines(t, era, func(link string) protocol.ElicitAction {
				b.finish(link)
				last = link
				return accept
			})
			if got := unlock(t, c); got != "unlocked: true" {
				t.Errorf("the call ended with %q", got)
			}
			u, err := url.Parse(last)
			noError(t, err)
			for what, change := range map[string]func(*http.Request){
				"a proxy": func(r *http.Request) {
					r.Header.Set("X-Forwarded-For", "192.0.2.1")
				},
				"a proxy that adds a line to one that is empty": func(r *http.Request) {
					r.Header["X-Forwarded-For"] = []string{"", "192.0.2.1"}
				},
				"a proxy that tells the port": func(r *http.Request) {
					r.Header.Set("X-Forwarded-Port", "443")
				},
				"another name": func(r *http.Request) { r.Host = "rebound.example:" + u.Port() },
			} {
				if status, _ := b.send(http.MethodGet, last, nil, change); status != 403 {
					t.Errorf("%s: %d", what, status)
				}
			}
		})
	}
}

// TestLinksOfOthers: other users learn nothing from any link.
func TestLinksOfOthers(t *testing.T) {
	states := store.NewMemoryStateStore(0)
	s := newSite(t, states, visit.Options{})
	links := make(chan string, 1)
	c := s.connect(t, protocol.Modern, "ann", func(link string) protocol.ElicitAction {
		links <- link
		return accept
	})
	ended := make(chan string)
	go func() { ended <- unlock(t, c) }()
	link := <-links
	ann, bob := newBrowser(t, s.url, "ann"), newBrowser(t, s.url, "bob")
	fields := ann.open(link)
	status, stranger := bob.send(http.MethodGet, s.url+"/password?visit=unknown", nil, nil)
	if status != http.StatusNotFound {
		t.Errorf("an unknown visit: %d", status)
	}
	s.mux.Handle("/elsewhere", newPage(t, s.url+"/elsewhere", visit.Options{Visitor: cookieLogin,
		Store: states, Keys: servertest.NewKeyring("k")}))
	for _, tc := range []struct {
		name, method, link string
		from               *browser
		change             func(*http.Request)
		status             int
		text, how          string
	}{
		{"another person", "GET", link, bob, nil, 404, stranger, "stranger"},
		{"another person's form", "POST", link, bob, nil, 404, stranger, "stranger"},
		{"nobody", "GET", link, newBrowser(t, s.url, ""), nil, 401, "log in first\n", ""},
		{"no visit", "GET", s.url + "/password", ann, nil, 404, stranger, "stranger"},
		{"another page", "GET", strings.Replace(link, "/password", "/elsewhere", 1), ann, nil, 404,
			stranger, ""},
		{"a long id", "GET", link + strings.Repeat("x", 4000), ann, nil, 404, stranger, "stranger"},
		{"no query", "GET", link + "%zz", ann, nil, 404, stranger, "stranger"},
		{"a foreign origin", "POST", link, ann, func(r *http.Request) {
			r.Header.Set("Origin", "http://evil.example")
		}, 403, "<h1>This was not sent by the page itself</h1>\n<p>Open the link once more and use its form.</p>",
			"origin"},
		{"no origin", "POST", link, ann, func(r *http.Request) { r.Header.Del("Origin") }, 403, "", "origin"},
		{"an origin that is null", "POST", link, ann, func(r *http.Request) {
			r.Header.Set("Origin", "null")
		}, 403, "", "origin"},
		{"a foreign host", "GET", link, ann, func(r *http.Request) {
			r.Host = "evil.example"
		}, 403, "", "host"},
		{"another browser", "POST", link, newBrowser(t, s.url, "ann"), nil, 403, "", "token"},
		{"no token", "POST", link, ann, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("password=x")), 10
		}, 403, "", "token"},
		{"a form that is too long", "POST", link, ann, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 1<<20)))
			r.ContentLength = 1 << 20
		}, 413, "", "size"},
		{"another method", "PUT", link, ann, nil, 405, "", "method"},
		{"a prefetch", "GET", link, ann, func(r *http.Request) {
			r.Header.Set("Sec-Purpose", "prefetch")
		}, 200, "", "shown"},
		{"a preview", "HEAD", link, ann, nil, 200, "", "shown"},
	} {
		status, text := tc.from.send(tc.method, tc.link, fields, tc.change)
		if status != tc.status || !strings.Contains(text, tc.text) {
			t.Errorf("%s: %d %q, want %d %q", tc.name, status, text, tc.status, tc.text)
		}
		if seen := s.lastSeen(); tc.how != "" && (seen.How != tc.how || seen.RemoteAddr == "" ||
			tc.from == bob && seen.Principal != principal("bob") ||
			strings.Contains(link, seen.Visit) != (seen.Visit == "")) {
			t.Errorf("%s: the observer was told %+v, want %s", tc.name, seen, tc.how)
		}
		if status != 200 && strings.Contains(text, question) {
			t.Errorf("%s: the page shows the question", tc.name)
		}
	}
	// A page of questions, to which the server has switched, cannot read it.
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", link, nil)
	r.AddCookie(&http.Cookie{Name: "who", Value: "ann"})
	newQuestions(t, s.url+"/password", states, visit.QuestionOptions{})[0].ServeHTTP(w, r)
	if w.Code != http.StatusNotFound || w.Body.String() != stranger {
		t.Errorf("of another version: %d %s", w.Code, w.Body)
	}
	ann.finish(link) // still open
	if got := <-ended; got != "unlocked: true" {
		t.Errorf("the call ended with %q", got)
	}
}

// TestUsedOnce: one of many tabs finishes a visit; only its user learns that a link is over.
func TestUsedOnce(t *testing.T) {
	s := newSite(t, store.NewMemoryStateStore(0), visit.Options{})
	ann := newBrowser(t, s.url, "ann")
	var link string
	c := s.connect(t, protocol.Modern, "ann", func(at string) protocol.ElicitAction {
		link = at
		fields := ann.open(link)
		fields.Set("password", "")
		if status, text := ann.send("POST", link, fields, nil); status != 200 ||
			tokenOf.FindStringSubmatch(text) == nil {
			t.Errorf("nothing entered: %d %s, want the form again", status, text)
		}
		for range 8 {
			tab := ann.open(link)
			defer func() {
				if status, _ := ann.send("POST", link, tab, nil); status != 410 {
					t.Errorf("a tab that comes later: %d", status)
				}
			}()
			fields = tab
		}
		got := ann.sendEight(link, func(int) url.Values { return fields })
		if got[200] != 1 || got[409]+got[410] != 7 {
			t.Errorf("eight tabs: %v", got)
		}
		return accept
	})
	if got := unlock(t, c); got != "unlocked: true" {
		t.Errorf("the call ended with %q", got)
	}
	if status, text := ann.send("GET", link, nil, nil); status != 410 ||
		!strings.Contains(text, "over") {
		t.Errorf("a link after the end: %d %s", status, text)
	}
	if status, _ := newBrowser(t, s.url, "bob").send("GET", link, nil, nil); status != 404 {
		t.Errorf("for another person: %d", status)
	}
}

// TestVisitsThatEnd by a refusal at the client, or by time: the link is over.
func TestVisitsThatEnd(t *testing.T) {
	for name, era := range eras {
		for _, tc := range []struct {
			name          string
			ttl           time.Duration
			action        protocol.ElicitAction
			call, browser string
		}{
			{"over", 0, decline, "declined", ""},
			{"late", 2 * time.Second, accept, "not finished in time", "time"},
		} {
			t.Run(name+" "+tc.name, func(t *testing.T) {
				s := newSite(t, &keeper{StateStore: store.NewMemoryStateStore(0)},
					visit.Options{TTL: tc.ttl})
				var link string
				c := s.connect(t, era, "ann", func(at string) protocol.ElicitAction {
					link = at
					return tc.action
				})
				if got := unlock(t, c); !strings.Contains(got, tc.call) {
					t.Errorf("the call ended with %q", got)
				}
				if status, text := newBrowser(t, s.url, "ann").send("GET", link, nil,
					nil); status != 410 || !strings.Contains(text, tc.browser) {
					t.Errorf("the link: %d %s", status, text)
				}
				if seen := s.lastSeen(); seen.How != tc.name {
					t.Errorf("the observer was told %+v", seen)
				}
			})
		}
	}
}

// TestARefusedVisitStaysRefused, whatever the client says when it answers once more.
func TestARefusedVisitStaysRefused(t *testing.T) {
	s := newSite(t, store.NewMemoryStateStore(0), visit.Options{})
	peer, err := clienthttp.New(s.url+"/mcp", &clienthttp.Options{
		Header: http.Header{"Authorization": {"Bearer ann"}}})
	noError(t, err)
	c, err := client.New(peer, &client.Options{Manual: &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true}}})
	noError(t, err)
	defer c.Close()
	_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "unlock",
		Arguments: json.RawMessage(`{"name":"x"}`)})
	noError(t, err)
	for _, tc := range []struct {
		action protocol.ElicitAction
		want   string
	}{{decline, "declined"}, {accept, "refused before"}} {
		noError(t, pending.Answer("password", protocol.ElicitResult{Action: tc.action}))
		result, _, err := c.Resume(t.Context(), pending)
		got := fmt.Sprint(err)
		if r, ok := result.(*protocol.CallToolResult); ok {
			got = r.Content[0].(*protocol.TextContent).Text
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s: the call ended with %q", tc.action, got)
		}
	}
}

// TestAFinishedVisitStaysOver until it expires, even with another TTL or a late clock at the page.
func TestAFinishedVisitStaysOver(t *testing.T) {
	shared := store.NewMemoryStateStore(0)
	s := newSite(t, shared, visit.Options{})
	s.pages[1] = newPage(t, s.url+"/password", visit.Options{TTL: time.Second,
		Visitor: cookieLogin, Store: shared, Keys: servertest.NewKeyring("k")})
	ann := newBrowser(t, s.url, "ann")
	var link string
	c := s.connect(t, protocol.Modern, "ann", func(at string) protocol.ElicitAction {
		link = at
		ann.finish(link)
		return accept
	})
	if got := unlock(t, c); got != "unlocked: true" {
		t.Errorf("the call ended with %q", got)
	}
	time.Sleep(1100 * time.Millisecond) // the page's TTL
	if status, text := ann.send(http.MethodGet, link, nil, nil); status != http.StatusGone {
		t.Errorf("after the end: %d %s", status, text)
	}
}

// A keeper keeps states longer, like a database, and may be down.
type keeper struct {
	store.StateStore
	down error
}

func (k *keeper) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	if k.down != nil {
		return k.down
	}
	return k.StateStore.Put(ctx, id, owner, state, until.Add(time.Minute))
}

func (k *keeper) Get(ctx context.Context, id string) ([]byte, error) {
	if k.down != nil {
		return nil, k.down
	}
	return k.StateStore.Get(ctx, id)
}

// TestStoresThatFail: no visit is shown that could not be finished.
func TestStoresThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"down": {errors.New("marker-of-the-reason"), "cannot reach what it keeps of visits; call again in 5s"},
		"full": {&store.QuotaError{Resource: "store", Limit: "principal",
			RetryAfter: time.Hour}, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{StateStore: store.NewMemoryStateStore(0), down: tc.err}
			s := newSite(t, k, visit.Options{})
			c := s.connect(t, protocol.Modern, "ann", func(string) protocol.ElicitAction {
				t.Error("the link is shown")
				return accept
			})
			if got := unlock(t, c); !strings.Contains(got, tc.want) ||
				strings.Contains(got, "marker") {
				t.Errorf("the call ended with %q", got)
			}
			if status, text := newBrowser(t, s.url, "ann").send("GET", s.url+"/password?visit=x",
				nil, nil); status != 503 || strings.Contains(text, "marker") {
				t.Errorf("the page: %d %s", status, text)
			}
		})
	}
}

func TestAnonymousCallers(t *testing.T) {
	s := newSite(t, store.NewMemoryStateStore(0), visit.Options{})
	c := s.connect(t, protocol.Modern, "", func(string) protocol.ElicitAction {
		t.Error("the link is shown")
		return accept
	})
	if got := unlock(t, c); !strings.Contains(got, "authenticate") {
		t.Errorf("the call ended with %q", got)
	}
}

func TestVisitWakesTask(t *testing.T) {
	at, mux := listen(t)
	var added *tasks.Tasks
	woken := make(chan string, 1)
	page := newPage(t, at+"/password", visit.Options{Visitor: cookieLogin, TTL: 24 * time.Hour,
		Wake: func(ctx context.Context, key string) error {
			woken <- key
			return added.Wake(ctx, key)
		}})
	mux.Handle("/password", page)
	srv := newServer(t, page, nil)
	var err error
	if added, err = tasks.New(srv, nil); err != nil {
		t.Fatal(err)
	}
	defer added.Shutdown(context.Background())
	ann, began := newBrowser(t, at, "ann"), time.Time{}
	mux.Handle("/mcp", servertest.NewHandler(t, srv, &serverhttp.Options{
		Authenticate: func(*http.Request) (protocol.Principal, error) {
			return principal("ann"), nil
		}}))
	peer, err := clienthttp.New(at+"/mcp", nil)
	noError(t, err)
	c, err := client.New(peer, &client.Options{Tasks: true,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return &protocol.ElicitResult{Action: accept}, nil
		},
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
			time.AfterFunc(9*time.Second, func() { // polls are 8 s apart by then, then 16 s
				began = time.Now()
				ann.finish(q.URL)
			})
			return &protocol.ElicitResult{Action: accept}, nil
		}})
	noError(t, err)
	defer c.Close()
	if got := unlock(t, c); got != "unlocked: true" {
		t.Errorf("the task ended with %q", got)
	}
	if key := <-woken; key == "" || time.Since(began) > 5*time.Second {
		t.Errorf("%v after the visit, woken with %q", time.Since(began), key)
	}
}

func TestPagesThatCannotBe(t *testing.T) {
	ring, states := servertest.NewKeyring("k"), store.NewMemoryStateStore(0)
	good := visit.Options{Visitor: cookieLogin}
	for _, tc := range []struct {
		url, want string
		opts      *visit.Options
	}{
		{"https://a.example/p", "", &good},
		{"https://a.example/p", "", &visit.Options{Visitor: cookieLogin, Store: states,
			Keys: ring}},
		{"http://127.0.0.1:80/p", "", &good},
		{"http://a.example/p", "https", &good},
		{"/p", "absolute", &good},
		{"https://a.example/p?x=y", "query", &good},
		{"https://a.example/p#x", "fragment", &good},
		{"https://a.example/p", "Visitor", nil},
		{"https://a.example/p", "Visitor", &visit.Options{}},
		{"https://a.example/p", "TTL", &visit.Options{Visitor: cookieLogin, TTL: -1}},
		{"https://a.example/p", "Keys", &visit.Options{Visitor: cookieLogin, Store: states}},
	} {
		_, err := visit.NewPage(tc.url, tc.opts, showForm)
		if (err == nil) != (tc.want == "") || err != nil &&
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %+v: %v, want %q", tc.url, tc.opts, err, tc.want)
		}
	}
	if _, err := visit.NewPage[database, secret]("https://a.example/p", &good, nil); err == nil {
		t.Error("a page without a function")
	}
}

func TestAskOutsideOfHandlers(t *testing.T) {
	p := newPage(t, "https://a.example/p", visit.Options{Visitor: cookieLogin})
	if _, err := p.Ask(t.Context(), "k", "m", database{}); err == nil ||
		!strings.Contains(err.Error(), "handler") {
		t.Errorf("got %v", err)
	}
}
