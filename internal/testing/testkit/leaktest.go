// Package testkit checks tests of many packages: leaked goroutines and hangs, the cost of reading
// foreign bytes, printed secrets, and lists in comments.
package testkit

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// grace is how long goroutines may take to end, so that correct tests pass on loaded machines.
const grace = 5 * time.Second

// Main runs a package's tests. If goroutines leak, the binary fails. If a test hangs, the binary
// fails at once, with the waiting stacks. Main does not return.
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

// CheckLeaks makes t fail if goroutines started since the call remain at its end. Call it first, so
// that its cleanup runs last. It cannot distinguish goroutines of parallel tests: use [Main] there.
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

// findLeftOver waits until only ignored goroutines are left, or until limit has passed.
func findLeftOver(limit time.Duration, ignored ...goleak.Option) error {
	for deadline := time.Now().Add(limit); ; {
		if err := goleak.Find(ignored...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
