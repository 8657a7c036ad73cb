package sse

import (
	"strconv"
	"time"
)

// AppendRetry appends a retry field, in milliseconds, without an event: it
// tells the client how long to wait before it comes back. Fractions of a
// millisecond are dropped.
func AppendRetry(dst []byte, d time.Duration) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, max(d, 0).Milliseconds(), 10)
	return append(dst, '\n')
}
