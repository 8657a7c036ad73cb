package clienthttp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"

	"github.com/rondo-mcp/rondo/protocol"
)

// The headers of the transport in canonical spelling, which lets them be set
// without further work.
const (
	headerVersion     = "Mcp-Protocol-Version"
	headerMethod      = "Mcp-Method"
	headerName        = "Mcp-Name"
	headerParamPrefix = "Mcp-Param-"
)

// Header values that never change. They are shared between requests, which
// net/http only reads.
var (
	contentJSON = []string{mediaJSON}
	acceptBoth  = []string{mediaJSON + ", " + mediaSSE}
)

// header returns the headers of one request: the caller's, overruled by those
// of the protocol (basic/transports/streamable-http, "Request Metadata").
func (t *Transport) header(ctx context.Context, method string, mirror *protocol.Mirror) (http.Header, error) {
	h := make(http.Header, len(t.fixed)+6+len(mirror.Params))
	maps.Copy(h, t.fixed)
	if t.authorize != nil {
		extra, err := t.authorize(ctx)
		if err != nil {
			return nil, fmt.Errorf("clienthttp: authorize: %w", err)
		}
		for name, values := range extra {
			h[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	h["Content-Type"] = contentJSON
	h["Accept"] = acceptBoth
	// Three values in one allocation.
	values := []string{string(mirror.Version), method, ""}
	delete(h, headerVersion)
	if mirror.Version != "" {
		h[headerVersion] = values[0:1:1]
	}
	h[headerMethod] = values[1:2:2]
	delete(h, headerName)
	if mirror.Name != "" {
		values[2] = protocol.EncodeHeaderValue(mirror.Name)
		h[headerName] = values[2:3:3]
	}
	for _, p := range mirror.Params {
		if !isToken(p.Name) {
			return nil, fmt.Errorf("clienthttp: parameter header %.64q: not a header name", p.Name)
		}
		h.Set(headerParamPrefix+p.Name, protocol.EncodeHeaderValue(p.Value))
	}
	return h, nil
}

// isToken reports whether name may be part of a header name (RFC 9110, 5.6.2).
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '!', c == '#', c == '$', c == '%', c == '&', c == '\'', c == '*', c == '+',
			c == '-', c == '.', c == '^', c == '_', c == '`', c == '|', c == '~':
		default:
			return false
		}
	}
	return name != ""
}
