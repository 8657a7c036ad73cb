// Package limit reads the limits of options.
package limit

import "math"

// None is the limit that is never reached. Sums of two limits do not overflow.
const None = math.MaxInt / 2

// Or returns the effective value of a limit: byDefault for 0, None for negative ones.
func Or(limit, byDefault int) int {
	switch {
	case limit == 0:
		return byDefault
	case limit < 0:
		return None
	}
	return limit
}
