package waiting

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Push is who wants to know of the questions that are pushed in a context. Calls may overlap.
type Push struct {
	// Written is told when the transport has taken the question with the key.
	Written func(key string)
	// Extended is told when the client reports progress on a question. Where it is set, questions
	// have no limit of time but the context.
	Extended func()
}

type pushKey struct{}

// WithPush returns a context in which questions are reported to p.
func WithPush(ctx context.Context, p *Push) context.Context {
	return context.WithValue(ctx, pushKey{}, p)
}

// PushOf returns who wants to know of the questions of ctx, nil if nobody does.
func PushOf(ctx context.Context) *Push {
	p, _ := ctx.Value(pushKey{}).(*Push)
	return p
}

// A ClientError is the cause with which a call ends because its client has answered a question with
// an error.
type ClientError struct {
	Said *protocol.Error
	Err  error // what the call has ended with
}

func (e *ClientError) Error() string { return e.Err.Error() }
func (e *ClientError) Unwrap() error { return e.Err }
