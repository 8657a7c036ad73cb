package waiting

import (
	"context"
	"time"
)

// DefaultMinHumanTime is too short for a person to read a question and refuse it: people need that
// long to press a button that they expect. Clients that refuse without showing the question need a
// few milliseconds, and the network some tens.
const DefaultMinHumanTime = 400 * time.Millisecond

type noWireKey struct{}

// WithoutWire marks requests of the same process, and of a test that runs the server in its own.
// The programs that answer there are the author's.
func WithoutWire(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWireKey{}, true)
}

// IsTooSoon reports whether a refusal after the time waited cannot be a person's. min is the least
// time, 0: [DefaultMinHumanTime], or none for a request of [WithoutWire], negative: none.
//
// Question and answer may be timed by two clocks, or by one that was set meanwhile. If waited is
// negative the client is believed: only the words of the refusal differ.
func IsTooSoon(ctx context.Context, min, waited time.Duration) bool {
	if min == 0 && ctx.Value(noWireKey{}) == nil {
		min = DefaultMinHumanTime
	}
	return 0 <= waited && waited < min
}
