package natstest

import (
	"os"
	"testing"
	"time"
)

// Patience is how long anything may take that a test waits for. It is spent
// only when something is wrong.
const Patience = 30 * time.Second

// Eventually polls for what has no event to wait for, such as the inside of a
// server, and fails the test when it is not so within [Patience].
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

// SoakTime is how long a soak test makes trouble: the duration in the
// environment variable RONDO_SOAK, or a minute. More than eight minutes fail
// the test, because with what comes before and after they would not fit into
// the ten that go test allows.
func SoakTime(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("RONDO_SOAK")
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > 8*time.Minute {
		t.Fatalf("RONDO_SOAK is %q, want a duration of at most 8m: %v", text, err)
	}
	return d
}
