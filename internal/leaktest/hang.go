package leaktest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/cputime"
)

const (
	// hangLimit is for how long a test binary may do nothing. Nobody has to give a limit to each
	// wait of each test: one that will never end leaves the process idle, and so does one for a
	// timeout of minutes. Waits in fake time take none. A child process that is waited for may
	// take some seconds to start on a busy machine.
	hangLimit = 30 * time.Second
	// hangTicks is how often, within half of the limit, the process is looked at.
	hangTicks = 10
	// idleShare is the part of one CPU that an idle process may use: timers and what looks at it.
	// On a machine so busy that a process gets no more, the looks come late as well, and what comes
	// late does not count.
	idleShare = 0.005
)

// watchForHang ends the process with exit code 1 when it has been idle for limit, and a test was in
// the same wait in the middle of it and at the end. It returns a function that ends the watch.
// Under -fuzz, where the process that counts is another, and with -timeout 0, as somebody with a
// debugger sets it, there is no watch.
func watchForHang(limit time.Duration) (unwatch func()) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if valueOf("test.fuzz") != "" || valueOf("test.fuzzworker") == "true" ||
		valueOf("test.timeout") == "0s" {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for waitUntilIdle(limit/2, cputime.Process, stop) {
			before := waitingTests(string(stacks()))
			if !waitUntilIdle(limit/2, cputime.Process, stop) {
				return
			}
			all := string(stacks())
			waits := waitingTests(all)
			// What was not there before has begun since.
			maps.DeleteFunc(waits, func(wait, _ string) bool { return before[wait] == "" })
			if len(waits) > 0 {
				fmt.Fprintf(os.Stderr, "%s\n\n", all)
				fmt.Fprintf(os.Stderr, "--- FAIL: leaktest: nothing has run for %v, and these "+
					"tests wait (all goroutines are above):\n%s\nFAIL\n",
					limit, strings.Join(slices.Sorted(maps.Values(waits)), "\n"))
				os.Exit(1)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// valueOf returns the value of a flag, "" when there is none.
func valueOf(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// waitUntilIdle returns true when used, the CPU time of the process so far, has hardly grown for
// limit, and false when stop is closed. It allocates nothing but its ticker: what is measured
// beside it stays as it is.
func waitUntilIdle(limit time.Duration, used func() time.Duration, stop <-chan struct{}) bool {
	tick := limit / hangTicks
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
		// The process was stopped, or starved of CPU time: it may have had work to do.
		late := now.Sub(last) > 2*tick
		if last = now; busy || late {
			since, before = now, use
		}
		if now.Sub(since) >= limit {
			return true
		}
	}
}

// waitingTests returns a line for each test or example that waits in one of all stacks, under what
// is the same as long as the wait is. It returns nothing when one of them waits for a program to
// end: the work is done there.
func waitingTests(all string) map[string]string {
	lines := map[string]string{}
	for stack := range strings.SplitSeq(strings.TrimSpace(all), "\n\n") {
		isTest := contains(stack, "testing.tRunner(", "testing.runExample(")
		waitsForTests := contains(stack,
			"testing.(*T).Run(", "testing.(*T).Parallel(", "testing.testingSynctestTest(")
		if !isTest || waitsForTests {
			continue // others wait for those that are listed
		}
		if contains(stack, "os/exec.(*Cmd).Wait(", "os.(*Process).Wait(") {
			return nil
		}
		goroutine, rest, _ := strings.Cut(stack, " [")
		// Without the state, which has the minutes of the wait.
		_, frames, _ := strings.Cut(rest, "\n")
		lines[goroutine+"\n"+frames] = describe(stack)
	}
	return lines
}

func contains(stack string, frames ...string) bool {
	for _, frame := range frames {
		if strings.Contains(stack, frame) {
			return true
		}
	}
	return false
}

// describe says what the goroutine of a test waits for, and where: the outermost place in a test
// file and the innermost. A cleanup may have none.
func describe(stack string) string {
	header, frames, _ := strings.Cut(stack, "\n")
	_, state, _ := strings.Cut(header, "[")
	state, _, _ = strings.Cut(state, "]")
	list := strings.Split(frames, "\n") // a function and its place, in turns
	var inTests, others []string
	for i := 0; i+1 < len(list) && !strings.HasPrefix(list[i], "created by "); i += 2 {
		place, _, _ := strings.Cut(strings.TrimSpace(list[i+1]), " ")
		call := fmt.Sprintf("%s (%s)", functionIn(list[i]), filepath.Base(place))
		file, _, _ := strings.Cut(filepath.Base(place), ":")
		if strings.HasSuffix(file, "_test.go") {
			inTests = append(inTests, call)
		} else if !contains(list[i], "runtime.", "sync.", "testing.") {
			others = append(others, call)
		}
	}
	switch len(inTests) {
	case 0:
		return fmt.Sprintf("\ta cleanup: %s in %s", state, strings.Join(others, ", "))
	case 1:
		return fmt.Sprintf("\t%s: %s", inTests[0], state)
	}
	return fmt.Sprintf("\t%s: %s in %s", inTests[len(inTests)-1], state, inTests[0])
}

// functionIn returns the name of a function in a line of a stack, without the path of its package
// and its arguments.
func functionIn(line string) string {
	if args := strings.LastIndexByte(line, '('); args > 0 {
		line = line[:args]
	}
	return line[strings.LastIndexByte(line, '/')+1:]
}
