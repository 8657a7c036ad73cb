package quota

import (
	"math"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

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

const defaultPart = 4

// ShareOf returns one account's default share of a total: a quarter, at least one unit. So fewer
// than four accounts lock nobody out, and an account for many people still has room. A negative
// total means no limit, and is returned.
func ShareOf(total int64) int64 {
	if total <= 0 {
		return total
	}
	return max(1, total/defaultPart)
}

// Refuse returns the error for a reached limit. Its data have retryAfterMs and limit (except None).
func Refuse(limit Limit, retryAfter time.Duration, format string, args ...any) *protocol.Error {
	return protocol.Errorf(protocol.CodeBusy, format, args...).WithData(struct {
		RetryAfterMs int64  `json:"retryAfterMs"`
		Limit        string `json:"limit,omitempty"`
	}{max(1, retryAfter.Milliseconds()), string(limit)})
}
