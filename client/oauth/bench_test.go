package oauth_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
)

// newLoggedIn returns a source with a token, and a request for it.
func newLoggedIn(tb testing.TB, change func(o *oauth.Options)) (*oauth.Source,
	clienthttp.Outgoing) {
	tb.Helper()
	s := newSite(tb, nil, nil)
	source := s.source(tb, change)
	if err := s.call(tb.Context(), source, "search"); err != nil && !source.HasToken() {
		tb.Fatal(err)
	}
	u, err := url.Parse(s.resource.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return source, clienthttp.Outgoing{Method: http.MethodPost, URL: u, RPC: "tools/call"}
}

// BenchmarkCredentials is what a request asks for: a cached token, and a proof of its key.
func BenchmarkCredentials(b *testing.B) {
	for name, change := range map[string]func(o *oauth.Options){"bearer": nil, "dpop": bound} {
		b.Run(name, func(b *testing.B) {
			source, out := newLoggedIn(b, change)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if header, err := source.Credentials(ctx, out); err != nil || len(header) == 0 {
					b.Fatal(len(header), err)
				}
			}
		})
	}
}

// BenchmarkCall is a call over HTTP with a cached token: a bearer token, or one that is bound to a
// key, whose proofs the server checks.
func BenchmarkCall(b *testing.B) {
	for _, isBound := range []bool{false, true} {
		name, change := "bearer", func(*oauth.Options) {}
		if isBound {
			name, change = "dpop", bound
		}
		b.Run(name, func(b *testing.B) {
			site := newMCPSite(b, isBound)
			transport, err := clienthttp.New(site.resource.URL, &clienthttp.Options{
				Authorizer: site.source(b, change)})
			if err != nil {
				b.Fatal(err)
			}
			c, err := client.New(transport, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			call := func() {
				if _, err := c.CallTool(b.Context(), "search", nil); err != nil {
					b.Fatal(err)
				}
			}
			call() // logs in
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// TestAllocCredentials: each request asks for them.
func TestAllocCredentials(t *testing.T) {
	source, out := newLoggedIn(t, nil)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = source.Credentials(ctx, out) }); n > 1 {
		t.Errorf("%v allocations, want 1 at most", n)
	}
}
