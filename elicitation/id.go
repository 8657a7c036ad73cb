package elicitation

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/rondo-mcp/rondo/protocol"
)

// newID returns 128 random bits in hexadecimal.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// bareID returns a router id without its quotes on the wire.
func bareID(id protocol.ID) string {
	s := id.String()
	return s[1 : len(s)-1]
}
