package clienthttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// The type scripted is an authorizer of a test. By default each token is new, and each refused
// request is resent.
type scripted struct {
	credentials func(context.Context, clienthttp.Outgoing) (http.Header, error)
	refused     func(context.Context, clienthttp.Refusal) (bool, error)

	mu       sync.Mutex
	asked    []clienthttp.Outgoing
	refusals []clienthttp.Refusal
}

func (s *scripted) Credentials(ctx context.Context, r clienthttp.Outgoing) (http.Header, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	n := len(s.asked)
	s.mu.Unlock()
	if s.credentials != nil {
		return s.credentials(ctx, r)
	}
	return http.Header{"Authorization": {fmt.Sprintf("Bearer secret-token-%d", n)}}, nil
}

func (s *scripted) Refused(ctx context.Context, r clienthttp.Refusal) (bool, error) {
	s.mu.Lock()
	s.refusals = append(s.refusals, r)
	s.mu.Unlock()
	if s.refused != nil {
		return s.refused(ctx, r)
	}
	return true, nil
}

func noCredentials(cause error) *scripted {
	return &scripted{credentials: func(context.Context, clienthttp.Outgoing) (http.Header, error) {
		return nil, cause
	}}
}

func refusedFor(cause error) *scripted {
	return &scripted{refused: func(context.Context, clienthttp.Refusal) (bool, error) {
		return false, cause
	}}
}

func refuseAll(sent *int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*sent++
		answer(401, "text/plain", "no")(w, r)
	}
}

type arrival struct{ method, session, lastEvent, rpc, auth, body string }

// key identifies a request. A retry has the same key.
func (a arrival) key() string {
	return strings.Join([]string{a.method, a.session, a.lastEvent, a.body}, " ")
}

// A gate refuses each request the first time, and lets its retry through.
type gate struct {
	next      http.Handler
	status    int             // of the refusal
	challenge string          // of the refusal
	only      string          // the JSON-RPC or HTTP method to refuse; empty: all
	resumed   chan<- struct{} // closed when a resumption gets through, or nil

	mu   sync.Mutex
	came []arrival
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(data)))
	var m struct{ Method string }
	_ = json.Unmarshal(data, &m)
	a := arrival{r.Method, r.Header.Get("Mcp-Session-Id"), r.Header.Get("Last-Event-Id"), m.Method,
		r.Header.Get("Authorization"), string(data)}
	g.mu.Lock()
	isNew := !slices.ContainsFunc(g.came, func(b arrival) bool { return a.key() == b.key() })
	g.came = append(g.came, a)
	g.mu.Unlock()
	if isNew && (g.only == "" || g.only == a.rpc || g.only == a.method) {
		w.Header().Set("WWW-Authenticate", g.challenge)
		answer(g.status, "text/plain", "no "+a.auth)(w, r)
		return
	}
	if a.lastEvent != "" && g.resumed != nil {
		close(g.resumed)
	}
	g.next.ServeHTTP(w, r)
}

func (g *gate) arrivals() []arrival {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.came)
}

// toolServer's tools echo, ask, or make the client reconnect and then wait for resumed.
func toolServer(t testing.TB, resumed <-chan struct{}) *server.Server {
	t.Helper()
	srv, err := server.New(nil)
	noError(t, err)
	server.AddRawTool(srv, server.Tool{Name: "echo"},
		func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("echo " + string(call.Arguments)), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "ask"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			who, err := roundtrip.Ask[struct {
				Name string `json:"name"`
			}](ctx, "who", "Name?")
			if err != nil {
				return nil, err
			}
			return server.Text("asked " + who.Name), nil
		})
	server.AddRawTool(srv, server.Tool{Name: "reconnect"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			if err := call.CloseStream(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
			<-resumed
			return server.Text("reconnected"), nil
		})
	return srv
}

func answerAda(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
	return &protocol.ElicitResult{Action: protocol.ActionAccept,
		Content: []byte(`{"name":"Ada"}`)}, nil
}

func connect(t testing.TB, h http.Handler, a clienthttp.Authorizer,
	era protocol.Era) *client.Client {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	tr, err := clienthttp.New(ts.URL+"/mcp?key=secret-of-the-url",
		&clienthttp.Options{Authorizer: a})
	noError(t, err)
	c, err := client.New(tr, &client.Options{Era: era, ElicitForm: answerAda})
	noError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newHandler(t testing.TB, srv *server.Server, opts *serverhttp.Options) *serverhttp.Handler {
	t.Helper()
	h, err := serverhttp.New(srv, opts)
	noError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ctx)
	})
	return h
}

// asAda gives all callers the same principal, so that state outlives a token.
func asAda() *serverhttp.Options {
	return &serverhttp.Options{Authenticate: func(*http.Request) (protocol.Principal, error) {
		return protocol.Principal{Subject: "ada"}, nil
	}}
}

func wantText(t testing.TB, c *client.Client, tool, want string) {
	t.Helper()
	result, err := c.CallTool(t.Context(), tool, nil)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if text, ok := result.Content[0].(*protocol.TextContent); !ok || text.Text != want {
		t.Errorf("%s: got %+v, want %q", tool, result.Content[0], want)
	}
}

func eachEra(t *testing.T, test func(t *testing.T, era protocol.Era)) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		t.Run(fmt.Sprint(era), func(t *testing.T) { test(t, era) })
	}
}

func TestEveryRequestThatIsRefusedIsSentAgainAsItWas(t *testing.T) {
	eachEra(t, func(t *testing.T, era protocol.Era) {
		resumed := make(chan struct{})
		g := &gate{next: newHandler(t, toolServer(t, resumed), asAda()), status: 401,
			challenge: "Bearer", resumed: resumed}
		a := &scripted{}
		c := connect(t, g, a, era)
		wantText(t, c, "echo", "echo {}")
		wantText(t, c, "ask", "asked Ada")
		_, _ = c.ReadResource(t.Context(), "test://none")
		want := []string{"POST tools/call"}
		wantTold := []string{"POST tools/call ask", "POST resources/read test://none"}
		if era == protocol.Legacy {
			wantText(t, c, "reconnect", "reconnected")
			want = []string{"POST initialize", "POST notifications/initialized", "GET",
				"POST tools/call", "POST answer", "GET resumed", "DELETE"}
			wantTold = append(wantTold, "POST initialize ", "POST notifications/initialized ",
				"GET  ", "POST  ", "DELETE  ")
		}
		noError(t, c.Close())
		sends, kinds, sessions := map[string]int{}, map[string]bool{}, map[string]bool{}
		last := map[string]string{}
		for _, r := range g.arrivals() {
			sends[r.key()]++
			kind := strings.TrimSpace(r.method + " " + r.rpc)
			switch {
			case r.lastEvent != "":
				kind += " resumed"
			case r.method == "POST" && r.rpc == "":
				kind += " answer"
			}
			kinds[kind] = true
			if r.session != "" {
				sessions[r.session] = true
			}
			if r.auth == "" || r.auth == last[r.key()] {
				t.Errorf("%s was sent with the credentials %q after %q", kind, r.auth,
					last[r.key()])
			}
			last[r.key()] = r.auth
		}
		for key, n := range sends {
			wantEqual(t, "sent: "+key, n, 2)
		}
		for _, kind := range want {
			if !kinds[kind] {
				t.Errorf("there was no %s: %v", kind, kinds)
			}
		}
		if len(sessions) > 1 {
			t.Errorf("the session was lost: %v", sessions)
		}
		var told []string
		for _, o := range a.asked {
			told = append(told, o.Method+" "+o.RPC+" "+o.Target)
		}
		for _, w := range wantTold {
			if !slices.Contains(told, w) {
				t.Errorf("the authorizer was told %q, want %q in it", told, w)
			}
		}
		for _, r := range a.refusals {
			if r.Status != 401 || r.Attempt != 1 || r.Header.Get("WWW-Authenticate") != "Bearer" ||
				!strings.HasPrefix(r.Sent.Get("Authorization"), "Bearer secret-token-") ||
				r.URL.Path != "/mcp" {
				t.Errorf("the authorizer was told %+v", r)
			}
		}
	})
}

// A stepUp is a server's authority and its client's authorizer. A token is a list of scopes.
type stepUp struct {
	mu     sync.Mutex
	scopes []string
	logins int
}

func (s *stepUp) Identify(r *http.Request) (serverhttp.Identity, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer token")
	if !ok {
		return serverhttp.Identity{}, &serverhttp.AuthError{Challenge: `Bearer scope="read"`}
	}
	return serverhttp.Identity{
		Principal: protocol.Principal{Subject: "ann"},
		Access:    &server.Access{Scopes: strings.Split(token, ",")},
	}, nil
}

func (s *stepUp) Challenge(_ serverhttp.Identity, lack *server.ScopeError) *serverhttp.AuthError {
	return &serverhttp.AuthError{Status: 403, Challenge: fmt.Sprintf(
		`Bearer error="insufficient_scope", scope=%q`, strings.Join(lack.Need, " "))}
}

func (s *stepUp) Credentials(context.Context, clienthttp.Outgoing) (http.Header, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scopes == nil {
		return nil, nil
	}
	return http.Header{"authorization": {"Bearer token" + strings.Join(s.scopes, ",")}}, nil
}

func (s *stepUp) Refused(_ context.Context, r clienthttp.Refusal) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Sent.Get("Authorization") == "" && s.scopes != nil {
		return true, nil // another login happened meanwhile
	}
	_, challenged, _ := strings.Cut(r.Header.Get("WWW-Authenticate"), `scope="`)
	s.scopes = append(s.scopes, strings.Fields(strings.TrimSuffix(challenged, `"`))...)
	s.logins++
	return true, nil
}

func TestACallStepsUpWithoutLosingItsSession(t *testing.T) {
	eachEra(t, func(t *testing.T, era protocol.Era) {
		srv := toolServer(t, nil)
		server.AddRawTool(srv, server.Tool{Name: "write", Scopes: []string{"read", "write"}},
			func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
				return server.Text("written"), nil
			})
		s := &stepUp{}
		g := &gate{next: newHandler(t, srv, &serverhttp.Options{Authority: s}), only: "none"}
		c := connect(t, g, s, era)
		wantText(t, c, "echo", "echo {}")
		wantText(t, c, "write", "written")
		wantText(t, c, "write", "written")
		wantEqual(t, "logins", s.logins, 2)
		sessions := map[string]bool{}
		for _, a := range g.arrivals() {
			sessions[a.session] = true
		}
		if delete(sessions, ""); era == protocol.Legacy && len(sessions) != 1 {
			t.Errorf("got the sessions %v, want one", sessions)
		}
	})
}

func TestAMessageIsSentAtMostFourTimes(t *testing.T) {
	sent := 0
	a := &scripted{}
	tr := serve(t, refuseAll(&sent), &clienthttp.Options{Authorizer: a})
	_, err := tr.Handle(t.Context(), request(), nil)
	status, ok := errors.AsType[*clienthttp.StatusError](err)
	if !ok || status.Status != 401 {
		t.Errorf("got %v, want the status", err)
	}
	if sent != 4 || len(a.asked) != sent || len(a.refusals) != sent-1 {
		t.Errorf("sent %d times with %d credentials and %d refusals", sent, len(a.asked),
			len(a.refusals))
	}
	for i, r := range a.refusals {
		wantEqual(t, fmt.Sprintf("refusal %d is of attempt", i), r.Attempt, i+1)
	}
}

func TestWhatIsARefusal(t *testing.T) {
	tests := []struct {
		name      string
		status    int
		challenge string
		told      bool
	}{
		{"401 with a challenge", 401, "Bearer", true},
		{"401 without one", 401, "", true},
		{"403 with a challenge", 403, `Bearer error="insufficient_scope"`, true},
		{"403 without one", 403, "", false},
		{"400", 400, "Bearer", false},
		{"503", 503, "", false},
		{"302", 302, "Bearer", false},
		{"200", 200, "Bearer", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := refusedFor(nil)
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if tt.challenge != "" {
					w.Header().Set("WWW-Authenticate", tt.challenge)
				}
				w.Header().Set("Location", "http://elsewhere.test")
				answer(tt.status, media, result)(w, r)
			}, &clienthttp.Options{Authorizer: a})
			_, _ = tr.Handle(t.Context(), request(), nil)
			if told := len(a.refusals) == 1; told != tt.told || len(a.asked) != 1 {
				t.Errorf("told of %d refusals, asked %d times", len(a.refusals), len(a.asked))
			}
		})
	}
}

func TestARefusalThatStandsIsAStatusError(t *testing.T) {
	a := refusedFor(nil)
	const failure = `{"jsonrpc":"2.0","id":7,"error":{"code":23226,"message":` +
		`"Bearer secret-token-1 needs write","data":{"scopes":["write"]}}}`
	for name, body := range map[string]string{
		media: failure, "text/html": "no secret-token-1 here",
	} {
		t.Run(name, func(t *testing.T) {
			a.asked = nil
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer scope="write"`)
				answer(403, name, body)(w, r)
			}, &clienthttp.Options{Authorizer: a})
			_, err := tr.Handle(t.Context(), request(), nil)
			status, ok := errors.AsType[*clienthttp.StatusError](err)
			if !ok || status.Status != 403 || status.Header.Get("WWW-Authenticate") == "" {
				t.Fatalf("got %v, want the status", err)
			}
			if e, ok := protocol.AsError(err); ok != (name == media) ||
				ok && (e.Code != 23226 || string(e.Data) != `{"scopes":["write"]}`) {
				t.Errorf("got the error %+v", e)
			}
			testkit.CheckSecret(t, []byte("secret-token-1"), err)
		})
	}
}

func TestAnErrorOfTheAuthorizerEndsTheCall(t *testing.T) {
	cause := &loginError{"the person said no to secret-token-1"}
	fails := func(context.Context, clienthttp.Refusal) (bool, error) { return true, cause }
	for name, a := range map[string]*scripted{
		"Refused": {refused: fails}, "Credentials": noCredentials(cause),
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			tr := serve(t, refuseAll(&sent), &clienthttp.Options{Authorizer: a})
			_, err := tr.Handle(t.Context(), request(), nil)
			if login, ok := errors.AsType[*loginError](err); !ok || login != cause ||
				!errors.Is(err, cause) {
				t.Errorf("got %v, want the authorizer's error", err)
			}
			wantEqual(t, "sent", sent, len(a.refusals))
			shown := &client.TransportError{Method: "tools/call", Err: err}
			testkit.WantNoPart(t, "not acted on", shown.Error(), "may have run")
			if name == "Refused" {
				testkit.CheckSecret(t, []byte("secret-token-1"), err)
			}
		})
	}
}

type loginError struct{ text string }

func (e *loginError) Error() string { return e.text }

func TestAnAuthorizerCannotSetHeadersOfTheProtocol(t *testing.T) {
	a := &scripted{credentials: func(context.Context, clienthttp.Outgoing) (http.Header, error) {
		return http.Header{
			"mcp-name": {"forged"}, "Mcp-Protocol-Version": {"forged"}, "accept": {"forged"},
			"content-type": {"forged"}, "Mcp-Param-X": {"forged"}, "last-event-id": {"forged"},
			"mcp-session-id": {"forged"}, "authorization": {"Bearer b"}, "Dpop": {"proof"},
		}, nil
	}}
	var got http.Header
	tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		answer(200, media, result)(w, r)
	}, &clienthttp.Options{Authorizer: a, Header: http.Header{"Authorization": {"Bearer a"}}})
	if _, err := tr.Handle(t.Context(), request(), nil); err != nil {
		t.Fatal(err)
	}
	for name, values := range got {
		if slices.Contains(values, "forged") {
			t.Errorf("%s is forged", name)
		}
	}
	if got.Get("Authorization") != "Bearer b" || got.Get("Dpop") != "proof" {
		t.Errorf("got %v, want the credentials of the authorizer", got)
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	const secret = "secret-token-77"
	u, err := url.Parse("https://server.test/mcp?key=" + secret)
	noError(t, err)
	o := clienthttp.Outgoing{Method: "POST", URL: u, RPC: "tools/call", Target: "a tool"}
	r := clienthttp.Refusal{Outgoing: o, Sent: http.Header{"Authorization": {"Bearer " + secret}},
		Status: 403, Header: http.Header{"Set-Cookie": {secret}}, Attempt: 2}
	// The field is exported: package fmt does not call the methods of unexported fields.
	type holder struct{ R clienthttp.Refusal }
	for _, value := range []any{o, &o, r, &r, []clienthttp.Refusal{r}, holder{r}, &holder{r}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%!"} {
			what := fmt.Sprintf("%T printed with %s", value, verb)
			testkit.WantNoPart(t, what, fmt.Sprintf(verb, value), secret)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("refused", "r", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("refused", "r", value)
		if text, err := json.Marshal(value); err != nil ||
			strings.Contains(log.String()+string(text), secret) {
			t.Errorf("%T shows the secret in logs or JSON: %s %s %v", value, log.String(), text, err)
		}
	}
	wantEqual(t, "printed", fmt.Sprintf("%+v", r), `POST tools/call "a tool": 403, attempt 2`)
}

// A login for one kind of message takes three minutes; the client's timeout is one minute.
func TestAPersonMayTakeLongToLogIn(t *testing.T) {
	for _, test := range []struct {
		era  protocol.Era
		only string // the refused method; in the modern era a call carries the answer
	}{
		{protocol.Modern, "tools/call"}, {protocol.Legacy, "tools/call"},
		{protocol.Legacy, ""}, {protocol.Modern, "subscriptions/listen"},
	} {
		inBubble(t, fmt.Sprint(test.era, test.only), func(t *testing.T) {
			h := newHandler(t, toolServer(t, nil), asAda())
			over := inProcess(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(data)))
				var m struct{ Method string }
				_ = json.Unmarshal(data, &m)
				if r.Method == "POST" && m.Method == test.only &&
					r.Header.Get("Authorization") == "" {
					answer(401, "text/plain", "no")(w, r)
					return
				}
				h.ServeHTTP(w, r)
			}))
			token := http.Header{}
			a := &scripted{
				credentials: func(context.Context, clienthttp.Outgoing) (http.Header, error) {
					return token.Clone(), nil
				},
				refused: func(ctx context.Context, _ clienthttp.Refusal) (bool, error) {
					select {
					case <-time.After(3 * time.Minute):
					case <-ctx.Done():
						return false, context.Cause(ctx)
					}
					token.Set("Authorization", "Bearer late")
					return true, nil
				},
			}
			tr, err := clienthttp.New("http://localhost/mcp", &clienthttp.Options{
				HTTPClient: &http.Client{Transport: over}, Authorizer: a})
			noError(t, err)
			c, err := client.New(tr, &client.Options{Era: test.era, ElicitForm: answerAda,
				Timeout: time.Minute})
			noError(t, err)
			if test.only == protocol.MethodListen {
				ctx, cancel := context.WithCancelCause(t.Context())
				done := errors.New("acknowledged")
				err = c.Listen(ctx, protocol.SubscriptionFilter{ToolsListChanged: true},
					func(context.Context, client.ListenEvent) { cancel(done) })
				testkit.WantIs(t, "the acknowledged subscription", err, done)
			} else {
				wantText(t, c, "ask", "asked Ada")
			}
			_ = c.Close()
			wantEqual(t, "refusals", len(a.refusals), 1)
		})
	}
}

func TestTheConnectionIsFreeDuringALogin(t *testing.T) {
	one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer one.CloseIdleConnections()
	for _, kind := range []string{media, "text/html", stream} {
		t.Run(kind, func(t *testing.T) {
			loggedIn := false
			a := &scripted{}
			tr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/login":
					loggedIn = true
				case loggedIn:
					answer(200, media, result)(w, r)
				default:
					answer(401, kind, strings.Repeat(" ", 10_000))(w, r)
				}
			}, &clienthttp.Options{HTTPClient: one, Authorizer: a})
			a.refused = func(ctx context.Context, r clienthttp.Refusal) (bool, error) {
				login := r.URL.JoinPath("../login").String()
				req, err := http.NewRequestWithContext(ctx, "GET", login, nil)
				if err != nil {
					return false, err
				}
				resp, err := one.Do(req)
				if err != nil {
					return false, err
				}
				return true, resp.Body.Close()
			}
			if _, err := tr.Handle(t.Context(), request(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestALoginEndsWithItsCallOrTransport(t *testing.T) {
	for _, how := range []string{"call", "transport"} {
		t.Run(how, func(t *testing.T) {
			began := make(chan struct{})
			var cause error
			a := &scripted{refused: func(ctx context.Context, _ clienthttp.Refusal) (bool, error) {
				close(began)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return true, nil // the result is irrelevant by now
			}}
			sent := 0
			tr := serve(t, refuseAll(&sent), &clienthttp.Options{Authorizer: a})
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped")
			go func() {
				<-began
				if how == "call" {
					cancel(stopped)
				} else {
					_ = tr.Close()
				}
			}()
			want := stopped
			if how == "transport" {
				want = clienthttp.ErrClosed
			}
			_, err := tr.Handle(ctx, request(), nil)
			if !errors.Is(err, want) || !errors.Is(cause, want) || sent != 1 {
				t.Errorf("got %v with the cause %v after %d requests, want %v after one", err, cause,
					sent, want)
			}
		})
	}
}

func TestTheStreamOfASessionDoesNotAskAgainForARefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan struct{})
		s := &legacyServer{id: "s", call: answer(200, media, result)}
		s.listen = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				answer(401, "text/plain", "no")(w, r)
				return
			}
			close(opened)
			late(stream, "")(w, r)
		}
		var mu sync.Mutex
		token, logins := http.Header{}, 0
		a := &scripted{
			credentials: func(context.Context, clienthttp.Outgoing) (http.Header, error) {
				mu.Lock()
				defer mu.Unlock()
				return token.Clone(), nil
			},
			refused: func(context.Context, clienthttp.Refusal) (bool, error) {
				logins++
				return false, errors.New("the person said no")
			},
		}
		x, _ := openSession(t, inProcess(t, s), a, &asked{})
		time.Sleep(time.Hour)
		wantEqual(t, "logins", logins, 1)
		mu.Lock()
		token.Set("Authorization", "Bearer b")
		mu.Unlock()
		if _, err := x.Handle(t.Context(), request(), nil); err != nil {
			t.Fatal(err)
		}
		<-opened // because the call has proved the credentials
	})
}

func TestAResumptionThatIsRefusedEndsTheCall(t *testing.T) {
	for _, how := range []string{"refusal stands", "authorizer fails"} {
		t.Run(how, func(t *testing.T) {
			s := &legacyServer{id: "s", call: events("retry: 10\n", event("e1", `{"jsonrpc":"2.0",`+
				`"method":"notifications/message","params":{}}`)),
				resume: answer(401, "text/plain", "no")}
			a := refusedFor(nil)
			if how == "authorizer fails" {
				a = refusedFor(errors.New("the person said no"))
			}
			synctest.Test(t, func(t *testing.T) {
				x, _ := openSession(t, inProcess(t, s), a, &asked{})
				_, err := x.Handle(t.Context(), request(), nil)
				if !errors.Is(err, clienthttp.ErrNoResponse) || len(a.refusals) != 1 ||
					x.Err() != nil {
					t.Errorf("got %v after %d attempts, session %v", err, len(a.refusals), x.Err())
				}
				_, isStatus := errors.AsType[*clienthttp.StatusError](err)
				if isStatus != (how == "refusal stands") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
