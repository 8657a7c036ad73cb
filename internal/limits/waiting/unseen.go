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
// time, 0: [DefaultMinHumanTime], or none for a request of [WithoutWire], negative: none. A
// negative waited, as of unequal or changed clocks, is not too soon.
func IsTooSoon(ctx context.Context, min, waited time.Duration) bool {
	if min == 0 && ctx.Value(noWireKey{}) == nil {
		min = DefaultMinHumanTime
	}
	return 0 <= waited && waited < min
}
