// Package callctx has what the context of a call carries beside its values: the id of the request,
// the mark of a run of a task, and in tests the sink of internal errors.
package callctx

// This file makes ids of requests, by which the log entries of one request are found.

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// A Key is the key of a context's value that implements [Named].
type Key struct{}

// Named is implemented by values of a context that know the id of their request.
type Named interface{ RequestID() string }

// From returns the id of the request that ctx belongs to, empty when it has
// none.
func From(ctx context.Context) string {
	if named, ok := ctx.Value(Key{}).(Named); ok {
		return named.RequestID()
	}
	return ""
}

// New returns a random id of 12 characters. Two requests of a day may have the same id in a very
// large fleet, which only affects the reading of logs.
func New() string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], rand.Uint64())
	var text [12]byte
	hex.Encode(text[:], raw[:6])
	return string(text[:])
}
