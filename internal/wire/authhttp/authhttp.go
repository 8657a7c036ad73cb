// Package authhttp sends requests to authorization servers, for clients and resource servers.
// Responses are bounded, redirects are not followed, errors omit the URL and its secrets.
package authhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const requestTimeout = 5 * time.Second // if the client has none

const MaxBytes = 256 << 10 // of metadata and of endpoint responses

// NewClient returns a copy of base that follows no redirects and has a timeout, default 5 seconds.
func NewClient(base http.Client) *http.Client {
	base.Timeout = cmp.Or(base.Timeout, requestTimeout)
	base.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return &base
}

// CloneTransport clones http.DefaultTransport, or makes a similar one if the program replaced it.
func CloneTransport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: requestTimeout}
}

// A StatusError reports a response with an unexpected status.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // 0 if absent or a date
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d", e.Status) }

// IsMissing reports whether err means that the document does not exist.
func IsMissing(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status >= 400 && e.Status < 500 &&
		e.Status != http.StatusTooManyRequests
}

// Send sends a request and returns the body, of at most limit bytes, and the header of the
// response. For a status not in want it also returns a *StatusError, and the body may be truncated.
func Send(client *http.Client, r *http.Request, limit int64, want ...int) (
	[]byte, http.Header, error) {
	response, err := client.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	tooLong := int64(len(body)) > limit
	switch {
	case !slices.Contains(want, response.StatusCode):
		body = body[:min(int64(len(body)), limit)]
		err = &StatusError{response.StatusCode, readRetryAfter(response.Header)}
	case err == nil && tooLong:
		err = fmt.Errorf("the response is longer than %d bytes", limit)
	}
	return body, response.Header, err
}

// readRetryAfter returns the Retry-After in seconds, at most a day; 0 if absent or a date.
func readRetryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 24*3600)) * time.Second
}

// NewForm returns a POST request with a form (RFC 6749, section 3.2).
func NewForm(ctx context.Context, at string, form url.Values) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r, nil
}

// SetBasicAuth sets HTTP Basic authentication with form-encoded parts (RFC 6749, section 2.3.1).
func SetBasicAuth(r *http.Request, id, secret string) {
	r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
}

// MetadataURLs returns the possible metadata URLs of an issuer, in the specified order
// (basic/authorization, "Authorization Server Metadata Discovery").
func MetadataURLs(issuer *url.URL) []string {
	const openID = "/.well-known/openid-configuration"
	origin := issuer.Scheme + "://" + issuer.Host
	path := strings.TrimSuffix(issuer.EscapedPath(), "/")
	all := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + openID + path}
	if path != "" {
		all = append(all, origin+path+openID)
	}
	return all
}

// ErrMissing is the error of [FetchMetadata] if no document exists.
var ErrMissing = errors.New("there is no metadata")

// FetchMetadata returns the metadata of an issuer and its URL. fetch returns the document of a URL.
// After any error status, a redirect or a body that is not an object, the next URL is tried,
// because servers answer unknown URLs like that. If all fail, FetchMetadata returns URL, body and
// error of the first response that was not "missing", or else ErrMissing.
func FetchMetadata(ctx context.Context, issuer *url.URL,
	fetch func(ctx context.Context, url string) ([]byte, error)) (
	at string, body []byte, err error) {
	err = ErrMissing
	for _, place := range MetadataURLs(issuer) {
		got, failed := fetch(ctx, place)
		_, isStatus := errors.AsType[*StatusError](failed)
		isObject := bytes.HasPrefix(bytes.TrimSpace(got), []byte("{"))
		if isStatus || failed == nil && !isObject {
			if errors.Is(err, ErrMissing) && !IsMissing(failed) {
				at, body, err = place, got, failed
			}
			continue
		}
		return place, got, failed
	}
	return at, body, err
}

// IsToken reports whether text is a b64token, the syntax of bearer tokens (RFC 6750, section 2.1).
func IsToken(text string) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/"
	text = strings.TrimRight(text, "=")
	return text != "" && strings.Trim(text, characters) == ""
}
