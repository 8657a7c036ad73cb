package interop_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// TestAuthenticationOfTheAuthor: middleware of the author's own, around the MCP handler, looks the
// caller up. Neither SDK knows of it.
func TestAuthenticationOfTheAuthor(t *testing.T) {
	all := ownAuthentication()
	checkAll(t, all)
	for name, x := range all {
		t.Run(name+"/no token", func(t *testing.T) {
			c := newRaw(t, x.open(t, newSite(modern)), modern, "", nil)
			if got := c.do(removal("books"), nil, nil); got.status !=
				http.StatusUnauthorized {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
}

func ownAuthentication() shapes {
	users := map[string]string{"secret-1": "alice", "secret-2": "bob"}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			user, ok := users[token]
			if !ok {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
		})
	}
	tokens := []string{"secret-1", "secret-2"}
	return shapes{
		"official": {tokens: tokens, serve: func(t *testing.T, s *site) http.Handler {
			srv := s.newOfficial()
			s.addOfficialRemove(srv)
			return authenticate(s.serveOneOfficial(t, srv))
		}},
		"mcp-go": {tokens: tokens, serve: func(t *testing.T, s *site) http.Handler {
			srv := s.newMCPGo()
			s.addMCPGoRemove(srv)
			return authenticate(s.serveOneMCPGo(t, srv))
		}},
	}
}

type userKey struct{}
