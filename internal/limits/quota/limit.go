package quota

import "math"

// Unlimited is a limit that is never reached. The sum of two of them does not overflow.
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
