package testkit

import (
	"testing"
	"time"
)

// CheckWithin is Check with a grace period short enough to be waited out in a test.
func CheckWithin(t testing.TB, limit time.Duration) { check(t, limit) }

// MainWithin is Main with a limit short enough to be waited out in a test.
func MainWithin(m *testing.M, limit time.Duration) { run(m, limit) }

// WaitUntilIdle is what the watch for hangs waits for.
func WaitUntilIdle(limit time.Duration, used func() time.Duration, stop <-chan struct{}) bool {
	return waitUntilIdle(limit, used, stop)
}
