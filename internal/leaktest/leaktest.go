// Package leaktest fails a test, or a whole test binary, that leaves goroutines behind, and a test
// binary that hangs.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// grace is how long goroutines that are already on their way out may take to finish. Generous,
// because it is only spent when something does linger, and a loaded machine must not fail a correct
// test.
const grace = 5 * time.Second

// Main runs a package's tests. It fails the binary when goroutines are left over, and when the
// tests hang: at once, with the names of those that wait. It does not return.
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
func Main(m *testing.M) { run(m, hangLimit) }

func run(m *testing.M, limit time.Duration) {
	unwatch := watchForHang(limit)
	code := m.Run()
	unwatch()
	if code == 0 {
		if left := wait(nil, grace); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "leaktest: %d goroutines left over after all tests:\n\n%s\n",
				len(left), join(left))
			code = 1
		}
	}
	os.Exit(code)
}

// Check fails t at its end when it leaves goroutines that were not there when Check was called.
// Call it first, so that its cleanup runs after all others. It cannot tell the goroutines of
// parallel tests apart: use [Main] there.
func Check(t testing.TB) {
	t.Helper()
	check(t, grace)
}

func check(t testing.TB, limit time.Duration) {
	t.Helper()
	before := make(map[string]bool)
	for _, g := range running() {
		before[g.id] = true
	}
	t.Cleanup(func() {
		if left := wait(before, limit); len(left) > 0 {
			t.Errorf("leaktest: %d goroutines left over:\n\n%s", len(left), join(left))
		}
	})
}

// wait polls until no goroutine outside known is left or the time is up, and returns those that
// stayed. There is no event to wait for when a goroutine ends, hence the polling.
func wait(known map[string]bool, limit time.Duration) []goroutine {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		var left []goroutine
		for _, g := range running() {
			if !known[g.id] {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-time.After(pause)
	}
}

type goroutine struct {
	id    string // as the runtime prints it, "goroutine 42"
	stack string
}

// running lists the goroutines other than the caller's own and those of the test framework and the
// runtime.
func running() []goroutine {
	var all []goroutine
	for i, stack := range strings.Split(strings.TrimSpace(string(stacks())), "\n\n") {
		if i == 0 || ours(stack) { // the caller's own comes first
			continue
		}
		id, _, _ := strings.Cut(stack, " [")
		all = append(all, goroutine{id: id, stack: stack})
	}
	return all
}

// stacks is the text of every goroutine's stack, however long it is.
func stacks() []byte {
	for buf := make([]byte, 64<<10); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return buf[:n]
		}
	}
}

// ours tells the goroutines that belong to the test framework or the runtime and outlive a test by
// design.
func ours(stack string) bool {
	for _, frame := range []string{
		"testing.(*T).Run(",
		"testing.(*M).",
		"testing.(*F).",
		"testing.runFuzzing",
		"testing.runTests",
		"testing.tRunner(", // a test that runs beside this one
		"created by os/signal.Notify",
		"os/signal.signal_recv",
		"created by runtime.",
		"created by runtime/trace.Start",
		"runtime/pprof.profileWriter",
		"created by testing/synctest",
		"leaktest.watchForHang.", // of this package, until all tests have ended
	} {
		if strings.Contains(stack, frame) {
			return true
		}
	}
	return false
}

func join(left []goroutine) string {
	var b strings.Builder
	for _, g := range left {
		b.WriteString(g.stack)
		b.WriteString("\n\n")
	}
	return b.String()
}
