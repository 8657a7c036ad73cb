// Package testkit checks tests of many packages: leaked goroutines and hangs, the cost of readers
// of foreign bytes, printed secrets, and lists in comments.
package testkit

// This file fails tests that leave goroutines behind, and test binaries that hang.

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// grace is how long goroutines on their way out may take. It is spent only when one lingers, and a
// loaded machine must not fail a correct test.
const grace = 5 * time.Second

// Main runs a package's tests. It fails the binary when goroutines are left over, and when the
// tests hang: at once, with the stacks of those that wait. It does not return.
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
func Main(m *testing.M) { run(m, hangLimit) }

func run(m *testing.M, limit time.Duration) {
	unwatch := watchForHang(limit)
	code := m.Run()
	unwatch()
	if code == 0 {
		if err := findLeftOver(grace); err != nil {
			fmt.Fprintf(os.Stderr, "testkit: goroutines are left over after all tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// CheckLeaks fails t at its end when it leaves goroutines that were not there when Check was
// called. Call it first, so that its cleanup runs after all others. It cannot tell the goroutines
// of parallel tests apart: use [Main] there.
func CheckLeaks(t testing.TB) {
	t.Helper()
	check(t, grace)
}

func check(t testing.TB, limit time.Duration) {
	t.Helper()
	before, others := goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("testing.tRunner")
	t.Cleanup(func() {
		if err := findLeftOver(limit, before, others); err != nil {
			t.Errorf("testkit: goroutines are left over: %v", err)
		}
	})
}

// findLeftOver looks until there are no goroutines beside those that are ignored, or the time is
// up. One look of goleak takes half a second.
func findLeftOver(limit time.Duration, ignored ...goleak.Option) error {
	for deadline := time.Now().Add(limit); ; {
		if err := goleak.Find(ignored...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
