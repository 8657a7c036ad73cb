package oauth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// TestRefusedMetadataOfTheFirstPlaceEndsTheSearch: the server has not said where its metadata is,
// and the one before its path is wrong. That at the root is not asked for.
func TestRefusedMetadataOfTheFirstPlaceEndsTheSearch(t *testing.T) {
	faults := documentFaults(oauthtest.ResourceMetadata, "resource")
	delete(faults, "does not answer")
	faults["another resource"] = edited(oauthtest.ResourceMetadata,
		foreignResources()["a parent path"])
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil, &oauthtest.ResourceOptions{NoHeader: true})
			f(s)
			metadataError.check(t, s.call(t.Context(), s.person(t, nil), "search"))
			if n := s.resource.Count(oauthtest.ResourceMetadata); n != 1 {
				t.Errorf("metadata was asked for %d times, want once", n)
			}
			s.wantCounts(t, counts{oauthtest.Metadata: 0})
		})
	}
}

// TestServerThatNamesAnotherIssuerEachTime: what is remembered of them does not grow.
func TestServerThatNamesAnotherIssuerEachTime(t *testing.T) {
	source, err := oauth.New("https://mcp.example/mcp", nil)
	noError.check(t, err)
	for i := range 1000 {
		issuer := fmt.Sprintf("https://as.example/%d", i)
		_, err := source.ReadServer(issuer, fmt.Appendf(nil, `{"issuer":%q,
			"authorization_endpoint":"https://as.example/a",
			"token_endpoint":"https://as.example/t",
			"code_challenge_methods_supported":["S256"]}`, issuer))
		noError.check(t, err)
	}
	if n := source.KnownServers(); n == 0 || n > 100 {
		t.Errorf("%d authorization servers are remembered", n)
	}
}

// TestMetadataAtTheRoot is about the origin, which is one resource with its slash and without.
func TestMetadataAtTheRoot(t *testing.T) {
	const well = "/.well-known/oauth-protected-resource"
	for suffix, valid := range map[string]bool{"": true, "/": true, "//": false, "/m": false,
		"/mcp": true, "/mcp/": false, "?": false, "/?": false, "#": false} {
		s := newSite(t, nil, &oauthtest.ResourceOptions{NoHeader: true, Location: well})
		s.resource.Edit(oauthtest.ResourceMetadata,
			oauthtest.Set("resource", s.resource.Origin+suffix))
		d, err := oauth.Discover(t.Context(), s.resource.URL, nil)
		if !valid {
			resourceError.check(t, err)
			continue
		}
		noError.check(t, err)
		if err == nil && d.Resource != s.resource.Origin+suffix {
			t.Errorf("%q: tokens would be for %s", suffix, d.Resource)
		}
	}
}

// TestLegacyServer is one of revision 2025-03-26 without metadata: its origin is the authorization
// server, with the endpoints of that revision.
func TestLegacyServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/register":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"client_id":"c"}`)
		case "/token":
			_, _ = io.WriteString(w, `{"access_token":"a","token_type":"Bearer"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	endpoint, err := url.Parse(server.URL + "/mcp")
	noError.check(t, err)
	opts := &oauth.Options{Legacy: true, RedirectURI: "https://app.example/back"}
	d, err := oauth.Discover(t.Context(), endpoint.String(), opts)
	if err != nil || d.Issuer != server.URL || !d.DynamicRegistration {
		t.Fatalf("got %+v, %v", d, err)
	}
	source, err := oauth.New(endpoint.String(), opts)
	noError.check(t, err)
	login, err := source.Begin(t.Context(), nil)
	check(t, err)
	page, err := url.Parse(login.URL)
	noError.check(t, err)
	callback := url.Values{"code": {"x"}, "state": {page.Query().Get("state")}}
	noError.check(t, source.Finish(t.Context(), login, &url.URL{RawQuery: callback.Encode()}))
	header, err := source.Credentials(t.Context(), clienthttp.Outgoing{URL: endpoint})
	if err != nil || header.Get("Authorization") != "Bearer a" {
		t.Errorf("got %v, %v", header, err)
	}
}
