package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/authhttp"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func newHTTPClient(base *http.Client) *http.Client {
	if base != nil {
		return authhttp.NewClient(*base)
	}
	own := authhttp.CloneTransport()
	own.MaxIdleConnsPerHost = maxIntrospections // the default of 2 is too low
	return authhttp.NewClient(http.Client{Transport: own})
}

func (i *issuer) fetchDocument(ctx context.Context, at string, limit int64) (
	[]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json")
	return authhttp.Send(i.http, r, limit, http.StatusOK)
}

// discoverKeysURL returns the metadata's jwks_uri. If a document is refused, the search ends.
func (i *issuer) discoverKeysURL(ctx context.Context) (string, error) {
	u, err := url.Parse(i.URL)
	if err != nil {
		return "", err
	}
	_, body, err := authhttp.FetchMetadata(ctx, u,
		func(ctx context.Context, at string) ([]byte, error) {
			body, _, err := i.fetchDocument(ctx, at, authhttp.MaxBytes)
			return body, err
		})
	if errors.Is(err, authhttp.ErrMissing) {
		return "", fmt.Errorf("the authorization server %s has no metadata; set Issuer.KeysURL",
			i.URL)
	}
	if err != nil {
		return "", fmt.Errorf("the metadata of %s: %w", i.URL, err)
	}
	return i.readMetadata(body)
}

// readMetadata checks the issuer's metadata and returns its jwks_uri (RFC 8414, section 3.3).
func (i *issuer) readMetadata(body []byte) (keysURL string, err error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if jsonx.Unmarshal(body, &metadata) != nil {
		return "", fmt.Errorf("the metadata of %s violates RFC 8414", i.URL)
	}
	if metadata.Issuer != i.URL {
		return "", fmt.Errorf("the metadata of %s names the issuer %.200q; they must be the same",
			i.URL, metadata.Issuer)
	}
	u, err := urlrule.Check(metadata.KeysURL)
	if err != nil {
		return "", fmt.Errorf("the metadata of %s: jwks_uri: %w", i.URL, err)
	}
	if u.Scheme != "https" && strings.HasPrefix(i.URL, "https:") {
		return "", fmt.Errorf("the metadata of %s: jwks_uri is not https", i.URL)
	}
	return metadata.KeysURL, nil
}

// freshnessLifetime returns the max-age of a response, within bounds (RFC 9111, section 4.2.1).
func freshnessLifetime(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		if seconds, err := strconv.Atoi(strings.Trim(value, `"`)); err == nil {
			seconds = min(max(seconds, 0), int(maxKeysLifetime/time.Second))
			return max(time.Duration(seconds)*time.Second, minKeysLifetime)
		}
	}
	return defaultKeysLifetime
}
