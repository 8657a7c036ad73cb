package clienthttp

import (
	"errors"
	"net/http"
	"net/url"
)

const defaultMaxResponseBytes = 16 << 20 // as for requests to this library's servers

// Options configure a [Transport]. Nil and the zero value mean defaults.
type Options struct {
	// HTTPClient sends the requests. Redirects are refused: CheckRedirect is not used. Its Timeout,
	// if any, also ends streams. Nil: a client of its own, configured like [http.DefaultTransport].
	HTTPClient *http.Client
	// Header is copied and sent with every request. Headers of the protocol override it.
	Header http.Header
	// Authorizer provides the credentials of each request, which override Header. Nil for none.
	Authorizer Authorizer
	// MaxResponseBytes limits one message (body or event). 0: 16 MiB; negative: no limit.
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
