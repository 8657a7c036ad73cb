package oauthtest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

func TestResourceTakesTokensForItselfOnly(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	r := oauthtest.NewResource(t, &oauthtest.ResourceOptions{Servers: []*oauthtest.Server{as}})
	status := func(headers ...string) int {
		t.Helper()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.URL,
			strings.NewReader(`{"id":1}`))
		request.Header["Authorization"] = headers
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		return w.Code
	}
	expired := "Bearer " + as.Issue(oauthtest.Grant{Resource: r.URL})
	as.Expire()
	right := "Bearer " + as.Issue(oauthtest.Grant{Resource: r.URL})
	wrong := "Bearer " + as.Issue(oauthtest.Grant{Resource: r.Origin})
	other := oauthtest.NewServer(t, nil)
	for _, test := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"right", []string{right}, 200},
		{"none", nil, 401},
		{"two", []string{right, right}, 401},
		{"other resource", []string{wrong}, 401},
		{"other issuer", []string{"Bearer " + other.Issue(oauthtest.Grant{Resource: r.URL})}, 401},
		{"expired", []string{expired}, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := status(test.headers...); got != test.want {
				t.Errorf("%s: %d, want %d", test.name, got, test.want)
			}
		})
	}
}

func TestHoldKeepsRequestsWaiting(t *testing.T) {
	as := oauthtest.NewServer(t, nil)
	p := newParty(t, as)
	gate := as.Hold(oauthtest.JWKS)
	done := make(chan json.RawMessage, 2)
	for range 2 {
		go func() { done <- p.send(http.MethodGet, "/jwks", "", nil).Keys }()
	}
	<-gate.Arrived
	<-gate.Arrived
	if len(done) != 0 || as.Count(oauthtest.JWKS) != 2 {
		t.Error("the requests did not wait")
	}
	gate.Release()
	if keys := <-done; keys == nil {
		t.Error("no keys")
	}
	<-done
}
