package bearer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const (
	// requestTimeout bounds a request to an issuer, unless Options.HTTPClient has a timeout.
	requestTimeout = 5 * time.Second
	// maxMetadataBytes bounds the metadata of an issuer.
	maxMetadataBytes = 256 << 10
)

// newHTTPClient returns a client like base that follows no redirects, since they would lead to
// hosts that are not configured. base may be nil.
func newHTTPClient(base *http.Client) *http.Client {
	client := http.Client{}
	if base != nil {
		client = *base
	} else if usual, ok := http.DefaultTransport.(*http.Transport); ok {
		own := usual.Clone()
		own.MaxIdleConnsPerHost = maxIntrospections // the default of 2 is too few for them
		client.Transport = own
	}
	if client.Timeout == 0 {
		client.Timeout = requestTimeout
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return &client
}

// A statusError is a response with a status other than 200.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// isMissing reports whether the status means that there is no such document.
func (e statusError) isMissing() bool {
	return e >= 400 && e < 500 && e != http.StatusTooManyRequests
}

// fetchDocument gets a JSON document of at most limit bytes.
func fetchDocument(ctx context.Context, client *http.Client, at string, limit int64) (
	[]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json")
	return sendRequest(client, r, limit)
}

// sendRequest sends a request and returns the body and the header of the response, which must have
// status 200 and at most limit bytes. Another status is a statusError.
func sendRequest(client *http.Client, r *http.Request, limit int64) ([]byte, http.Header, error) {
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, statusError(response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("the response is longer than %d bytes", limit)
	}
	return body, response.Header, err
}

// discoverKeysURL returns the URL of the issuer's keys, the jwks_uri of its metadata (RFC 8414,
// OpenID Connect Discovery 1.0). A document that is refused ends the search: another is not tried.
func (i *issuer) discoverKeysURL(ctx context.Context) (string, error) {
	for _, at := range metadataURLs(i.URL) {
		body, _, err := fetchDocument(ctx, i.http, at, maxMetadataBytes)
		if status := statusError(0); errors.As(err, &status) && status.isMissing() {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("the metadata of %s: %w", i.URL, err)
		}
		return i.readMetadata(body)
	}
	return "", fmt.Errorf("the authorization server %s has no metadata; set Issuer.KeysURL", i.URL)
}

// readMetadata checks the metadata of the issuer and returns its jwks_uri (RFC 8414, section 3.3).
func (i *issuer) readMetadata(body []byte) (keysURL string, err error) {
	var metadata struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if jsonx.Unmarshal(body, &metadata) != nil {
		return "", fmt.Errorf("the metadata of %s is not what RFC 8414 says", i.URL)
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

// metadataURLs returns the URLs at which the metadata of an issuer may be, in the order that the
// specification prescribes (basic/authorization, "Authorization Server Metadata Discovery").
func metadataURLs(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil // New has parsed it
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	at := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		at = append(at, origin+path+"/.well-known/openid-configuration")
	}
	return at
}

// freshnessLifetime returns the freshness lifetime of a response: its max-age, within bounds (RFC
// 9111, section 4.2.1).
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
