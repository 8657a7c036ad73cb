package serverhttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestNumbersOfOptions: 0 is the default, a negative number turns something off, unless
// nothing else bounds the memory that clients can take.
func TestNumbersOfOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"Limits.BodyBytes": false, "ReadTimeout": false, "WriteTimeout": false, "KeepAlive": false,
		"SessionTimeout": false, "Limits.SessionsPerPrincipal": false,
		"Limits.Sessions": true, "Limits.HandshakeBytes": true, "Limits.RequestsPerSession": true,
		"Limits.BytesPerSession": true, "Limits.EventBytes": true,
	}, func(opts *serverhttp.Options) error {
		_, err := serverhttp.New(newServer(t, nil), opts)
		return err
	})
}

// TestPrincipalSessionsWithoutLimit: one principal may have all sessions.
func TestPrincipalSessionsWithoutLimit(t *testing.T) {
	for _, tt := range []struct {
		name string
		max  int
		want [3]int
	}{
		{"default", 0, [3]int{200, 503, 503}},
		{"no limit", -1, [3]int{200, 200, 503}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, _ := legacyServer(t, nil)
				h := servertest.NewHandler(t, srv, &serverhttp.Options{
					Authenticate: func(*http.Request) (protocol.Principal, error) {
						return protocol.Principal{Subject: "ann"}, nil
					},
					Limits: serverhttp.Limits{Sessions: 2, SessionsPerPrincipal: tt.max},
				})
				var got [3]int
				for i := range got {
					got[i] = serveDirect(t.Context(), h, "POST", "",
						initializeBody("2025-11-25")).Code
				}
				if got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
				if err := h.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
