package oauth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
)

// If the first place's metadata is refused, the search ends: the root is not requested.
func TestRefusedMetadataOfTheFirstPlaceEndsTheSearch(t *testing.T) {
	faults := documentFaults(oauthtest.ResourceMetadata, "resource")
	delete(faults, "does not answer")
	faults["another resource"] = edited(oauthtest.ResourceMetadata,
		foreignResources()["a parent path"])
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			s, _ := scenario{fault: both(f, nowhere), script: "search:metadata metadata=0"}.play(t)
			if n := s.resource.Count(oauthtest.ResourceMetadata); n != 1 {
				t.Errorf("metadata was asked for %d times, want once", n)
			}
		})
	}
	// The second place is only tried if the first has no document.
	for status, places := range map[int]int{302: 1, 400: 2, 404: 2, 429: 1, 500: 1} {
		s, _ := scenario{fault: both(nowhere, replied(oauthtest.ResourceMetadata,
			oauthtest.Answer{Status: status})), script: "search:metadata"}.play(t)
		if n := s.resource.Count(oauthtest.ResourceMetadata); n != places {
			t.Errorf("status %d: metadata was asked for %d times, want %d", status, n, places)
		}
	}
}

// The function nowhere makes the challenge omit the URL of the metadata.
func nowhere(s *site) {
	challenged(func(string) []string { return []string{`Bearer scope="read"`} })(s)
}

// If the server names another issuer each time, the cache does not grow.
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

// An origin is the same resource with and without its slash.
func TestMetadataAtTheRoot(t *testing.T) {
	for suffix, valid := range map[string]bool{"": true, "/": true, "//": false, "/m": false,
		"/mcp": true, "/mcp/": false, "?": false, "/?": false, "#": false} {
		s := newSite(t, nil, func(o *oauthtest.ResourceOptions) { o.Root = true })
		nowhere(s)
		s.resource.Edit(oauthtest.ResourceMetadata,
			oauthtest.Set("resource", s.resource.Origin+suffix))
		login, err := s.source(nobody).Begin(t.Context(), nil)
		if !valid {
			outcomes["resource"].check(t, err)
			continue
		}
		check(t, err)
		if want := "resource=" + url.QueryEscape(s.resource.Origin+suffix) + "&"; !strings.Contains(
			login.URL, want) {
			t.Errorf("%q: %s is not in %s", suffix, want, login.URL)
		}
	}
}

// A legacy server without metadata has the endpoints of revision 2025-03-26.
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
	source, err := oauth.New(endpoint.String(),
		&oauth.Options{Legacy: true, RedirectURI: "https://app.example/back"})
	noError.check(t, err)
	login, err := source.Begin(t.Context(), nil)
	check(t, err)
	page, err := url.Parse(login.URL)
	if err != nil || !strings.HasPrefix(login.URL, server.URL+"/authorize?") {
		t.Errorf("the page is %s, %v", login.URL, err)
	}
	callback := url.Values{"code": {"x"}, "state": {page.Query().Get("state")}}
	noError.check(t, source.Finish(t.Context(), login, &url.URL{RawQuery: callback.Encode()}))
	header, err := source.Credentials(t.Context(), clienthttp.Outgoing{URL: endpoint})
	if err != nil || header.Get("Authorization") != "Bearer a" {
		t.Errorf("got %v, %v", header, err)
	}
}
