package leaktest

import (
	"testing"
	"time"
)

// Left is how many goroutines linger for limit.
func Left(limit time.Duration) int { return len(wait(nil, limit)) }

// CheckWithin is Check with a grace period short enough to be waited out in a test.
func CheckWithin(t testing.TB, limit time.Duration) { check(t, limit) }
