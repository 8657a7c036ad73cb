package clienthttp

import (
	"maps"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// The header names have canonical spelling, so that code can set them in the map directly.
const (
	headerVersion     = "Mcp-Protocol-Version"
	headerMethod      = "Mcp-Method"
	headerName        = "Mcp-Name"
	headerParamPrefix = "Mcp-Param-"
)

// buildHeader returns the caller's headers, overridden by those of the protocol
// (basic/transports/streamable-http, "Request Metadata").
func (t *Transport) buildHeader(method string, mirror *protocol.Mirror) (http.Header, error) {
	h := t.callerHeader(6 + len(mirror.Params))
	// The five values share one allocation.
	values := [...]string{mediaJSON, mediaJSON + ", " + mediaSSE, method, string(mirror.Version),
		""}
	h["Content-Type"] = values[0:1:1]
	h["Accept"] = values[1:2:2]
	h[headerMethod] = values[2:3:3]
	delete(h, headerVersion)
	if mirror.Version != "" {
		h[headerVersion] = values[3:4:4]
	}
	delete(h, headerName)
	if mirror.Name != "" {
		values[4] = rules.EncodeValue(mirror.Name)
		h[headerName] = values[4:5:5]
	}
	for _, p := range mirror.Params {
		if !rules.IsToken(p.Name) {
			return nil, errPrefix.Errorf("parameter header %.64q: not a header name", p.Name)
		}
		h.Set(headerParamPrefix+p.Name, rules.EncodeValue(p.Value))
	}
	return h, nil
}

func (t *Transport) callerHeader(more int) http.Header {
	h := make(http.Header, len(t.fixedHeader)+more)
	maps.Copy(h, t.fixedHeader)
	return h
}
