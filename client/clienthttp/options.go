package clienthttp

import (
	"errors"
	"net/http"
	"net/url"
)

// defaultMaxResponseBytes is the largest message that a server may send: the
// size up to which servers of this library accept requests, and far more than a
// model can use.
const defaultMaxResponseBytes = 4 << 20

// Options configure a [Transport]. The zero value, and nil, mean defaults.
type Options struct {
	// HTTPClient sends the requests. Its CheckRedirect is not used:
	// redirects are refused. Its Timeout, if any, also cuts streams off.
	// Nil: a client of the transport's own, set up like
	// [http.DefaultTransport].
	HTTPClient *http.Client
	// Header is sent with every request. Headers of the protocol override
	// it. It is copied.
	Header http.Header
	// Authorizer, if not nil, returns the credentials of each request, which
	// override Header, and can renew those that are refused.
	Authorizer Authorizer
	// MaxResponseBytes limits one message of the server, be it a whole body
	// or one event of a stream. 0: 4 MiB, negative: no
	// limit.
	MaxResponseBytes int64
}

// parseEndpoint accepts absolute http and https URLs without fragment, and
// without credentials, which would end up in logs.
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
