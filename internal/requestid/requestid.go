// Package requestid names requests, so that all log entries of one can be found
// by any of them.
package requestid

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// A Key is the key of a context's value that implements [Named].
type Key struct{}

// Named is what knows the id of the request that it belongs to.
type Named interface{ RequestID() string }

// From returns the id of the request that ctx belongs to, empty when it has
// none.
func From(ctx context.Context) string {
	if named, ok := ctx.Value(Key{}).(Named); ok {
		return named.RequestID()
	}
	return ""
}

// New returns an id of 12 characters. Two requests of a day may have the same
// one in a very large fleet; nothing but the reading of logs depends on it.
func New() string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], rand.Uint64())
	var text [12]byte
	hex.Encode(text[:], raw[:6])
	return string(text[:])
}
