package interop_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A caller calls a tool, after a login, and returns the result's text.
type caller func(ctx context.Context, tool string) (string, error)

type authorizedClient struct {
	make string
	dial func(t *testing.T, endpoint, revision string, browser *oauthtest.Browser) caller
}

func authorizedClients() []authorizedClient {
	return []authorizedClient{{"rondo", dialAuthorized}, {"official Go SDK", dialAuthorizedGoSDK}}
}

func dialAuthorized(t *testing.T, endpoint, revision string, browser *oauthtest.Browser) caller {
	t.Helper()
	return dialWithLogin(t, endpoint, revision, &oauth.Options{
		Interaction: &oauth.Loopback{Browse: browser.Open}})
}

func dialWithLogin(t *testing.T, endpoint, revision string, opts *oauth.Options) caller {
	t.Helper()
	login, err := oauth.New(endpoint, opts)
	noError(t, err)
	return dialAs(t, endpoint, revision, login)
}

func dialAs(t *testing.T, endpoint, revision string, login *oauth.Source) caller {
	t.Helper()
	over, err := clienthttp.New(endpoint, &clienthttp.Options{Authorizer: login})
	noError(t, err)
	era := protocol.Modern
	if revision != modern {
		era = protocol.Legacy
	}
	c, err := client.New(over, &client.Options{Era: era, Extensions: login.Extensions()})
	noError(t, err)
	t.Cleanup(func() { c.Close() })
	return func(ctx context.Context, tool string) (string, error) {
		result, err := c.CallTool(ctx, tool, map[string]any{})
		if err != nil {
			return "", err
		}
		text, ok := result.Content[0].(*protocol.TextContent)
		if !ok {
			return "", fmt.Errorf("the result has %T", result.Content[0])
		}
		return text.Text, nil
	}
}

func dialAuthorizedGoSDK(t *testing.T, endpoint, revision string,
	browser *oauthtest.Browser) caller {
	t.Helper()
	const back = "http://127.0.0.1:53123/callback" // the browser does not load it
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{back},
				TokenEndpointAuthMethod: "none"}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (
			*auth.AuthorizationResult, error) {
			callback, err := browser.Visit(ctx, args.URL)
			if err != nil {
				return nil, err
			}
			q := callback.Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"),
				Iss: q.Get("iss")}, nil
		},
	})
	noError(t, err)
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1.0.0"}, nil)
	session, err := c.Connect(within(t, patience),
		&mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: newHTTPClient(t),
			OAuthHandler: handler, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	noError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return func(ctx context.Context, tool string) (string, error) {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
		if err != nil {
			return "", err
		}
		text, ok := result.Content[0].(*mcp.TextContent)
		if !ok {
			return "", fmt.Errorf("the result has %T", result.Content[0])
		}
		return text.Text, nil
	}
}

// protectedRondo starts our server. Its tool "write" needs an additional scope.
func protectedRondo(t *testing.T, issuer bearer.Issuer) (endpoint string) {
	t.Helper()
	return protectedRondoAt(t, "/mcp", issuer)
}

func protectedRondoAt(t *testing.T, path string, issuer bearer.Issuer) (endpoint string) {
	t.Helper()
	mux := http.NewServeMux()
	ts := httptest.NewServer(mux)
	t.Cleanup(ts.Close)
	endpoint = ts.URL + path
	protectRondo(t, mux, path, bearer.Options{Resource: endpoint,
		Issuers: []bearer.Issuer{issuer}, Scopes: []string{"read"}})
	return endpoint
}

func protectRondo(t *testing.T, mux *http.ServeMux, path string, opts bearer.Options) {
	t.Helper()
	guard, err := bearer.New(opts)
	noError(t, err)
	srv, err := server.New(nil)
	noError(t, err)
	t.Cleanup(func() { srv.Close() })
	says := func(text string) func(context.Context, *server.ToolCall, struct{}) (
		protocol.CallToolOutcome, error) {
		return func(_ context.Context, call *server.ToolCall, _ struct{}) (
			protocol.CallToolOutcome, error) {
			return server.Text(text + " for " + call.Principal.Subject), nil
		}
	}
	server.AddTool(srv, server.Tool{Name: "read"}, says("read"))
	server.AddTool(srv, server.Tool{Name: "write", Scopes: []string{"write"}}, says("written"))
	h, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	noError(t, err)
	mux.Handle(path, h)
	mux.Handle(guard.Metadata())
}

// Clients of every make log in to our server and step up.
func TestClientsLogInToOurServer(t *testing.T) {
	for _, of := range authorizedClients() {
		for _, revision := range []string{modern, v20251125} {
			t.Run(of.make+"/"+revision, func(t *testing.T) {
				as := oauthtest.NewServer(t, nil)
				browser := oauthtest.NewBrowser(t)
				endpoint := protectedRondo(t, bearer.Issuer{URL: as.URL})
				call := of.dial(t, endpoint, revision, browser)
				logInAndStepUp(t, as, call)
			})
		}
	}
}

// readAndWrite calls a tool, one that needs another scope, and the first again.
func readAndWrite(t *testing.T, call caller) {
	t.Helper()
	ctx := within(t, patience)
	for _, step := range []struct{ tool, want string }{
		{"read", "read for alice"}, {"write", "written for alice"}, {"read", "read for alice"},
	} {
		got, err := call(ctx, step.tool)
		if err != nil || got != step.want {
			t.Errorf("%s: got %q, %v, want %q", step.tool, got, err, step.want)
		}
	}
}

func logInAndStepUp(t *testing.T, as *oauthtest.Server, call caller) {
	t.Helper()
	readAndWrite(t, call)
	t.Logf("%d logins, %d registrations, %d token requests",
		as.Count(oauthtest.Authorize), as.Count(oauthtest.Register),
		as.Count(oauthtest.Token))
	if n := as.Count(oauthtest.Authorize); n != 2 {
		t.Errorf("%d logins, want one and a step-up", n)
	}
}

// protectedGoSDK starts the official SDK's server behind its own middleware, which needs scopes.
func protectedGoSDK(t *testing.T, as *oauthtest.Server, revision string) (endpoint string) {
	t.Helper()
	mux := http.NewServeMux()
	ts := httptest.NewServer(mux)
	t.Cleanup(ts.Close)
	endpoint = ts.URL + "/mcp"
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	s := mcp.NewServer(&mcp.Implementation{Name: "theirs", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "read"}, func(_ context.Context, r *mcp.CallToolRequest,
		_ struct{}) (*mcp.CallToolResult, any, error) {
		text := "read for " + r.Extra.TokenInfo.UserID
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		grant, ok := as.Check(token)
		if !ok || grant.Resource != endpoint {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{Scopes: grant.Scopes, UserID: grant.Subject,
			Expiration: time.Now().Add(time.Hour)}, nil
	}
	guarded := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: ts.URL + metadata, Scopes: []string{"read"},
	})(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: revision == modern}))
	mux.Handle("/mcp", guarded)
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: endpoint, AuthorizationServers: []string{as.URL},
		ScopesSupported: []string{"read"},
	}))
	return endpoint
}

// Our client logs in to their server. Its 403 has no error code, so our client reports that a login
// cannot help.
func TestOurClientLogsInToTheirServer(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		t.Run(revision, func(t *testing.T) {
			as := oauthtest.NewServer(t, nil)
			endpoint := protectedGoSDK(t, as, revision)
			call := dialAuthorized(t, endpoint, revision, oauthtest.NewBrowser(t))
			got, err := call(within(t, patience), "read")
			if err != nil || got != "read for alice" {
				t.Errorf("got %q, %v", got, err)
			}
		})
		t.Run(revision+" lacks a scope", func(t *testing.T) {
			as := oauthtest.NewServer(t, nil)
			as.Rewrite(oauthtest.Authorize, func(r *oauthtest.Request,
				next oauthtest.Next) *oauthtest.Answer {
				r.Form.Set("scope", "other") // the user does not grant the requested scopes
				return next()
			})
			endpoint := protectedGoSDK(t, as, revision)
			call := dialAuthorized(t, endpoint, revision, oauthtest.NewBrowser(t))
			got, err := call(within(t, patience), "read")
			status := (*clienthttp.StatusError)(nil)
			if !errors.As(err, &status) || status.Status != http.StatusForbidden ||
				!strings.Contains(err.Error(), "has no error code") {
				t.Errorf("got %q, %v, want 403 and what is missing", got, err)
			}
			if n := as.Count(oauthtest.Authorize); n > 3 {
				t.Errorf("%d logins", n)
			}
		})
	}
}
