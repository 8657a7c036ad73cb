package roundtriptest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
)

// Transport returns a transport for handlers' clients that counts each request as an effect and
// passes it to base; nil means [http.DefaultTransport].
//
// A flow fails if the same request, body included, is sent in two rounds. GET, HEAD and OPTIONS,
// and requests with the same Idempotency-Key header, may be repeated and are only shown.
func (e *Effects) Transport(base http.RoundTripper) http.RoundTripper {
	return &countingTransport{&e.seen, cmp.Or(base, http.DefaultTransport)}
}

type countingTransport struct {
	effects *attack.Effects
	base    http.RoundTripper
}

// RoundTrip counts a copy: a round tripper must not change the request.
func (c *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	shown := *req.URL
	shown.User, shown.RawQuery, shown.Fragment = nil, "", "" // which may be secret
	effect := attack.Effect{Text: req.Method + " " + shown.String()}
	effect.Repeatable = req.Header.Get("Idempotency-Key") != "" || slices.Contains([]string{"",
		http.MethodGet, http.MethodHead, http.MethodOptions}, req.Method)
	digest := sha256.New()
	_, _ = io.WriteString(digest, req.URL.RawQuery+"\n") // a hash never fails
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
