package serverhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestAuthenticate(t *testing.T) {
	const metadata = `Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"`
	const scope = `Bearer error="insufficient_scope", scope="files:write"`
	secret := errors.New("token was signed with the old key")
	tests := []struct {
		name      string
		err       error
		status    int
		challenge string
	}{
		{"no error", nil, 200, ""},
		{"plain error", secret, 401, "Bearer"},
		{"zero", &serverhttp.AuthError{}, 401, "Bearer"},
		{"401 with a challenge", &serverhttp.AuthError{Status: 401, Challenge: metadata,
			Err: secret}, 401, metadata},
		{"403", &serverhttp.AuthError{Status: 403, Err: secret}, 403, ""},
		{"403 with a challenge", &serverhttp.AuthError{Status: 403, Challenge: scope}, 403, scope},
		{"other status", &serverhttp.AuthError{Status: 200}, 401, "Bearer"},
		{"wrapped", fmt.Errorf("check: %w", &serverhttp.AuthError{Status: 403}), 403, ""},
		{"typed nil", (*serverhttp.AuthError)(nil), 401, "Bearer"},
	}
	srv := newServer(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ts, _ := serve(t, srv, &serverhttp.Options{
				Authenticate: func(*http.Request) (protocol.Principal, error) {
					return protocol.Principal{Subject: "ann"}, tt.err
				},
			})
			for _, method := range []string{"POST", "GET"} {
				got := do(t, ts, method, headers("server/discover", ""),
					body("server/discover", ""))
				want := tt.status
				if method == "GET" && want == 200 {
					want = 405
				}
				if got.status != want || got.header.Get("WWW-Authenticate") != tt.challenge {
					t.Errorf("%s: got status %d and challenge %q, want %d and %q",
						method, got.status, got.header.Get("WWW-Authenticate"), want, tt.challenge)
				}
				if strings.Contains(got.body, "old key") {
					t.Errorf("the response tells why: %s", got.body)
				}
			}
		})
	}
}

func TestAuthErrorText(t *testing.T) {
	cause := errors.New("expired")
	if err := error(&serverhttp.AuthError{Err: cause}); !errors.Is(err, cause) ||
		err.Error() != "expired" {
		t.Errorf("got %q, want the cause", err)
	}
	if got := (&serverhttp.AuthError{Status: 403}).Error(); got != "Forbidden" {
		t.Errorf("got %q, want Forbidden", got)
	}
}

// TestPrincipal covers what the server learns of the sender.
func TestPrincipal(t *testing.T) {
	ann := protocol.Principal{Issuer: "https://issuer.example.com", Subject: "ann"}
	for _, tt := range []struct {
		name    string
		auth    func(*http.Request) (protocol.Principal, error)
		want    protocol.Principal
		private bool
	}{
		{"anonymous", nil, protocol.Principal{}, false},
		{"authenticated", func(*http.Request) (protocol.Principal, error) { return ann, nil }, ann,
			true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got server.Request
			look := func(next server.Handler) server.Handler {
				return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
					got = *request
					return next(ctx, request)
				}
			}
			ts, _ := serve(t, newServer(t, &server.Options{Middleware: []server.Middleware{look}}),
				&serverhttp.Options{Authenticate: tt.auth})
			for _, method := range []string{"tools/list", "unknown"} {
				body := do(t, ts, "POST", headers(method, ""), body(method, "")).body
				if got.Principal != tt.want {
					t.Errorf("%s: got principal %v", method, got.Principal)
				}
				if method == "tools/list" &&
					strings.Contains(body, `"cacheScope":"public"`) == tt.private {
					t.Errorf("got %s", body)
				}
			}
		})
	}
}
