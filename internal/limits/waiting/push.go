package waiting

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Push observes the questions pushed in a context. Calls may overlap.
type Push struct {
	// Written is called when the transport has accepted the question with the key.
	Written func(key string)
	// Extended is called on progress. If set, only the context limits the time of questions.
	Extended func()
}

type pushKey struct{}

// WithPush returns a context in which questions are reported to p.
func WithPush(ctx context.Context, p *Push) context.Context {
	return context.WithValue(ctx, pushKey{}, p)
}

// PushOf returns the Push of ctx, or nil.
func PushOf(ctx context.Context) *Push {
	p, _ := ctx.Value(pushKey{}).(*Push)
	return p
}

// A ClientError is the cause of a call's end if its client answered a question with an error.
type ClientError struct {
	Said *protocol.Error
	Err  error // the call's error
}

func (e *ClientError) Error() string { return e.Err.Error() }
func (e *ClientError) Unwrap() error { return e.Err }
