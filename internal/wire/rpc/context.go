package rpc

// This file has context values of a call.

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// IDKey is the context key of a [Named] value.
type IDKey struct{}

// Named is a context value that knows the id of its request, which correlates log entries.
type Named interface{ RequestID() string }

// RequestID returns the id of the request of ctx; may be empty.
func RequestID(ctx context.Context) string {
	if named, ok := ctx.Value(IDKey{}).(Named); ok {
		return named.RequestID()
	}
	return ""
}

// NewRequestID returns 12 random characters. A rare collision only affects the reading of logs.
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

// IsTaskRun reports whether ctx belongs to the run of a task.
func IsTaskRun(ctx context.Context) bool { return ctx.Value(taskRunKey{}) != nil }

// TaskDigest returns a task's key in stores. The id is random, so the digest does not reveal it.
func TaskDigest(id string) [32]byte { return sha256.Sum256([]byte("rondo task id 1\x00" + id)) }

// LogTarget returns the target of a request for logs. A task id gives access to the task of an
// anonymous caller, so it is replaced by the first digits of its digest.
func LogTarget(method, target string) string {
	if !strings.HasPrefix(method, "tasks/") || target == "" {
		return target
	}
	digest := TaskDigest(target)
	return hex.EncodeToString(digest[:4])
}

// An Answer is a client's answer to a question. Events have a pointer to it: the type cannot be
// named outside this module, and a pointer is logged as an address, without the answer.
type Answer json.RawMessage

type errorSinkKey struct{}

// WithErrorSink returns a context whose requests pass internal errors to report, which may be
// called concurrently. It is for tests in the server's process: clients get only "internal error".
func WithErrorSink(ctx context.Context, report func(error)) context.Context {
	return context.WithValue(ctx, errorSinkKey{}, report)
}

// ReportError passes err to the function of [WithErrorSink], if ctx has one.
func ReportError(ctx context.Context, err error) {
	if report, ok := ctx.Value(errorSinkKey{}).(func(error)); ok {
		report(err)
	}
}
