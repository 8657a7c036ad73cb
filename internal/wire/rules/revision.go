// Package rules has rules of the specification that several packages apply: the revision by which
// to serve a message, error codes, arguments mirrored into headers, and scopes.
package rules

import (
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// ModernRevisions returns the revisions served without a session.
func ModernRevisions() []protocol.Version { return []protocol.Version{protocol.V20260728} }

// NamesRevision reports whether the _meta of params names a revision, as only modern requests do
// (basic/index, "_meta"). params is checked JSON, nil when absent.
//
// The presence of the member decides, not its value: older revisions reserve the name, so the
// request is meant to be modern and an invalid value is refused by the modern rules. All transports
// use this function, so that none is more lenient than another. Adapters decide as their SDK does.
func NamesRevision(params []byte) bool {
	meta, ok := protocol.Meta(params).Get("_meta")
	if !ok || jsonx.KindOf(meta) != jsonx.Object {
		return false
	}
	_, ok = protocol.Meta(meta).Get(protocol.MetaProtocolVersion)
	return ok
}

// EraOf returns the era by whose rules to serve a message over HTTP. named is the result of
// [NamesRevision]; header holds the values of MCP-Protocol-Version.
//
// A message is modern if it names a revision in _meta, or a modern or unknown one in the header,
// because only the modern refusal lists the supported revisions. A repeated header is modern too.
func EraOf(named bool, header []string) protocol.Era {
	if named || len(header) > 1 {
		return protocol.Modern
	}
	if len(header) == 0 {
		return protocol.Legacy
	}
	v := protocol.Version(header[0])
	if !v.Known() {
		v = protocol.Version(strings.Trim(header[0], " \t")) // HTTP/2 keeps white space
	}
	if v == "" || (v.Known() && v.Era() == protocol.Legacy) {
		return protocol.Legacy
	}
	return protocol.Modern
}
