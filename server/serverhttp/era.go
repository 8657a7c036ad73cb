package serverhttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
)

// eraOf tells by which era's rules a message wants to be served. declared is
// the version in its _meta, lines are the MCP-Protocol-Version headers.
//
// Modern is what names a version in _meta, which legacy revisions do not have,
// and what names in the header a version that is modern or unknown: an unknown
// version is refused the modern way, which lists those that are supported. So
// is a header that is repeated. All the rest is legacy.
func eraOf(declared protocol.Version, lines []string) protocol.Era {
	if declared != "" || len(lines) > 1 {
		return protocol.Modern
	}
	v := protocol.Version(trimSpace(firstLine(lines)))
	if v == "" || (v.Known() && v.Era() == protocol.Legacy) {
		return protocol.Legacy
	}
	return protocol.Modern
}

// refuseLegacyRequest is the error of a server that serves modern revisions alone:
// it names the versions that it supports (basic/versioning, "Backward Compatibility").
func refuseLegacyRequest(header http.Header, method string, params []byte) *protocol.Error {
	requested := trimSpace(header.Get(headerVersion))
	if method == protocol.MethodInitialize {
		if text, ok := textMember(params, "protocolVersion"); ok {
			requested = text
		}
		return protocol.UnsupportedVersion(requested, revision.Modern())
	}
	if requested != "" {
		return protocol.UnsupportedVersion(requested, revision.Modern())
	}
	return protocol.Errorf(protocol.CodeHeaderMismatch,
		"MCP-Protocol-Version header is missing; this server supports %v", revision.Modern())
}
