package quota

import (
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// defaultPart is how many accounts have to come together to use up a total, where a share is not
// set: one of so many parts.
const defaultPart = 4

// ShareOf returns the share of a total that one account has by default: a quarter, and one unit at
// least. Fewer than four accounts together lock nobody out, and an account that stands for many
// people still has a good part. A negative total has no share.
func ShareOf(total int64) int64 {
	if total <= 0 {
		return total
	}
	return max(1, total/defaultPart)
}

// Refuse returns the refusal of a request for want of room. Its data tells the client when to come
// back, and which bound was passed unless that is [None].
func Refuse(limit Limit, retryAfter time.Duration, format string, args ...any) *protocol.Error {
	return protocol.Errorf(protocol.CodeBusy, format, args...).WithData(struct {
		RetryAfterMs int64  `json:"retryAfterMs"`
		Limit        string `json:"limit,omitempty"`
	}{max(1, retryAfter.Milliseconds()), string(limit)})
}
