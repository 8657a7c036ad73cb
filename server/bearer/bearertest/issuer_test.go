package bearertest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const resource = "http://127.0.0.1/mcp"

// whoami serves a tool that needs a scope and returns its caller.
func whoami(t *testing.T, trusted bearer.Issuer) *httptest.Server {
	guard, err := bearer.New(bearer.Options{Resource: resource, Issuers: []bearer.Issuer{trusted}})
	testkit.NoError(t, err)
	srv, err := server.New(nil)
	testkit.NoError(t, err)
	server.AddRawTool(srv, server.Tool{Name: "whoami", Scopes: []string{"me"}},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			token, _ := bearer.TokenFrom(ctx)
			var tenant string
			_, err := token.Claim("tenant", &tenant)
			return server.Text(call.Principal.Subject + token.ClientID + tenant), err
		})
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	testkit.NoError(t, err)
	listening := httptest.NewServer(endpoint)
	t.Cleanup(listening.Close)
	return listening
}

// Both kinds of issuers are tested, with accepted and refused tokens.
func TestTokensAreWhatTheyWereAskedFor(t *testing.T) {
	listening, silent := bearertest.Start(t), bearertest.NewIssuer("https://login.example.com")
	for name, issuer := range map[string]struct {
		*bearertest.Issuer
		trusted bearer.Issuer
	}{
		"listening": {listening, bearer.Issuer{URL: listening.URL()}},
		"silent":    {silent, silent.Trusted()},
	} {
		issuer.trusted.Machines = true
		endpoint := whoami(t, issuer.trusted)
		mine := []string{"other", "me"}
		for _, of := range []struct {
			name  string
			token bearertest.Token
			want  string
		}{
			{"person", bearertest.Token{Subject: "ann", Audience: resource, Scopes: mine}, "ann"},
			{"client", bearertest.Token{ClientID: "app", Audience: resource, Scopes: mine},
				"client:appapp"},
			{"more claims", bearertest.Token{Subject: "ann", Audience: resource, Scopes: mine,
				Claims: map[string]any{"tenant": "acme"}}, "annacme"},
			{"other scopes", bearertest.Token{Subject: "ann", Audience: resource}, "status 403"},
			{"other audience", bearertest.Token{Subject: "ann", Audience: "https://x.test",
				Scopes: mine}, "status 401"},
			{"expired", bearertest.Token{Subject: "ann", Audience: resource, Scopes: mine,
				Lifetime: -2 * time.Minute}, "status 401"},
			{"without an end", bearertest.Token{Subject: "ann", Audience: resource, Scopes: mine,
				Claims: map[string]any{"exp": nil}}, "status 401"},
			{"nobody", bearertest.Token{Audience: resource, Scopes: mine}, "status 401"},
		} {
			t.Run(name+"/"+of.name, func(t *testing.T) {
				got, err := call(t, endpoint.URL, issuer.Issue(of.token))
				if err != nil {
					got = err.Error()
				}
				if got != of.want && (err == nil || !strings.Contains(got, of.want)) {
					t.Errorf("got %q, want %q", got, of.want)
				}
			})
		}
	}
}

// Issuers are separate: an issuer's token never counts as another issuer's.
func TestIssuersAreApart(t *testing.T) {
	const url = "https://login.example.com"
	endpoint := whoami(t, bearertest.NewIssuer(url).Trusted())
	_, err := call(t, endpoint.URL, bearertest.NewIssuer(url).Issue(bearertest.Token{
		Subject: "ann", Audience: resource, Scopes: []string{"me"}}))
	if err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("got %v, want status 401", err)
	}
}

func call(t *testing.T, endpoint, token string) (string, error) {
	t.Helper()
	transport, err := clienthttp.New(endpoint, &clienthttp.Options{
		Header: http.Header{"Authorization": {"Bearer " + token}}})
	testkit.NoError(t, err)
	c, err := client.New(transport, nil)
	testkit.NoError(t, err)
	defer c.Close()
	result, err := c.CallTool(t.Context(), "whoami", nil)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*protocol.TextContent).Text, nil
}

// Two people's flows with tokens, in both eras, under attack (README.md), are never mixed up.
func TestFlowsOfTwoPeople(t *testing.T) {
	issuer := bearertest.NewIssuer("https://login.example.com")
	guard, err := bearer.New(bearer.Options{Resource: resource,
		Issuers: []bearer.Issuer{issuer.Trusted()}, Scopes: []string{"pay"}})
	testkit.NoError(t, err)
	type approval struct {
		Sure bool `json:"sure"`
	}
	srv, err := server.New(nil)
	testkit.NoError(t, err)
	defer srv.Close()
	server.AddTool(srv, server.Tool{Name: "pay"}, func(ctx context.Context, call *server.ToolCall,
		_ struct{}) (protocol.CallToolOutcome, error) {
		if _, err := roundtrip.Ask[approval](ctx, "approval", "Pay?"); err != nil {
			return nil, err
		}
		return server.Text("paid by " + call.Principal.Subject), nil
	})
	server.AddRawTool(srv, server.Tool{Name: "refund", Scopes: []string{"refund"}},
		func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("refunded"), nil
		})
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	testkit.NoError(t, err)
	listening := httptest.NewServer(endpoint)
	defer listening.Close()
	subject := roundtriptest.Subject{TwoUsers: true,
		Connect: func(t testing.TB, user string) protocol.Peer {
			token := issuer.Issue(bearertest.Token{
				Subject: "ann" + user, Audience: resource, Scopes: []string{"pay"}})
			transport, err := clienthttp.New(listening.URL, &clienthttp.Options{
				Header: http.Header{"Authorization": {"Bearer " + token}}})
			testkit.NoError(t, err)
			return transport
		},
	}
	approved := roundtriptest.Flow{Name: "approved", Request: roundtriptest.Tool("pay", nil),
		Answers: roundtriptest.Answers{"approval": roundtriptest.Accept(approval{true})},
		Want:    "paid by ann"}
	refused := roundtriptest.Flow{Name: "refused", Request: roundtriptest.Tool("refund", nil),
		Fails: "needs refund"}
	roundtriptest.Run(t, subject, approved, refused)
	roundtriptest.Attack(t, subject, approved)
}
