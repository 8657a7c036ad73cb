// Package owner names principals to what counts by principal and need not know who they are:
// guards, stores and quotas.
package owner

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/rondo-mcp/rondo/protocol"
)

// LocalKind is the kind of [protocol.LocalPrincipal].
const LocalKind = 2

// Kind returns a byte that keeps the three kinds of principal apart whatever their names.
func Kind(p protocol.Principal) byte {
	switch {
	case p.IsLocal():
		return LocalKind
	case p.Anonymous():
		return 0
	}
	return 1
}

// AppendPrincipal encodes a principal without ambiguity. It is part of the
// layout of claims.
func AppendPrincipal(dst []byte, p protocol.Principal) []byte {
	return appendField(appendField(append(dst, Kind(p)), p.Issuer), p.Subject)
}

// Label encodes a principal and a purpose without ambiguity, to derive keys and ids from.
func Label(p protocol.Principal, purpose string) []byte {
	return AppendPrincipal([]byte("rondo stored state 1 "+purpose+"\x00"), p)
}

// Digest identifies a principal. It is empty for anonymous callers, who cannot be told apart.
func Digest(p protocol.Principal) string {
	if p.Anonymous() {
		return ""
	}
	sum := sha256.Sum256(Label(p, "owner"))
	return hex.EncodeToString(sum[:])
}

func appendField(dst []byte, value string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}
