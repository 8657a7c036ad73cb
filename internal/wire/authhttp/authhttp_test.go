package authhttp_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
)

// A trailing slash of the issuer is removed (RFC 8414, 3.1), but its path is never dropped.
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
