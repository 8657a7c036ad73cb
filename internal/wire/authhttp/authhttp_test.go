package authhttp_test

import (
	"context"
	"errors"
	"net/http"
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

// TestFetchFirst tries another place only where there is no document.
func TestFetchFirst(t *testing.T) {
	for status, missing := range map[int]bool{200: false, 302: false, 400: true, 404: true,
		429: false, 500: false, 503: false} {
		tried := 0
		at, _, err := authhttp.FetchFirst(t.Context(), []string{"first", "second"},
			func(context.Context, string) ([]byte, error) {
				if tried++; status == http.StatusOK {
					return nil, nil
				}
				return nil, &authhttp.StatusError{Status: status}
			})
		if (tried == 2) != missing || errors.Is(err, authhttp.ErrMissing) != missing ||
			(err == nil) != (status == http.StatusOK) || err == nil && at != "first" {
			t.Errorf("status %d: tried %d, got %q, %v", status, tried, at, err)
		}
	}
}
