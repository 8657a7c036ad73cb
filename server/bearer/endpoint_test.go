package bearer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Observe(_ context.Context, e event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.text, "%T %+v\n", e, e)
}

func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	j.text.Reset()
	return text
}

// newEndpoint serves a tool that needs files:write, to holders of files:read.
func newEndpoint(t *testing.T, f *fakeIssuer) (http.Handler, *journal) {
	t.Helper()
	seen := &journal{}
	srv, err := server.New(&server.Options{Observer: seen})
	check(t, err)
	server.AddRawTool(srv, server.Tool{Name: "write", Scopes: []string{"files:write"}},
		func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("written for " + call.Principal.Subject), nil
		})
	g := newResourceServer(t, f, func(o *bearer.Options) { o.Scopes = []string{"files:read"} })
	h, err := serverhttp.New(srv, &serverhttp.Options{Authority: g})
	check(t, err)
	return h, seen
}

const (
	modernCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	legacyOpening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
)

// post sends a tool call, or if legacy the request that opens a session.
func post(h http.Handler, legacy bool, tool, query string, authorization ...string) (
	*http.Response, string) {
	body, header := fmt.Sprintf(modernCall, tool), http.Header{"Mcp-Protocol-Version": {
		"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool}}
	if legacy {
		body, header = legacyOpening, http.Header{}
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp"+query, strings.NewReader(body))
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("X-Forwarded-Host", "spoofed.example")
	if authorization != nil {
		r.Header["Authorization"] = authorization
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Result(), string(text)
}

// TestEndpoint checks status and challenge in both eras. Only the observer gets the cause.
func TestEndpoint(t *testing.T) {
	f := newFakeIssuer(t)
	read := f.token(nil)
	write := f.token(map[string]any{"scope": "files:read files:write"})
	const insufficient = `Bearer error="insufficient_scope", ` +
		`error_description="more scopes are needed", scope="`
	for _, of := range []struct {
		name          string
		query         string
		authorization []string
		down          bool
		modern        int // the status in revision 2026-07-28
		legacy        int
		challenge     string
		log           string // the cause for the observer
	}{
		{name: "all scopes", authorization: []string{"Bearer " + write}, modern: 200, legacy: 200},
		{name: "no token", modern: 401, legacy: 401,
			challenge: `Bearer scope="files:read", ` + where},
		{name: "token in the URL", query: "?access_token=" + write, modern: 401, legacy: 401,
			challenge: `Bearer scope="files:read", ` + where},
		{name: "two headers", authorization: []string{"Bearer " + write, "Bearer " + read},
			modern: 400, legacy: 400, challenge: `Bearer error="invalid_request", ` +
				`error_description="several Authorization headers", ` + where},
		{name: "expired and too little scope",
			authorization: []string{"Bearer " + f.token(map[string]any{"exp": 1, "scope": ""})},
			modern:        401, legacy: 401, challenge: `Bearer error="invalid_token", ` +
				`error_description="expired", scope="files:read", ` + where},
		{name: "too little scope for any request",
			authorization: []string{"Bearer " + f.token(map[string]any{"scope": "x"})},
			modern:        403, legacy: 403, challenge: insufficient + `files:read", ` + where},
		{name: "too little scope for the tool", authorization: []string{"Bearer " + read},
			modern: 403, legacy: 200,
			challenge: insufficient + `files:read files:write", ` + where},
		{name: "another audience",
			authorization: []string{"Bearer " + f.token(map[string]any{"aud": "https://s3cret.test"})},
			modern:        401, legacy: 401, challenge: `Bearer error="invalid_token", ` +
				`error_description="` + audience + `", scope="files:read", ` + where,
			log: "bearer: token refused: " + audience + `: aud is "https://s3cret.test"`},
		{name: "issuer is down", authorization: []string{"Bearer " + write}, down: true,
			modern: 503, legacy: 503},
	} {
		t.Run(of.name, func(t *testing.T) {
			for era, want := range map[string]int{
				"2026-07-28": of.modern, "2025-11-25": of.legacy,
			} {
				t.Run(era, func(t *testing.T) {
					h, seen := newEndpoint(t, f)
					f.with(func(f *fakeIssuer) { f.down = of.down })
					got, body := post(h, era == "2025-11-25", "write", of.query, of.authorization...)
					challenge := of.challenge
					if want == http.StatusOK {
						challenge = ""
					}
					said := got.Header.Get("WWW-Authenticate")
					if got.StatusCode != want || said != challenge {
						t.Errorf("status %d, challenge %q, want %d, %q; body %s", got.StatusCode,
							said, want, challenge, body)
					}
					if later := got.Header.Get("Retry-After"); (later != "") != of.down {
						t.Errorf("Retry-After %q", later)
					}
					if said := fmt.Sprint(got.Header, body); strings.Contains(said, "spoofed") ||
						strings.Contains(said, "localhost") {
						t.Errorf("the response repeats what the request says of hosts: %s", said)
					}
					events := seen.take()
					if !strings.Contains(events, of.log) || strings.Contains(said+body, "s3cret") {
						t.Errorf("the client gets %q, %s, and the observer %s", said, body, events)
					}
					for _, authorization := range append(of.authorization, "Bearer "+write) {
						_, signature, _ := strings.Cut(authorization[len("Bearer "):], ".")
						if strings.Contains(body+events, signature) {
							t.Errorf("the token is in %s %s", body, events)
						}
					}
					if (got.StatusCode == 403) != strings.Contains(events, "it has the scopes") {
						t.Errorf("status %d, and the observer is told %s", got.StatusCode, events)
					}
					if of.down && (strings.Contains(body, "refused") ||
						!strings.Contains(events, "connection refused")) {
						t.Errorf("the cause is for the observer alone: %s; %s", body, events)
					}
				})
			}
		})
	}
}

// In error_description an audience is escaped (RFC 6750, section 3).
func TestAnAudienceThatCannotBeQuotedIsEscaped(t *testing.T) {
	f := newFakeIssuer(t)
	for path, escaped := range map[string]string{`/a"b`: "/a%22b", "/é": "/%C3%A9"} {
		g := newResourceServer(t, f, func(o *bearer.Options) {
			o.Resource = "https://mcp.example.com" + path
		})
		said := send(t, g, f.token(nil)).Header.Get("WWW-Authenticate")
		want := `Bearer error="invalid_token", error_description="audience: the token must be ` +
			`for https://mcp.example.com` + escaped + ` (see Issuer.Audiences)", `
		if !strings.HasPrefix(said, want) {
			t.Errorf("challenge %q", said)
		}
	}
}
