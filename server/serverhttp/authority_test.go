package serverhttp_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A claimsKey is the context key of a token's claims.
type claimsKey struct{}

// The type tokens is an authority for tokens of the form SUBJECT:SCOPE,SCOPE.
type tokens struct {
	refuse    error                 // error of Identify; if nil, the token decides
	challenge *serverhttp.AuthError // if nil, it lists all scopes

	mu         sync.Mutex
	identified int
	lacks      []server.ScopeError
	asked      []serverhttp.Identity // arguments of Challenge
}

func (a *tokens) Identify(r *http.Request) (serverhttp.Identity, error) {
	a.mu.Lock()
	a.identified++
	a.mu.Unlock()
	if a.refuse != nil {
		return serverhttp.Identity{}, a.refuse
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return serverhttp.Identity{Access: &server.Access{}}, nil
	}
	subject, scopes, _ := strings.Cut(token, ":")
	return serverhttp.Identity{
		Principal: protocol.Principal{Issuer: "https://issuer.test", Subject: subject},
		Access: &server.Access{
			Scopes:  strings.Split(scopes, ","),
			Implies: func(have, need string) bool { return have == "all" && need != "admin" },
		},
		Values: func(ctx context.Context) context.Context {
			return context.WithValue(ctx, claimsKey{}, subject+" may "+scopes)
		},
	}, nil
}

func (a *tokens) Challenge(id serverhttp.Identity, lack *server.ScopeError) *serverhttp.AuthError {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.lacks = append(a.asked, id), append(a.lacks, *lack)
	if a.challenge != nil {
		return a.challenge
	}
	if id.Principal.Anonymous() {
		return &serverhttp.AuthError{Status: 401, Challenge: challengeFor(lack)}
	}
	return &serverhttp.AuthError{Status: 403,
		Challenge: `Bearer error="insufficient_scope", ` + challengeFor(lack)[len("Bearer "):]}
}

func (a *tokens) identifications() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.identified
}

func challengeFor(lack *server.ScopeError) string {
	return fmt.Sprintf(`Bearer scope=%q, resource_metadata="https://server.test/meta"`,
		strings.Join(lack.Need, " "))
}

// scopedServer returns a server whose features need the scopes read and write, and a log of runs.
func scopedServer(t testing.TB, opts *server.Options) (srv *server.Server, ran *eventNames) {
	t.Helper()
	srv, _ = legacyServer(t, opts)
	ran = &eventNames{}
	need := []string{"read", "write"}
	server.AddRawTool(srv, server.Tool{Name: "scoped", Scopes: need,
		Needs: protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}}},
		func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
			ran.add("tool")
			claims, _ := ctx.Value(claimsKey{}).(string)
			return server.Text(claims), call.Access.Check("read")
		})
	addTool(srv, "early", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		return nil, fmt.Errorf("the file: %w",
			&server.ScopeError{Need: need, Reason: "the file is not yours"})
	})
	addTool(srv, "late", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		if err := call.Notify(ctx, progress(1)); err != nil {
			return nil, err
		}
		return nil, &server.ScopeError{Need: need}
	})
	suggest := func(context.Context, *server.CompleteCall) ([]string, error) {
		ran.add("completer")
		return []string{"a"}, nil
	}
	server.AddPrompt(srv, server.Prompt{Name: "scoped", Scopes: need, Complete: suggest},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			ran.add("prompt")
			return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{}}, nil
		})
	read := func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		ran.add("resource")
		return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{{Text: "a"}}},
			nil
	}
	server.AddResource(srv, server.Resource{URI: "test://scoped", Name: "s", Scopes: need}, read)
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "test://scoped/{x}",
		Name: "t", Scopes: need, Complete: suggest}, read)
	return srv, ran
}

type eventNames struct {
	mu    sync.Mutex
	names []string
}

func (e *eventNames) add(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = append(e.names, name)
}

func (e *eventNames) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := e.names
	e.names = nil
	return names
}

// An eraClient sends requests of one era.
type eraClient struct {
	t      testing.TB
	era    string
	ts     *httptest.Server
	legacy *legacyClient // nil in revision 2026-07-28
}

// eachEra runs a test as a client of 2026-07-28, in a session of 2025-11-25, and without a session.
func eachEra(t *testing.T, srv *server.Server, opts serverhttp.Options, bearer string,
	test func(t *testing.T, c *eraClient)) {
	t.Helper()
	for _, era := range []string{"2026-07-28", "session", "stateless"} {
		t.Run(era, func(t *testing.T) {
			o := opts
			o.StatelessLegacy = era == "stateless"
			ts, _ := serve(t, srv, &o)
			c := &eraClient{era: era, ts: ts, t: t}
			if era != "2026-07-28" {
				c.legacy = openAs(t, ts, bearer)
			}
			test(t, c)
		})
	}
}

// send sends one request. params is the content of the object.
func (c *eraClient) send(bearer, method, name, params string) *reply {
	c.t.Helper()
	if c.legacy == nil {
		h := headers(method, name)
		if bearer != "" {
			h.Set("Authorization", bearer)
		}
		return do(c.t, c.ts, "POST", h, modernBody(method, params))
	}
	return read(c.t, c.legacy.post(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+
		params+`}}`, "Authorization", bearer))
}

// modernBody is body for a client with sampling.
func modernBody(method, params string) string {
	return strings.Replace(body(method, params), `clientCapabilities":{}`,
		`clientCapabilities":{"sampling":{}}`, 1)
}

type scopedRequest struct{ what, method, name, params string }

func scopedRequests() []scopedRequest {
	return []scopedRequest{
		{"tool", "tools/call", "scoped", `"name":"scoped"`},
		{"prompt", "prompts/get", "scoped", `"name":"scoped"`},
		{"resource", "resources/read", "test://scoped", `"uri":"test://scoped"`},
		{"template", "resources/read", "test://scoped/1", `"uri":"test://scoped/1"`},
		{"completion of a prompt", "completion/complete", "",
			`"ref":{"type":"ref/prompt","name":"scoped"},"argument":{"name":"x","value":""}`},
		{"completion of a template", "completion/complete", "", `"ref":{"type":"ref/resource",` +
			`"uri":"test://scoped/{x}"},"argument":{"name":"x","value":""}`},
	}
}

// wantChallenge checks the refusal of a request that lacks read and write.
func wantChallenge(t testing.TB, got *reply, status int, challenge string) {
	t.Helper()
	if got.status != status || got.header.Get("WWW-Authenticate") != challenge {
		t.Errorf("got status %d and challenge %q, want %d and %q", got.status,
			got.header.Get("WWW-Authenticate"), status, challenge)
	}
	if got.code() != protocol.CodeInsufficientScope || string(got.ID) != "7" ||
		!strings.Contains(got.body, `"data":{"scopes":["read","write"]}`) {
		t.Errorf("got the body %s, want an error that names the scopes", got.body)
	}
}

const insufficient = `Bearer error="insufficient_scope", scope="read write", ` +
	`resource_metadata="https://server.test/meta"`

func TestARequestThatLacksScopesIsChallengedBeforeItsHandlerRuns(t *testing.T) {
	srv, ran := scopedServer(t, nil)
	const ann = "Bearer ann:read"
	eachEra(t, srv, serverhttp.Options{Authority: &tokens{}}, ann,
		func(t *testing.T, c *eraClient) {
			for _, r := range scopedRequests() {
				t.Run(r.what, func(t *testing.T) {
					c.t = t
					wantChallenge(t, c.send(ann, r.method, r.name, r.params), 403, insufficient)
					wantEqual(t, "handlers that ran", len(ran.take()), 0)
				})
			}
		})
}

func TestARequestWithAllScopesIsServed(t *testing.T) {
	srv, ran := scopedServer(t, nil)
	for _, scopes := range []string{"write,read", "all", "read,all"} {
		t.Run(scopes, func(t *testing.T) {
			ann := "Bearer ann:" + scopes
			eachEra(t, srv, serverhttp.Options{Authority: &tokens{}}, ann,
				func(t *testing.T, c *eraClient) {
					for _, r := range scopedRequests() {
						got := c.send(ann, r.method, r.name, r.params)
						if r.what == "tool" && c.era == "stateless" {
							continue // the tool needs sampling
						}
						wantRefusal(t, r.what, got, 200, 0)
						wantEqual(t, r.what+": handlers that ran", len(ran.take()), 1)
						if r.what == "tool" && got.Result.Content[0].Text != "ann may "+scopes {
							t.Errorf("the handler has the values %s", got.body)
						}
					}
				})
		})
	}
}

func TestAHandlerThatFindsScopesLackingIsAnsweredWithAChallenge(t *testing.T) {
	srv, _ := scopedServer(t, nil)
	authority := &tokens{}
	eachEra(t, srv, serverhttp.Options{Authority: authority}, "Bearer ann:read",
		func(t *testing.T, c *eraClient) {
			got := c.send("Bearer ann:read", "tools/call", "early", `"name":"early"`)
			wantChallenge(t, got, 403, insufficient)
			wantPart(t, "the result", got.body, "the file is not yours")
			last := authority.asked[len(authority.asked)-1]
			if last.Principal.Subject != "ann" || last.Access.Check("read") != nil ||
				last.Values == nil {
				t.Errorf("the challenge was made for %+v", last)
			}
		})
}

func TestMiddlewareThatFindsScopesLackingIsAnsweredWithAChallenge(t *testing.T) {
	guard := before(func(_ context.Context, r *server.Request) error {
		if r.Message.Method == "ping" {
			return nil
		}
		return r.Access.Check("read", "write")
	})
	srv, _ := scopedServer(t, &server.Options{Middleware: guard})
	eachEra(t, srv, serverhttp.Options{Authority: &tokens{}}, "Bearer ann:read,write",
		func(t *testing.T, c *eraClient) {
			wantChallenge(t, c.send("Bearer ann:read", "tools/list", "", ""), 403, insufficient)
			if c.era != "session" {
				return
			}
			c.legacy.session = ""
			got := read(t, c.legacy.post(strings.Replace(initializeBody("2025-11-25"), `"id":0`,
				`"id":7`, 1), "Authorization", "Bearer ann:read"))
			wantChallenge(t, got, 403, insufficient)
			wantEqual(t, "session", got.header.Get("Mcp-Session-Id"), "")
		})
}

func TestScopesThatLackAfterTheStreamBeganAreAnEvent(t *testing.T) {
	srv, _ := scopedServer(t, nil)
	authority := &tokens{}
	eachEra(t, srv, serverhttp.Options{Authority: authority}, "Bearer ann:read",
		func(t *testing.T, c *eraClient) {
			got := c.send("Bearer ann:read", "tools/call", "late", `"name":"late"`)
			if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" ||
				got.header.Get("WWW-Authenticate") != "" ||
				!strings.Contains(got.body, `"code":23226`) ||
				!strings.Contains(got.body, `"data":{"scopes":["read","write"]}`) {
				t.Errorf("got status %d, %v: %s", got.status, got.header, got.body)
			}
		})
	wantEqual(t, "challenges that cannot be sent", len(authority.asked), 0)
}

func TestEachRequestOfASessionHasItsOwnScopes(t *testing.T) {
	srv, _ := scopedServer(t, nil)
	ts, _ := serve(t, srv, &serverhttp.Options{Authority: &tokens{}})
	c := openAs(t, ts, "Bearer ann:read")
	wantChallenge(t, c.call(7, "scoped"), 403, insufficient)
	got := c.call(8, "scoped", "Authorization", "Bearer ann:write,read")
	wantText(t, "after a step-up", got, "ann may write,read")
	wantChallenge(t, c.call(7, "scoped"), 403, insufficient)
	wantStatus(t, "another person", c.call(9, "scoped", "Authorization", "Bearer bob:all"), 404)
	wantStatus(t, "nobody", c.call(9, "scoped", "Authorization", ""), 404)

	g := c.flow("GET", "", "Content-Type", "", "Accept", "text/event-stream", "Authorization",
		"Bearer ann:other")
	g.drop()
	wantStatus(t, "DELETE of another person",
		read(t, c.do(t.Context(), "DELETE", "", "Authorization", "Bearer bob:all")), 404)
	wantStatus(t, "DELETE", read(t, c.do(t.Context(), "DELETE", "", "Authorization",
		"Bearer ann:other")), 204)
}

func TestACallerWithoutCredentialsIsAskedForThem(t *testing.T) {
	srv, _ := scopedServer(t, nil)
	eachEra(t, srv, serverhttp.Options{Authority: &tokens{}}, "",
		func(t *testing.T, c *eraClient) {
			wantChallenge(t, c.send("", "tools/call", "early", `"name":"early"`), 401,
				`Bearer scope="read write", resource_metadata="https://server.test/meta"`)
		})
}

func TestAnAuthorityWithoutAChallengeGetsTheUsualOne(t *testing.T) {
	srv, _ := scopedServer(t, nil)
	addTool(srv, "odd", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		return nil, &server.ScopeError{
			Need: []string{"read", "a\r\nX-Evil: 1", `"`, "", "write"}}
	})
	eachEra(t, srv, serverhttp.Options{Authority: silent{&tokens{}}}, "Bearer ann:read",
		func(t *testing.T, c *eraClient) {
			wantChallenge(t, c.send("Bearer ann:read", "tools/call", "scoped", `"name":"scoped"`),
				403, `Bearer error="insufficient_scope", scope="read write"`)
			got := c.send("Bearer ann:read", "tools/call", "odd", `"name":"odd"`)
			const challenge = `Bearer error="insufficient_scope", scope="read write"`
			if got.status != 403 || got.header.Get("X-Evil") != "" ||
				got.header.Get("WWW-Authenticate") != challenge {
				t.Errorf("got status %d and %v", got.status, got.header)
			}
		})
}

// The type silent is an authority without challenges.
type silent struct{ *tokens }

func (silent) Challenge(serverhttp.Identity, *server.ScopeError) *serverhttp.AuthError {
	return nil
}

func TestWithoutAnAuthorityWhatHasScopesIsRefused(t *testing.T) {
	srv, ran := scopedServer(t, nil)
	eachEra(t, srv, serverhttp.Options{Authenticate: isAnn}, "", func(t *testing.T, c *eraClient) {
		for _, r := range scopedRequests() {
			got := c.send("", r.method, r.name, r.params)
			wantChallenge(t, got, 403, `Bearer error="insufficient_scope", scope="read write"`)
			wantPart(t, "the result",
				got.body, "this server does not know the scopes of its callers")
		}
		wantEqual(t, "handlers that ran", len(ran.take()), 0)
	})
}

func TestAnAuthorityChoosesHowARequestIsRefused(t *testing.T) {
	secret := errors.New("issuer at 10.0.0.7 says no to sesame-token-1")
	tests := []struct {
		name       string
		err        error
		status     int
		challenge  string
		retryAfter string
		reason     event.RefusalReason
	}{
		{"plain error", secret, 401, "Bearer", "", words.RefusedUnauthenticated},
		{"400", &serverhttp.AuthError{Status: 400, Challenge: `Bearer error="invalid_request"`,
			Err: secret}, 400, `Bearer error="invalid_request"`, "", words.RefusedCredentials},
		{"401", &serverhttp.AuthError{Status: 401, Challenge: "Bearer x=y"}, 401, "Bearer x=y", "",
			words.RefusedUnauthenticated},
		{"zero", &serverhttp.AuthError{}, 401, "Bearer", "", words.RefusedUnauthenticated},
		{"403", &serverhttp.AuthError{Status: 403, Err: secret}, 403, "", "",
			words.RefusedForbidden},
		{"wrapped 403 with a challenge", fmt.Errorf("check: %w",
			&serverhttp.AuthError{Status: 403, Challenge: "Bearer x=y"}), 403, "Bearer x=y", "",
			words.RefusedForbidden},
		{"503", &serverhttp.AuthError{Status: 503, RetryAfter: 1500 * time.Millisecond,
			Challenge: "Bearer", Err: secret}, 503, "", "2", words.RefusedUnverified},
		{"503 without a time", &serverhttp.AuthError{Status: 503}, 503, "", "5",
			words.RefusedUnverified},
		{"503 with a time that has passed", &serverhttp.AuthError{Status: 503, RetryAfter: -1},
			503, "", "5", words.RefusedUnverified},
		{"other status", &serverhttp.AuthError{Status: 500}, 401, "Bearer", "",
			words.RefusedUnauthenticated},
		{"typed nil", (*serverhttp.AuthError)(nil), 401, "Bearer", "",
			words.RefusedUnauthenticated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := &eventList{}
			ts, _ := serve(t, newServer(t, &server.Options{Observer: events}),
				&serverhttp.Options{Authority: &tokens{refuse: tt.err}})
			for _, method := range []string{"POST", "GET", "DELETE"} {
				h := headers("server/discover", "", "Authorization", "Bearer sesame-token-1")
				got := do(t, ts, method, h, body("server/discover", ""))
				if got.status != tt.status || got.header.Get("WWW-Authenticate") != tt.challenge ||
					got.header.Get("Retry-After") != tt.retryAfter {
					t.Errorf("%s: got status %d and %v", method, got.status, got.header)
				}
				wantEqual(t, method+": busy", got.code() == protocol.CodeBusy, tt.status == 503)
				wantNoPart(t, "the response tells why", got.body, "issuer")
			}
			refused := eventsOf[event.RequestRefused](events)
			if len(refused) != 3 || refused[0].Reason != tt.reason {
				t.Fatalf("got the events %+v, want three with reason %s", refused, tt.reason)
			}
			if text := fmt.Sprintf("%v %+v", refused[0], refused[0].Err); strings.Contains(text,
				"sesame") {
				t.Errorf("an event shows the token: %s", text)
			}
			if tt.name == "plain error" && !errors.Is(refused[0].Err, secret) {
				t.Errorf("got the error %v, want the authority's", refused[0].Err)
			}

			// Authenticate has only the statuses 401 and 403.
			ts, _ = serve(t, newServer(t, nil), &serverhttp.Options{
				Authenticate: func(*http.Request) (protocol.Principal, error) {
					return protocol.Principal{}, tt.err
				}})
			got := do(t, ts, "POST", headers("server/discover", ""), body("server/discover", ""))
			status, challenge := tt.status, tt.challenge
			if status == 400 || status == 503 {
				status, challenge = 401, cmp.Or(challenge, "Bearer")
			}
			if got.status != status || got.header.Get("WWW-Authenticate") != challenge {
				t.Errorf("Authenticate: got status %d and %v", got.status, got.header)
			}
		})
	}
}

func TestAnAuthorityThatPanicsAdmitsNobody(t *testing.T) {
	srv, ran := scopedServer(t, nil)
	for _, where := range []string{"Identify", "Challenge", "Values"} {
		t.Run(where, func(t *testing.T) {
			ts, _ := serve(t, srv,
				&serverhttp.Options{Authority: panickyAuthority{&tokens{}, where}})
			h := headers("tools/call", "scoped", "Authorization", "Bearer ann:read")
			got := do(t, ts, "POST", h, modernBody("tools/call", `"name":"scoped"`))
			if got.status != 500 || got.code() != protocol.CodeInternalError ||
				strings.Contains(got.body, "on purpose") {
				t.Errorf("got status %d: %s", got.status, got.body)
			}
			wantEqual(t, "handlers that ran", len(ran.take()), 0)
		})
	}
}

// A panickyAuthority is an authority with a panicking function.
type panickyAuthority struct {
	*tokens
	where string
}

func (a panickyAuthority) Identify(r *http.Request) (serverhttp.Identity, error) {
	if a.where == "Identify" {
		panic("on purpose")
	}
	id, err := a.tokens.Identify(r)
	if a.where == "Values" {
		id.Values = func(context.Context) context.Context { panic("on purpose") }
	}
	return id, err
}

func (a panickyAuthority) Challenge(id serverhttp.Identity,
	lack *server.ScopeError) *serverhttp.AuthError {
	if a.where == "Challenge" {
		panic("on purpose")
	}
	return a.tokens.Challenge(id, lack)
}

func TestAForwardedRequestKeepsItsScopes(t *testing.T) {
	authority := &tokens{}
	f := newFleet(t, &serverhttp.Options{Authority: authority}, "a", "b")
	for _, m := range f.all {
		server.AddRawTool(m.srv, server.Tool{Name: "scoped", Scopes: []string{"read", "write"}},
			func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
				claims, _ := ctx.Value(claimsKey{}).(string)
				return server.Text(claims), nil
			})
	}
	a := f.all["a"]
	c := openAs(t, a.ts, "Bearer ann:read")
	through := c.through(f.all["b"])

	before := authority.identifications()
	wantChallenge(t, through.call(7, "scoped"), 403, insufficient)
	wantEqual(t, "the request was identified times", authority.identifications()-before, 2)
	got := through.call(8, "scoped", "Authorization", "Bearer ann:read,write")
	wantText(t, "the result", got, "ann may read,write")
	wantStatus(t, "another person", through.call(9, "scoped", "Authorization", "Bearer bob:all"),
		404)
	if len(forwards(f.all["b"])) < 3 {
		t.Error("the requests were not forwarded")
	}
}

func TestSubscriptionsNeedTheScopesOfTheirResources(t *testing.T) {
	srv, _ := scopedServer(t, nil)
	ts, _ := serve(t, srv, &serverhttp.Options{Authority: &tokens{}})
	t.Run("2026-07-28", func(t *testing.T) {
		params := `"notifications":{"resourceSubscriptions":["test://scoped"]}`
		h := headers("subscriptions/listen", "", "Authorization", "Bearer ann:read")
		wantChallenge(t, do(t, ts, "POST", h, body("subscriptions/listen", params)), 403,
			insufficient)
	})
	t.Run("2025-11-25", func(t *testing.T) {
		c := openAs(t, ts, "Bearer ann:read")
		subscribe := `{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":%q}}`
		got := read(t, c.post(fmt.Sprintf(subscribe, "test://scoped")))
		wantChallenge(t, got, 403, insufficient)
		// A later resource needs scopes that only the second request has.
		post := func(uri, bearer string) {
			t.Helper()
			got := read(t, c.post(fmt.Sprintf(subscribe, uri), "Authorization", bearer))
			wantStatus(t, uri, got, 200)
		}
		post("test://poor", "Bearer ann:read")
		post("test://rich", "Bearer ann:read")
		post("test://rich", "Bearer ann:write")
		for _, uri := range []string{"test://poor", "test://rich"} {
			server.AddResource(srv, server.Resource{URI: uri, Name: uri, Scopes: []string{"write"}},
				func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
					return &protocol.ReadResourceResult{}, nil
				})
		}
		g := c.listen("")
		srv.ResourceUpdated("test://poor")
		srv.ResourceUpdated("test://rich")
		for {
			m := g.next()
			if strings.Contains(m.raw, "test://poor") {
				t.Fatalf("got %s without the scope", m.raw)
			}
			if strings.Contains(m.raw, "test://rich") {
				break
			}
		}
	})
}

func TestCredentialsAreInNoEvent(t *testing.T) {
	events := &eventList{}
	srv, _ := scopedServer(t, &server.Options{Observer: events})
	const secret = "ann-with-a-long-secret"
	eachEra(t, srv, serverhttp.Options{Authority: &tokens{}}, "Bearer "+secret+":read",
		func(t *testing.T, c *eraClient) {
			for _, r := range scopedRequests() {
				got := c.send("Bearer "+secret+":read", r.method, r.name, r.params)
				wantNoPart(t, r.what+": the response", got.body, secret)
			}
		})
	events.mu.Lock()
	defer events.mu.Unlock()
	if slices.ContainsFunc(events.events, func(e event.Event) bool {
		return strings.Contains(fmt.Sprintf("%+v", e), secret+":read")
	}) {
		t.Errorf("an event shows the token: %+v", events.events)
	}
}
