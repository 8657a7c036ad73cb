package middleware

import (
	"strings"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// traceID returns the id of the trace that a request says it belongs to, empty
// if it names none in the form of W3C Trace Context. _meta goes first: a header
// may be that of a proxy, which knows of one request and not of the call.
func traceID(in *server.Incoming) string {
	if in.Meta != nil && len(in.Meta.Extra) > 0 {
		var parent string
		_ = jsonx.Members([]byte(in.Meta.Extra), func(key, value []byte) error {
			if string(key) == protocol.MetaTraceParent {
				parent, _ = jsonx.Text(value)
			}
			return nil
		})
		if id := traceIDOf(parent); id != "" {
			return id
		}
	}
	return traceIDOf(in.TraceParent)
}

// traceIDOf reads "00-<32 hex digits>-<16 hex digits>-<flags>".
func traceIDOf(parent string) string {
	version, rest, ok := strings.Cut(parent, "-")
	id, rest, more := strings.Cut(rest, "-")
	span, _, _ := strings.Cut(rest, "-")
	if !ok || !more || len(version) != 2 || len(id) != 32 || len(span) != 16 || !isHex(version+id+span) || strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

func isHex(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}
