package rpc

// This file has the values of the context of a call.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// IDKey is the key of a context's value that implements [Named].
type IDKey struct{}

// Named is implemented by values of a context that know the id of their request, by which the log
// entries of one request are found.
type Named interface{ RequestID() string }

// RequestID returns the id of the request that ctx belongs to, empty when it has none.
func RequestID(ctx context.Context) string {
	if named, ok := ctx.Value(IDKey{}).(Named); ok {
		return named.RequestID()
	}
	return ""
}

// NewRequestID returns a random id of 12 characters. Two requests of a day may have the same id in
// a very large fleet, which only affects the reading of logs.
func NewRequestID() string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], rand.Uint64())
	var text [12]byte
	hex.Encode(text[:], raw[:6])
	return string(text[:])
}

type taskRunKey struct{}

// WithTaskRun returns a context for requests that a server makes to itself to run a task.
func WithTaskRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, taskRunKey{}, true)
}

// IsTaskRun reports whether ctx is that of a run of a task.
func IsTaskRun(ctx context.Context) bool { return ctx.Value(taskRunKey{}) != nil }

// TaskDigest returns what a store knows a task by. The id is random, so its digest tells nothing.
func TaskDigest(id string) [32]byte { return sha256.Sum256([]byte("rondo task id 1\x00" + id)) }

// LogTarget returns the target of a request as logs may show it. The id of a task of an anonymous
// caller gives access to the task, so the first digits of its digest replace it.
func LogTarget(method, target string) string {
	if !strings.HasPrefix(method, "tasks/") || target == "" {
		return target
	}
	digest := TaskDigest(target)
	return hex.EncodeToString(digest[:4])
}

// An Answer is the result with which a client answered a question. Events have a pointer to it.
// Outside this module nobody can name the type, and a pointer is printed as an address, so that it
// does not get into logs.
type Answer json.RawMessage

type errorSinkKey struct{}

// WithErrorSink returns a context whose requests report their internal errors to report, which may
// be called concurrently. It is for tests that run the server in their own process: a client only
// gets "internal error", and an observer has to be configured where the server is made.
func WithErrorSink(ctx context.Context, report func(error)) context.Context {
	return context.WithValue(ctx, errorSinkKey{}, report)
}

// ReportError passes err to the function of [WithErrorSink], if ctx has one.
func ReportError(ctx context.Context, err error) {
	if report, ok := ctx.Value(errorSinkKey{}).(func(error)); ok {
		report(err)
	}
}
