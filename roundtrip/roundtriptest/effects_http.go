package roundtriptest

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
)

// Transport returns a transport that counts each request as an effect and passes it to base; nil
// means [http.DefaultTransport]. Give it to the client that handlers use.
//
// A flow fails if the same request, body included, leaves the handler in two rounds. GET, HEAD
// and OPTIONS may be repeated, and so may requests with a header Idempotency-Key that is the same:
// they are shown and no more.
func (e *Effects) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &countingTransport{effects: &e.seen, base: base}
}

type countingTransport struct {
	effects *attack.Effects
	base    http.RoundTripper
}

// RoundTrip counts the request, on a copy: a round tripper must not change the request.
func (c *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	effect := attack.Effect{Text: req.Method + " " + withoutQuery(req)}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		effect.Repeatable = true
	}
	if req.Header.Get("Idempotency-Key") != "" {
		effect.Repeatable = true
	}
	digest := sha256.New()
	_, _ = io.WriteString(digest, req.URL.RawQuery+"\n") // a hash takes everything
	if req.Body != nil && req.Body != http.NoBody {
		body, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		_, _ = digest.Write(body)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	effect.Identity = string(digest.Sum(nil))
	c.effects.Record(effect)
	return c.base.RoundTrip(req)
}

// withoutQuery returns the URL without what may be a secret.
func withoutQuery(req *http.Request) string {
	u := *req.URL
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
