package oauth_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
)

// newLoggedIn returns a source with a token, and a request for it.
func newLoggedIn(tb testing.TB) (*oauth.Source, clienthttp.Outgoing) {
	tb.Helper()
	s := newSite(tb, nil, nil)
	source := s.source(tb, nil)
	if err := s.call(tb.Context(), source, "search"); err != nil && !source.HasToken() {
		tb.Fatal(err)
	}
	u, err := url.Parse(s.resource.URL)
	check(tb, err)
	return source, clienthttp.Outgoing{Method: http.MethodPost, URL: u, RPC: "tools/call"}
}

// BenchmarkCredentials is what a request asks for: a cached token.
func BenchmarkCredentials(b *testing.B) {
	source, out := newLoggedIn(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if header, err := source.Credentials(ctx, out); err != nil || len(header) == 0 {
			b.Fatal(len(header), err)
		}
	}
}

// TestAllocCredentials: each request asks for them.
func TestAllocCredentials(t *testing.T) {
	source, out := newLoggedIn(t)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = source.Credentials(ctx, out) }); n > 1 {
		t.Errorf("%v allocations, want 1 at most", n)
	}
}
