package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A visitor logs in with a browser that does not come back by itself.
type visitor struct{ browser *oauthtest.Browser }

func (v visitor) Open(context.Context, oauth.Redirect) (oauth.Receiver, error) { return v, nil }

func (visitor) RedirectURI() string { return "http://127.0.0.1:9/callback" }

func (visitor) Close() error { return nil }

func (v visitor) Receive(ctx context.Context, l *oauth.Login, check func(*url.URL) error) (
	*url.URL, error) {
	callback, err := v.browser.Visit(ctx, l.URL)
	if err != nil {
		return nil, err
	}
	return callback, check(callback)
}

// A safe is a server behind an authorization server, with one tool for everybody and one that
// needs another scope and asks before it writes.
type safe struct {
	as      *oauthtest.Server
	web     *http.Client
	url     string
	written atomic.Int32

	mu     sync.Mutex
	events strings.Builder
}

func (s *safe) Observe(_ context.Context, e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.events, "%T %+v\n", e, e)
}

// newSafe starts a server that verifies tokens itself, or asks about each. It and the authorization
// server are reached over pipes, so that time can pass.
func newSafe(t *testing.T, opaque bool, lifetime time.Duration) *safe {
	t.Helper()
	s := &safe{}
	mux := http.NewServeMux()
	pipe := pipehttp.Serve(t, mux)
	s.web = pipe.Client()
	t.Cleanup(s.web.CloseIdleConnections)
	origin := strings.TrimSuffix(pipehttp.URL, "/")
	s.url = origin + "/mcp"
	s.as = oauthtest.NewServer(t, &oauthtest.Options{Opaque: opaque, Path: "/login",
		Lifetime: lifetime,
		Clients:  []oauthtest.Client{{ID: "safe", Secret: "the secret of the safe"}},
		Listen: func(h http.Handler) string {
			mux.Handle("/", h)
			return origin
		}})

	issuer := bearer.Issuer{URL: s.as.URL}
	if opaque {
		issuer.Introspection = &bearer.Introspection{URL: s.as.URL + "/introspect",
			ClientID: "safe", ClientSecret: "the secret of the safe"}
	}
	guard, err := bearer.New(bearer.Options{Resource: s.url, Issuers: []bearer.Issuer{issuer},
		Scopes: []string{"read"}, HTTPClient: s.web})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(&server.Options{Observer: s,
		Roundtrip: roundtrip.Options{Guard: store.NewMemoryGuard(0)}})
	if err != nil {
		t.Fatal(err)
	}
	s.addTools(srv)
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/mcp", endpoint)
	path, metadata := guard.Metadata()
	mux.Handle(path, metadata)
	return s
}

func (s *safe) addTools(srv *server.Server) {
	server.AddRawTool(srv, server.Tool{Name: "look"},
		func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("seen by " + call.Principal.Subject), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "write", Scopes: []string{"write"}},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			word, ok := roundtrip.AcceptedContent[entry](ctx, "word")
			if !ok {
				return roundtrip.InputRequired(roundtrip.Elicit[entry]("word", "Which word?")), nil
			}
			return server.Text(fmt.Sprintf("%s by %s, time %d", word.Word, call.Principal.Subject,
				s.written.Add(1))), nil
		})
}

// open returns a client of a person with a browser of their own. When they are asked, asked runs.
func (s *safe) open(t *testing.T, era protocol.Era, asked func()) *client.Client {
	t.Helper()
	browser := oauthtest.NewBrowser(t)
	browser.Client = s.web
	login, err := oauth.New(s.url, &oauth.Options{Interaction: visitor{browser},
		Client: oauth.ClientInfo{Name: "e2e"}, HTTPClient: s.web})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := clienthttp.New(s.url, &clienthttp.Options{Authorizer: login, HTTPClient: s.web})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(peer, &client.Options{Era: era, ElicitForm: func(context.Context,
		*client.FormQuestion) (*protocol.ElicitResult, error) {
		asked()
		return client.Accept(entry{Word: "yes", Turn: 1})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *safe) wantCounts(t *testing.T, logins, refreshes int) {
	t.Helper()
	if got := s.as.Count(oauthtest.Authorize); got != logins {
		t.Errorf("%d logins, want %d", got, logins)
	}
	if got := s.as.Count(oauthtest.Refresh); got != refreshes {
		t.Errorf("%d refreshes, want %d", got, refreshes)
	}
}

// wantNoSecrets checks that no event has anything that the authorization server keeps secret.
func (s *safe) wantNoSecrets(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events.Len() == 0 {
		t.Error("there were no events")
	}
	for _, secret := range s.as.Secrets() {
		if strings.Contains(s.events.String(), secret) {
			t.Errorf("events have the secret %q", secret)
		}
	}
}

// TestAuthorization: a person logs in with the first call, steps up for the tool that needs more,
// and answers its question with whatever token they have by then.
func TestAuthorization(t *testing.T) {
	for name, of := range map[string]struct {
		opaque    bool
		lifetime  time.Duration // of tokens; 0: an hour
		asked     func(s *safe)
		logins    int
		refreshes int
	}{
		"keys are rotated while the person thinks": {
			asked: func(s *safe) {
				s.as.RotateKeys()
				time.Sleep(5 * time.Minute)
			},
			logins: 2,
		},
		"keys are rotated and the token ends": {
			lifetime: 3 * time.Minute,
			asked: func(s *safe) {
				s.as.RotateKeys()
				s.as.RetireKeys()
				time.Sleep(5 * time.Minute)
			},
			logins: 2, refreshes: 1,
		},
		"the token is taken back": {
			opaque: true,
			asked: func(s *safe) {
				time.Sleep(time.Minute)
				s.as.Expire()
			},
			logins: 2, refreshes: 1,
		},
		"the login is taken back": {
			opaque: true,
			asked: func(s *safe) {
				time.Sleep(time.Minute)
				s.as.RevokeAll()
			},
			logins: 3, refreshes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for era, spoken := range map[string]protocol.Era{
				"2026-07-28": protocol.Modern, "2025-11-25": protocol.Legacy,
			} {
				t.Run(era, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newSafe(t, of.opaque, of.lifetime)
						c := s.open(t, spoken, func() { of.asked(s) })
						s.lookAndWrite(t, c)
						s.wantCounts(t, of.logins, of.refreshes)
						s.wantNoSecrets(t)
					})
				})
			}
		})
	}
}

func (s *safe) lookAndWrite(t *testing.T, c *client.Client) {
	t.Helper()
	got, err := tool("look", "")(t.Context(), c)
	if err != nil || got != "seen by alice" {
		t.Fatalf("got %q, %v", got, err)
	}
	s.wantCounts(t, 1, 0)
	got, err = tool("write", "")(t.Context(), c)
	if n := s.written.Load(); err != nil || got != "yes by alice, time 1" || n != 1 {
		t.Errorf("got %q, %v; the tool has written %d times, want once", got, err, n)
	}
}

// TestAnotherPersonLogsInMeanwhile: the browser is bob's when the question comes back, so that his
// answer to alice's question is refused, and nothing is written for either.
func TestAnotherPersonLogsInMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSafe(t, true, 0)
		c := s.open(t, protocol.Modern, func() {
			time.Sleep(time.Minute)
			s.as.SetSubject("bob")
			s.as.RevokeAll()
		})
		got, err := tool("write", "")(t.Context(), c)
		if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams ||
			s.written.Load() != 0 {
			t.Errorf("got %q, %v; written %d times", got, err, s.written.Load())
		}
		s.wantNoSecrets(t)
	})
}
