package quota

// This file reads the limits of options.

import "math"

// Unlimited is the limit that is never reached. Sums of two limits do not overflow.
const Unlimited = math.MaxInt / 2

// LimitOr returns the effective value of a limit: byDefault for 0, Unlimited for negative ones.
func LimitOr(limit, byDefault int) int {
	switch {
	case limit == 0:
		return byDefault
	case limit < 0:
		return Unlimited
	}
	return limit
}
