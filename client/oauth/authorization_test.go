package oauth_test

import (
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// TestQueryOfTheAuthorizationEndpointStays, but for what it has of the names of ours.
func TestQueryOfTheAuthorizationEndpointStays(t *testing.T) {
	s := newSite(t, nil, nil)
	s.as.Edit(oauthtest.Metadata, suffix("authorization_endpoint", "?tenant=1&scope=mine"))
	noError.check(t, s.call(t.Context(), s.person(t, nil), "search"))
	form := s.as.Requests(oauthtest.Authorize)[0].Form
	if !slices.Equal(form["tenant"], []string{"1"}) || !slices.Equal(form["scope"],
		[]string{"read"}) {
		t.Errorf("got %q", form)
	}
}
