package quota

// This file names principals for guards, stores and quotas, which count by principal.

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/rondo-mcp/rondo/protocol"
)

// LocalOwnerKind is the kind of [protocol.LocalPrincipal].
const LocalOwnerKind = 2

// OwnerKind returns a byte that differs between the three kinds of principal, whatever their names.
func OwnerKind(p protocol.Principal) byte {
	switch {
	case p.IsLocal():
		return LocalOwnerKind
	case p.Anonymous():
		return 0
	}
	return 1
}

// AppendPrincipal encodes a principal unambiguously. It is part of the layout of claims.
func AppendPrincipal(dst []byte, p protocol.Principal) []byte {
	return appendField(appendField(append(dst, OwnerKind(p)), p.Issuer), p.Subject)
}

// OwnerLabel encodes a principal and a purpose unambiguously, to derive keys and ids.
func OwnerLabel(p protocol.Principal, purpose string) []byte {
	return appendLabel(nil, p, purpose)
}

func appendLabel(dst []byte, p protocol.Principal, purpose string) []byte {
	dst = append(append(append(dst, "rondo stored state 1 "...), purpose...), 0)
	return AppendPrincipal(dst, p)
}

// OwnerDigest identifies a principal. It is empty for anonymous callers.
func OwnerDigest(p protocol.Principal) string {
	if p.Anonymous() {
		return ""
	}
	var room [256]byte // enough for most principals
	sum := sha256.Sum256(appendLabel(room[:0], p, "owner"))
	return string(hex.AppendEncode(room[:0], sum[:]))
}

func appendField(dst []byte, value string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}
