package testkit

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

const (
	// hangLimit bounds a test binary's idle time. Waits in fake time do not count.
	hangLimit = 30 * time.Second
	idleShare = 0.005 // share of the CPU that an idle process uses, for timers
)

// watchForHang ends the process with exit code 1 if it was idle for limit, and a test was in the
// same wait in the middle and at the end. It is off under -fuzz, where other processes work, and
// with -timeout 0, which debuggers use.
func watchForHang(limit time.Duration) (unwatch func()) {
	flag.Parse()
	value := func(name string) string { return flag.Lookup("test." + name).Value.String() }
	if value("fuzz") != "" || value("fuzzworker") == "true" || value("timeout") == "0s" {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for waitUntilIdle(limit/2, processTime, stop) {
			before := waitingTests()
			if !waitUntilIdle(limit/2, processTime, stop) {
				return
			}
			waits := waitingTests()
			maps.DeleteFunc(waits, func(wait, _ string) bool { return before[wait] == "" })
			if len(waits) > 0 {
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
				fmt.Fprintf(os.Stderr, "--- FAIL: testkit: nothing has run for %v, and these "+
					"tests wait (all goroutines are above):\n\n%s\nFAIL\n",
					limit, strings.Join(slices.Sorted(maps.Values(waits)), "\n\n"))
				os.Exit(1)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// waitUntilIdle returns true when used(), the process's CPU time, has hardly grown for limit, and
// false when stop is closed. Only its ticker allocates, because tests count allocations.
func waitUntilIdle(limit time.Duration, used func() time.Duration, stop <-chan struct{}) bool {
	tick := limit / 10
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	since, before := last, used()
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return false
		}
		now, use := time.Now(), used()
		busy := use-before > time.Duration(idleShare*float64(limit))
		late := now.Sub(last) > 2*tick // the process was stopped, or got no CPU time
		if last = now; busy || late {
			since, before = now, use
		}
		if now.Sub(since) >= limit {
			return true
		}
	}
}

// waitingTests returns the stacks of waiting tests and examples. A key stays the same as long as
// the wait. If a test waits for a program, which does the work, it returns no stacks.
func waitingTests() map[string]string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	waits := map[string]string{}
	for stack := range strings.SplitSeq(strings.TrimSpace(all.String()), "\n\n") {
		has := func(frame string) bool { return strings.Contains(stack, frame) }
		goroutine, rest, _ := strings.Cut(stack, " [")
		_, frames, _ := strings.Cut(rest, "\n") // without the state, which contains the minutes
		switch {
		case !has("testing.tRunner(") && !has("testing.runExample("):
		case has("testing.(*T).Run("), has("testing.(*T).Parallel("),
			has("testing.testingSynctestTest("): // waits for a bubble or other tests
		case has("os/exec.(*Cmd).Wait("), has("os.(*Process).Wait("):
			return nil
		default:
			waits[goroutine+"\n"+frames] = stack
		}
	}
	return waits
}
