package bearer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A house is a server with two replicas and one tool, which asks before it writes.
type house struct {
	issuer   *fakeIssuer
	replicas []*httptest.Server
	written  atomic.Int32
}

type confirmation struct {
	Sure bool `json:"sure"`
}

func newHouse(t *testing.T) *house {
	t.Helper()
	b := &house{issuer: newFakeIssuer(t)}
	used := store.NewMemoryGuard(0)
	b.replicas = servertest.StartFleet(t, 2, func(r *replicas.Options) http.Handler {
		srv, err := server.New(&server.Options{
			Info: protocol.Implementation{Name: "house", Version: "1"},
			Roundtrip: roundtrip.Options{Sealer: r.Keys,
				Guard: used},
		})
		check(t, err)
		b.addWrite(srv)
		h, err := serverhttp.New(srv,
			&serverhttp.Options{Authority: newResourceServer(t, b.issuer,
				withIssuer(func(i *bearer.Issuer) { i.Machines = true })), Replicas: r})
		check(t, err)
		return h
	}).Servers
	return b
}

// addWrite adds the tool. Its handler finds out late that it needs another scope.
func (b *house) addWrite(srv *server.Server) {
	type input struct {
		Urgent bool `json:"urgent,omitempty"`
	}
	server.AddTool(srv, server.Tool{Name: "write", Scopes: []string{"files:read"}},
		func(ctx context.Context, call *server.ToolCall, in input) (
			protocol.CallToolOutcome, error) {
			sure, ok := roundtrip.AcceptedContent[confirmation](ctx, "sure")
			if !ok {
				return roundtrip.InputRequired(
					roundtrip.Elicit[confirmation]("sure", "Write it?")), nil
			}
			if in.Urgent {
				if err := call.Access.Check("files:urgent"); err != nil {
					return nil, err
				}
			}
			if token, ok := bearer.TokenFrom(ctx); !ok || token.Subject != "alice" {
				return nil, fmt.Errorf("the token is of %v", token)
			}
			return server.Text(fmt.Sprintf("written %v, time %d", sure.Sure, b.written.Add(1))), nil
		})
}

// A mail carries a client's requests, and tampers with the request that has the answer.
type mail struct {
	host    string // destination of requests
	answers string // destination of answers
	meddle  func(send func(token string) (status int, body string))

	mu     sync.Mutex
	token  string
	others http.RoundTripper
}

func (m *mail) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body.Close()
	}
	isAnswer := bytes.Contains(body, []byte(`"sure":true`))
	host := m.host
	if isAnswer {
		host = m.answers
	}
	send := func(token string) (*http.Response, error) {
		to := r.Clone(r.Context())
		to.URL.Host, to.Host = host, ""
		if body != nil {
			to.Body = io.NopCloser(bytes.NewReader(body))
		}
		to.Header.Set("Authorization", "Bearer "+token)
		return m.others.RoundTrip(to)
	}
	if isAnswer && m.meddle != nil {
		m.meddle(func(token string) (int, string) {
			response, err := send(token)
			if err != nil {
				return 0, err.Error()
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			return response.StatusCode, string(text)
		})
	}
	m.mu.Lock()
	token := m.token
	m.mu.Unlock()
	return send(token)
}

func (m *mail) set(token string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token = token
}

// call calls the tool for alice. When she is asked, answered() runs before the answer is sent.
func (b *house) call(t *testing.T, era protocol.Era, m *mail, arguments any,
	answered func()) (string, error) {
	t.Helper()
	m.host = strings.TrimPrefix(b.replicas[0].URL, "http://")
	if m.answers == "" {
		m.answers = m.host
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m.others = transport
	m.set(b.issuer.token(map[string]any{"jti": "first"}))
	peer, err := clienthttp.New(b.replicas[0].URL+"/mcp",
		&clienthttp.Options{HTTPClient: &http.Client{Transport: m}})
	check(t, err)
	c, err := client.New(peer, &client.Options{Era: era, ElicitForm: func(context.Context,
		*client.FormQuestion) (*protocol.ElicitResult, error) {
		if answered != nil {
			answered()
		}
		return client.Accept(confirmation{Sure: true})
	}})
	check(t, err)
	defer c.Close()
	result, err := c.CallTool(t.Context(), "write", arguments)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(result.Content[0].(*protocol.TextContent).Text), nil
}

func (b *house) wantWritten(t *testing.T, got string, err error) {
	t.Helper()
	if err != nil || got != "written true, time 1" || b.written.Load() != 1 {
		t.Errorf("got %q, %v; the tool has written %d times, want once", got, err,
			b.written.Load())
	}
}

// A flow continues with another token, after a new key, and on another replica, but not for bob.
func TestAFlowGoesOn(t *testing.T) {
	for name, of := range map[string]struct {
		changes map[string]any // changes to the claims of the second token
		key     string         // id of a new key; empty: no new key
		replica int
	}{
		"refreshed":         {},
		"stepped up":        {changes: map[string]any{"scope": "files:read files:write"}},
		"of another client": {changes: map[string]any{"client_id": "other-app"}},
		"new key":           {key: "k2"},
		"another replica":   {replica: 1},
	} {
		for era, revision := range map[protocol.Era]string{
			protocol.Modern: "2026-07-28", protocol.Legacy: "2025-11-25"} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				b, tries := newHouse(t), 0
				m := &mail{answers: strings.TrimPrefix(b.replicas[of.replica].URL, "http://"),
					meddle: func(send func(token string) (int, string)) {
						for _, changes := range []map[string]any{
							{"sub": "bob"},
							{"sub": nil}, // the client acts for itself
							{"sub": "bob", "scope": "files:read files:urgent files:write"},
						} {
							tries++
							status, body := send(b.issuer.token(changes))
							refused := status == http.StatusNotFound
							if era == protocol.Modern {
								refused = strings.Contains(body, "-32602")
							}
							if !refused || b.written.Load() != 0 {
								t.Errorf("%v: status %d: %s", changes, status, body)
							}
						}
					}}
				got, err := b.call(t, era, m, nil, func() {
					if of.key != "" {
						b.issuer.rotate(of.key)
					}
					m.set(sign(t, jose.ES256, b.issuer.signer, "at+jwt",
						claimsOf(of.changes, "jti", "second")))
				})
				b.wantWritten(t, got, err)
				if tries == 0 {
					t.Error("nobody has tried")
				}
			})
		}
	}
}

// If a handler finds a scope missing, no state is spent: the client can send the same answer again.
func TestScopesThatAHandlerFindsLackingSpendNoState(t *testing.T) {
	b := newHouse(t)
	m := &mail{}
	m.meddle = func(send func(token string) (int, string)) {
		status, body := send(b.issuer.token(nil))
		if status != http.StatusForbidden || !strings.Contains(body, "files:urgent") ||
			b.written.Load() != 0 {
			t.Errorf("status %d: %s", status, body)
		}
		m.set(b.issuer.token(map[string]any{"scope": "files:read files:urgent"}))
	}
	got, err := b.call(t, protocol.Modern, m, map[string]any{"urgent": true}, nil)
	b.wantWritten(t, got, err)
}

// In a session the stream has already begun when scopes are missing, so the error is an event.
func TestScopesThatLackInASession(t *testing.T) {
	b, m := newHouse(t), &mail{}
	got, err := b.call(t, protocol.Legacy, m, map[string]any{"urgent": true}, nil)
	lack := (*protocol.Error)(nil)
	if !errors.As(err, &lack) || lack.Code != protocol.CodeInsufficientScope ||
		!strings.Contains(string(lack.Data), `"files:urgent"`) || b.written.Load() != 0 {
		t.Errorf("got %q, %v, want the error for too little scope", got, err)
	}
}
