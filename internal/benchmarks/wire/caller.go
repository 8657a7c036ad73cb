package wire

import "context"

// A Caller is a client under comparison, connected.
type Caller interface {
	// Call calls a tool, accepting every form on the way, and returns the text
	// of the result.
	Call(ctx context.Context, tool string, args map[string]any) (string, error)
	Close() error
}
