package server_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// TestURLErrorsOfMiddlewareAreChecked: they do not come from the handler, but go
// to the same person.
func TestURLErrorsOfMiddlewareAreChecked(t *testing.T) {
	link := ""
	h := newHarness(t, &server.Options{
		Roundtrip: roundtrip.Options{AllowURL: func(u *url.URL) error {
			if u.Hostname() == "blocked.example" {
				return errors.New("not on the list")
			}
			return nil
		}},
		Middleware: []server.Middleware{func(next server.Handler) server.Handler {
			return func(ctx context.Context, in *server.Incoming) (protocol.Result, error) {
				if in.Request.Method != protocol.MethodCallTool {
					return next(ctx, in)
				}
				e, err := (&protocol.URLElicitationRequiredError{Elicitations: []*protocol.ElicitURL{
					{Message: "Sign in", URL: link, ElicitationID: "login"},
				}}).Legacy()
				return nil, errors.Join(err, e)
			}
		}},
	})
	server.AddRawTool(h.Server, server.Tool{Name: "x"}, outcome(server.Text("never"), nil))
	c := h.enter(protocol.V20251125, allCapabilities)
	for _, tt := range []struct {
		link string
		code int64
	}{
		{"https://id.example/", protocol.CodeURLElicitationRequired},
		{"http://127.0.0.1:8080/", protocol.CodeURLElicitationRequired},
		{"javascript:alert(1)", protocol.CodeInternalError},
		{"https://blocked.example/", protocol.CodeInternalError},
	} {
		link = tt.link
		r := c.request(protocol.MethodCallTool, `{"name":"x"}`)
		if r.Error == nil || r.Error.Code != tt.code {
			t.Fatalf("%s: got %v, %s, want %d", link, r.Error, r.Result, tt.code)
		}
		if named := strings.Contains(r.Error.Message, `"login"`); named != (tt.code == protocol.CodeInternalError) {
			t.Errorf("%s: the client gets %v", link, r.Error)
		}
	}
	h.wantBug("not on the list")
}
