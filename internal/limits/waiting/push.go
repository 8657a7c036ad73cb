package waiting

import (
	"context"
	"encoding/json"
	"errors"
	"time"

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

// A Page is what funnel and host tell each other about a call whose questions go by the page.
type Page struct {
	Returns bool // the host can return a question of a session that is not to be pushed
	Acted   bool // the host has passed on the call, or answers
	// Kept is until when the next call can go on; zero if the call has not ended with links. If it
	// has, State is the state that the host attached to its last questions.
	Kept  time.Time
	State json.RawMessage
	// IsOver reports whether a state's call has ended and needs no answers. It may be nil.
	IsOver func(state json.RawMessage) bool
}

// UnknownEffect tells a model what to do before it repeats a call on which the host has acted.
const UnknownEffect = "What the tool did is not known: check before calling it again"

// ErrReturn asks a host that can to return a question.
var ErrReturn = errors.New("the question is not to be pushed: return it")

type pageKey struct{}

// WithPage returns a context for a call, whose p the funnel changes.
func WithPage(ctx context.Context, p *Page) context.Context {
	return context.WithValue(ctx, pageKey{}, p)
}

// PageOf returns the Page of ctx, or one for nobody.
func PageOf(ctx context.Context) *Page {
	if p, ok := ctx.Value(pageKey{}).(*Page); ok {
		return p
	}
	return &Page{}
}

// A ClientError is the cause of a call's end if its client answered a question with an error.
type ClientError struct {
	Said *protocol.Error
	Err  error // the call's error
}

func (e *ClientError) Error() string { return e.Err.Error() }
func (e *ClientError) Unwrap() error { return e.Err }
