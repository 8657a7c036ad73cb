package roundtrip_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// The usual OAuth flow asks once, in both eras, if its nonce is kept.
func TestVisitsWithANonceAreAskedForOnce(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			var visited, used string
			p := person{"login": agreed}
			j := newJourney(t, m, roundtrip.Options{}, p, flow(func(ctx context.Context) string {
				nonce := must(roundtrip.Nonce(ctx, "login"))
				if visited == "" {
					visited = nonce
				}
				check(roundtrip.AskURL(ctx, "login", "Sign in",
					"https://id.example/authorize?state="+url.QueryEscape(nonce)))
				used = nonce
				return "signed in"
			}))
			if result, err := j.end(p); err != nil || show(result) != "signed in" {
				t.Fatalf("got %q, %v", show(result), err)
			}
			if len(used) != 32 || used != visited {
				t.Errorf("the nonce was %q and became %q", visited, used)
			}
		})
	}
}

// Two flows, and two names, have nothing in common.
func TestNoncesDiffer(t *testing.T) {
	seen := map[string]bool{}
	handler := flow(func(ctx context.Context) string {
		for _, name := range []string{"a", "b"} {
			nonce := must(roundtrip.Nonce(ctx, name))
			seen[nonce] = true
		}
		return "done"
	})
	for range 2 {
		serve(t, handler).done()
	}
	if len(seen) != 4 {
		t.Errorf("%d nonces are different, want 4", len(seen))
	}
}
