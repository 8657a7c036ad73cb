package quota

import "math"

// Unlimited is never reached. Sums of two limits do not overflow.
const Unlimited = math.MaxInt / 2

// LimitOr returns the effective limit: byDefault for 0, Unlimited for negative values.
func LimitOr(limit, byDefault int) int {
	switch {
	case limit == 0:
		return byDefault
	case limit < 0:
		return Unlimited
	}
	return limit
}
