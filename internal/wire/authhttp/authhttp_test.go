package authhttp_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
)

// TestMetadataURLs: a slash at the end of the issuer is left out before the well-known part is
// inserted (RFC 8414, 3.1), and the root of an issuer with a path is never asked.
func TestMetadataURLs(t *testing.T) {
	const origin = "https://as.example"
	root := []string{origin + "/.well-known/oauth-authorization-server",
		origin + "/.well-known/openid-configuration"}
	tenant := []string{origin + "/.well-known/oauth-authorization-server/a/b",
		origin + "/.well-known/openid-configuration/a/b",
		origin + "/a/b/.well-known/openid-configuration"}
	for issuer, want := range map[string][]string{origin: root, origin + "/": root,
		origin + "/a/b": tenant, origin + "/a/b/": tenant} {
		u, err := url.Parse(issuer)
		if err != nil {
			t.Fatal(err)
		}
		if got := authhttp.MetadataURLs(u); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", issuer, got, want)
		}
	}
}
