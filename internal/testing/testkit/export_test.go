package testkit

import (
	"testing"
	"time"
)

// CheckWithin runs check with a short grace period.
func CheckWithin(t testing.TB, limit time.Duration) { check(t, limit) }

// MainWithin is Main with a short limit.
func MainWithin(m *testing.M, limit time.Duration) { run(m, limit) }

// WaitUntilIdle exports waitUntilIdle.
func WaitUntilIdle(limit time.Duration, used func() time.Duration, stop <-chan struct{}) bool {
	return waitUntilIdle(limit, used, stop)
}
