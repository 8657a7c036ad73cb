package serverhttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// refuseLegacyRequest is the error of a server that serves modern revisions alone:
// it names the versions that it supports (basic/versioning, "Backward Compatibility").
func refuseLegacyRequest(header http.Header, method string, params []byte) *protocol.Error {
	requested := trimSpace(header.Get(headerVersion))
	if method == protocol.MethodInitialize {
		if raw, ok := protocol.Meta(params).Get("protocolVersion"); ok {
			if text, err := jsonx.Text(raw); err == nil {
				requested = text
			}
		}
		return protocol.UnsupportedVersion(requested, revision.Modern())
	}
	if requested != "" {
		return protocol.UnsupportedVersion(requested, revision.Modern())
	}
	return protocol.Errorf(protocol.CodeHeaderMismatch,
		"MCP-Protocol-Version header is missing; this server supports %v", revision.Modern())
}

// replaceRefusal returns a new request with what observers and logs need of in, and
// e as its refusal. It has no era: [server.Server.Serve] serves it as modern. What
// [server.Server.Admit] found in the body does not count when the headers
// contradict the body or name another era.
func replaceRefusal(in *server.Incoming, e *protocol.Error) *server.Incoming {
	refused := &server.Incoming{
		Request: in.Request, Params: in.Params, Meta: in.Meta, Version: in.Version,
		Target:    in.Target,
		Principal: in.Principal, Private: in.Private, Back: in.Back,
		RemoteAddr: in.RemoteAddr, TraceParent: in.TraceParent, Credential: in.Credential,
		DraftErrorCodes: in.DraftErrorCodes,
	}
	refused.Refuse(e)
	return refused
}
