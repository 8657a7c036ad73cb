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

func TestAuthErrorText(t *testing.T) {
	cause := errors.New("expired")
	if err := error(&serverhttp.AuthError{Err: cause}); !errors.Is(err, cause) ||
		err.Error() != "expired" {
		t.Errorf("got %q, want the cause", err)
	}
	wantEqual(t, "the result", (&serverhttp.AuthError{Status: 403}).Error(), "Forbidden")
}

func TestPrincipal(t *testing.T) {
	ann := protocol.Principal{Issuer: "https://issuer.example.com", Subject: "ann"}
	hook := func(*http.Request) (protocol.Principal, error) { return ann, nil }
	for _, tt := range []struct {
		name    string
		opts    serverhttp.Options
		want    protocol.Principal
		private bool
	}{
		{"anonymous", serverhttp.Options{}, protocol.Principal{}, false},
		{"authenticated", serverhttp.Options{Authenticate: hook}, ann, true},
		{"by an authority", serverhttp.Options{Authority: &tokens{}}, protocol.Principal{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got server.Request
			look := before(func(_ context.Context, r *server.Request) error {
				got = *r
				return nil
			})
			ts, _ := serve(t, newServer(t, &server.Options{Middleware: look}), &tt.opts)
			for _, method := range []string{"tools/list", "unknown"} {
				body := do(t, ts, "POST", headers(method, ""), body(method, "")).body
				wantEqual(t, fmt.Sprintf("%s: got principal", method), got.Principal, tt.want)
				if method == "tools/list" &&
					strings.Contains(body, `"cacheScope":"public"`) == tt.private {
					t.Errorf("got %s", body)
				}
			}
		})
	}
}
