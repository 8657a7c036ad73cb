package clienthttp

import (
	"errors"
	"net/http"
	"net/url"
)

// defaultMaxResponseBytes is the limit of a message, the same as for requests to servers of this
// library.
const defaultMaxResponseBytes = 16 << 20

// Options configure a [Transport]. The zero value, and nil, mean defaults.
type Options struct {
	// HTTPClient sends the requests. Its CheckRedirect is not used: redirects are refused. Its
	// Timeout, if any, also ends streams. Nil: a client of its own, like [http.DefaultTransport].
	HTTPClient *http.Client
	// Header is copied and sent with every request. Headers of the protocol override it.
	Header http.Header
	// Authorizer, if not nil, provides the credentials of each request, which override Header.
	Authorizer Authorizer
	// MaxResponseBytes limits one message of the server, a body or an event. 0: 16 MiB, negative:
	// no limit.
	MaxResponseBytes int64
}

// parseEndpoint refuses URLs with credentials, because they would appear in logs.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		// The error of net/url repeats the text, which may hold a secret.
		return nil, errors.New("clienthttp: endpoint cannot be parsed")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errPrefix.Errorf("endpoint: scheme must be http or https, got %q", u.Scheme)
	case u.Host == "":
		return nil, errors.New("clienthttp: endpoint: no host")
	case u.User != nil:
		return nil, errors.New("clienthttp: endpoint: credentials belong into a header, not into " +
			"the URL")
	case u.Fragment != "":
		return nil, errors.New("clienthttp: endpoint: must not have a fragment")
	}
	return u, nil
}
