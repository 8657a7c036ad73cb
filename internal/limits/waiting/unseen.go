package waiting

import (
	"context"
	"time"
)

// DefaultMinHumanTime is too short to read and refuse a question: pressing an expected button takes
// a person that long. Clients that refuse without showing take milliseconds, the network some tens.
const DefaultMinHumanTime = 400 * time.Millisecond

type noWireKey struct{}

// WithoutWire marks requests within one process, as in tests, where programs answer.
func WithoutWire(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWireKey{}, true)
}

// IsTooSoon reports whether a refusal after the time waited cannot be a person's. min is the least
// time; 0 means [DefaultMinHumanTime], or no least time for a request of [WithoutWire], and a
// negative min none. A negative waited, as with unequal or changed clocks, is not too soon.
func IsTooSoon(ctx context.Context, min, waited time.Duration) bool {
	if min == 0 && ctx.Value(noWireKey{}) == nil {
		min = DefaultMinHumanTime
	}
	return 0 <= waited && waited < min
}
