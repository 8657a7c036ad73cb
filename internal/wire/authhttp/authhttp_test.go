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

// TestFetchMetadata goes on after what servers answer in a place that they do not know, and tells
// of the first of these answers where no place has a document.
func TestFetchMetadata(t *testing.T) {
	const document = ` {"issuer":"x"}`
	failed := errors.New("connection refused")
	for name, of := range map[string]struct {
		status int
		body   string
		err    error
		goesOn bool
	}{
		"document": {body: document}, "no network": {err: failed},
		"a page": {body: "<!DOCTYPE html>", goesOn: true}, "empty": {goesOn: true},
		"a list": {body: "[]", goesOn: true}, "redirect": {status: 302, goesOn: true},
		"missing": {status: 404, goesOn: true}, "broken": {status: 500, goesOn: true},
		"busy": {status: 429, goesOn: true},
	} {
		for _, found := range []bool{true, false} {
			tried := 0
			at, body, err := authhttp.FetchMetadata(t.Context(),
				&url.URL{Scheme: "https", Host: "as.example", Path: "/t"},
				func(context.Context, string) ([]byte, error) {
					switch tried++; {
					case tried == 1 && of.status != 0:
						return nil, &authhttp.StatusError{Status: of.status}
					case tried == 1:
						return []byte(of.body), of.err
					case tried == 3 && found:
						return []byte(document), nil
					}
					return nil, &authhttp.StatusError{Status: http.StatusNotFound}
				})
			if (tried == 3) != of.goesOn {
				t.Errorf("%s: tried %d places", name, tried)
			}
			status := (*authhttp.StatusError)(nil)
			switch {
			case found && of.goesOn:
				if string(body) != document || err != nil || at == "" {
					t.Errorf("%s: got %q, %v", name, body, err)
				}
			case of.status == http.StatusNotFound:
				if !errors.Is(err, authhttp.ErrMissing) {
					t.Errorf("%s: got %v", name, err)
				}
			case of.status != 0:
				if !errors.As(err, &status) || status.Status != of.status {
					t.Errorf("%s: got %v", name, err)
				}
			case string(body) != of.body || !errors.Is(err, of.err):
				t.Errorf("%s: got %q, %v", name, body, err)
			}
		}
	}
}
