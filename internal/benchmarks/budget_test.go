//go:build !race

package benchmarks_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

var update = flag.Bool("update", false, "write what is measured to "+budgetFile)

const budgetFile = "budget.txt"

const budgetHead = `# Allocations of one operation, those of the driver included (5 for each request of a handler).
# More than that fails TestAllocationBudget. After a change that needs fewer, or is worth more:
#
#	go test -run TestAllocationBudget -update .
#
`

// TestAllocationBudget checks this library's work for every call: no flows, because of their legs,
// and no verification, which is the standard library's. It does not depend on load. The race detector empties pools and skips it.
func TestAllocationBudget(t *testing.T) {
	var measured strings.Builder
	budget := readBudget(t)
	for _, o := range allOps() {
		if o.peer != ours || o.row == flowRow || o.group == "authority" && o.row != cachedEchoRow {
			continue
		}
		name := o.group + ", " + o.row
		got := allocations(t, o)
		fmt.Fprintf(&measured, "%s: %d\n", name, got)
		want, ok := budget[name]
		delete(budget, name)
		switch {
		case *update:
		case !ok:
			t.Errorf("%s: %d allocations, and no budget in %s", name, got, budgetFile)
		case got > want:
			t.Errorf("%s: got %d allocations with %s, the budget is %d", name, got,
				runtime.Version(), want)
		case got < want:
			t.Logf("%s: got %d allocations, the budget is %d: lower it with -update", name, got,
				want)
		}
	}
	for name := range budget {
		if !*update {
			t.Errorf("%s has a budget, but is not measured", name)
		}
	}
	if *update {
		if err := os.WriteFile(budgetFile, []byte(budgetHead+measured.String()),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The function allocations returns the exact count for one operation. Garbage collection, which
// would empty pools, is off, and the average omits rare events such as growing a map.
func allocations(t *testing.T, o op) int {
	t.Helper()
	do, stop, err := o.start()
	testkit.NoError(t, err)
	defer stop()
	run := func() {
		testkit.NoError(t, do())
	}
	for range 100 { // to fill pools
		run()
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return int(testing.AllocsPerRun(2000, run))
}

func readBudget(t *testing.T) map[string]int {
	t.Helper()
	budget := map[string]int{}
	f, err := os.Open(budgetFile)
	if err != nil {
		if *update {
			return budget
		}
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, number, _ := strings.Cut(line, ": ")
		count, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%s: %q: want a name and a number", budgetFile, line)
		}
		budget[name] = count
	}
	testkit.NoError(t, lines.Err())
	return budget
}
