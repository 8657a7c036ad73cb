// Package rules has rules of the specification that several packages apply: by which revision a
// message is served, which error codes it has, which arguments are mirrored into headers, and what
// is a scope.
package rules

import (
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// ModernRevisions returns the revisions that are served without a session.
func ModernRevisions() []protocol.Version { return []protocol.Version{protocol.V20260728} }

// NamesRevision reports whether the _meta of params names a revision, which requests of revisions
// without a handshake do and no others (basic/index, "_meta"). Params have passed [jsonx.Check], or
// are part of something that has; nil counts as absent.
//
// The member decides and not its value: older revisions reserve the name, so a request that has it
// is meant to be modern, and is refused by the modern rules when the value is no revision. All
// transports decide by this function, so that none of them reads a message more leniently than
// another. Adapters decide as the SDK does that they adapt.
func NamesRevision(params []byte) bool {
	meta, ok := protocol.Meta(params).Get("_meta")
	if !ok || jsonx.KindOf(meta) != jsonx.Object {
		return false
	}
	_, ok = protocol.Meta(meta).Get(protocol.MetaProtocolVersion)
	return ok
}

// EraOf returns the era by whose rules a message that came over HTTP is served. named means that
// its _meta names a revision, see [NamesRevision]; header are the values of MCP-Protocol-Version.
//
// Modern is what names a revision in _meta, which legacy revisions do not have, and what names in
// the header a revision that is modern or unknown: an unknown revision is refused the modern way,
// which lists those that are supported. So is a header that is repeated. All the rest is legacy.
func EraOf(named bool, header []string) protocol.Era {
	if named || len(header) > 1 {
		return protocol.Modern
	}
	if len(header) == 0 {
		return protocol.Legacy
	}
	v := protocol.Version(header[0])
	if !v.Known() {
		v = protocol.Version(strings.Trim(header[0], " \t")) // HTTP/2 hands white space on
	}
	if v == "" || (v.Known() && v.Era() == protocol.Legacy) {
		return protocol.Legacy
	}
	return protocol.Modern
}
