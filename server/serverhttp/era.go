package serverhttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// refuseLegacyRequest is the error of a server that serves modern revisions alone:
// it names the versions that it supports (basic/versioning, "Backward Compatibility").
func refuseLegacyRequest(header http.Header, method string, params []byte) *protocol.Error {
	requested := trimSpace(header.Get(headerVersion))
	if method == protocol.MethodInitialize {
		if text, ok := textMember(params, "protocolVersion"); ok {
			requested = text
		}
		return protocol.UnsupportedVersion(requested, rules.ModernRevisions())
	}
	if requested != "" {
		return protocol.UnsupportedVersion(requested, rules.ModernRevisions())
	}
	return protocol.Errorf(protocol.CodeHeaderMismatch,
		"MCP-Protocol-Version header is missing; this server supports %v", rules.ModernRevisions())
}
