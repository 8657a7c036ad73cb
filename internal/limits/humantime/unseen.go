package humantime

import (
	"context"
	"time"
)

// DefaultMin is the time in which nobody reads a question and refuses it: people need that long to
// press a button that they expect. Clients that refuse without showing the question need a few
// milliseconds, and the network some tens.
const DefaultMin = 400 * time.Millisecond

type noWireKey struct{}

// WithoutWire marks requests that come over no wire: from the same process, or from a test that
// runs the server in its own. The programs that answer there are the author's.
func WithoutWire(ctx context.Context) context.Context {
	return context.WithValue(ctx, noWireKey{}, true)
}

// IsTooSoon reports whether a refusal after the time waited cannot be a person's. The least time is
// min; 0 is DefaultMin, or none for a request of [WithoutWire], and a negative one is none.
//
// The clock of the question and that of the answer may be two, or one that was set meanwhile. A
// negative time tells nothing, so the client is believed: the refusal stays one in any case, and
// only its words differ.
func IsTooSoon(ctx context.Context, min, waited time.Duration) bool {
	if min == 0 && ctx.Value(noWireKey{}) == nil {
		min = DefaultMin
	}
	return 0 <= waited && waited < min
}
