package gosdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/protocol"
)

// bearer sends every request with the token of the moment: ISSUER|USER.
type bearer struct{ token atomic.Pointer[string] }

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+*b.token.Load())
	return http.DefaultTransport.RoundTrip(r)
}

// Users of two issuers who have the same id are two people.
func TestPrincipalKeepsTheIssuer(t *testing.T) {
	var begun atomic.Pointer[protocol.Principal]
	router, err := elicitation.New(
		&elicitation.Options{Audit: audit(
			func(e elicitation.AuditEvent) { begun.Store(&e.Principal) })})
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(tool("begin"),
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			call, err := clients.Begin(ctx, req, "up")
			if err != nil {
				return nil, err
			}
			defer call.End()
			_, err = router.ElicitFrom(ctx, "up", []byte(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`), nil)
			return text("done"), err
		})
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		issuer, user, _ := strings.Cut(token, "|")
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour),
			Extra: map[string]any{"iss": issuer}}, nil
	}
	web := httptest.NewServer(auth.RequireBearerToken(verify,
		nil)(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)))
	t.Cleanup(web.Close)
	who := &bearer{}
	as := func(token string) { who.token.Store(&token) }
	as("https://a.example|ada")
	session, err := mcp.NewClient(impl, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL,
		HTTPClient: &http.Client{Transport: who}},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for token, want := range map[string]protocol.Principal{
		"https://a.example|ada": {Issuer: "https://a.example", Subject: "ada"},
		"https://b.example|ada": {Issuer: "https://b.example", Subject: "ada"},
		"|ada":                  {Subject: "ada"},
	} {
		as(token)
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "begin"}); err != nil {
			t.Errorf("%s: %v", token, err)
		}
		if got := begun.Load(); got == nil || *got != want {
			t.Errorf("%s: got %+v, want %+v", token, got, want)
		}
	}
}

// audit is an [elicitation.AuditSink].
type audit func(elicitation.AuditEvent)

func (f audit) Audit(e elicitation.AuditEvent) { f(e) }
