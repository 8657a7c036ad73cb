// Package benchmarks_test compares servers and clients written with this library with others, and
// enforces the allocation budget of the hot paths. The README explains how to run it, and its rows.
package benchmarks_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// allOps returns the operations by which peers are compared, and those that only this library has.
func allOps() []op {
	return slices.Concat(handlerOps(), legacyOps(), authorityOps(), clientOps(), routerOps())
}

// name spells the operation in the way that benchstat reads.
func (o op) name() string {
	name := "group=" + o.group + "/row=" + o.row + "/peer=" + o.peer
	return strings.ReplaceAll(strings.ReplaceAll(name, ", ", "_"), " ", "_")
}

// Benchmark repeats each operation. The README explains how to compare the peers.
func Benchmark(b *testing.B) {
	for _, o := range allOps() {
		b.Run(o.name(), func(b *testing.B) {
			do, stop, err := o.start()
			testkit.NoError(b, err)
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				testkit.NoError(b, do())
			}
		})
	}
}

// TestOps checks that every operation can be repeated for every peer.
func TestOps(t *testing.T) {
	for _, o := range allOps() {
		t.Run(o.name(), func(t *testing.T) {
			do, stop, err := o.start()
			testkit.NoError(t, err)
			defer stop()
			for range 3 {
				testkit.NoError(t, do())
			}
		})
	}
}

// While a user thinks, a server keeps no memory, apart from runtime noise.
func TestWaitingTakesNoMemory(t *testing.T) {
	const noise, attempts = 16, 5
	asks := slices.IndexFunc(handlerOps(), func(o op) bool {
		return o.row == leg1Row && o.peer == ours
	})
	least := math.Inf(1)
	for range attempts {
		ask, stop, err := handlerOps()[asks].start()
		testkit.NoError(t, err)
		least = min(least, measureKept(t, 1000, ask))
		stop()
	}
	if least > noise {
		t.Errorf("a flow that waits takes %.0f bytes at least, want none", least)
	}
}

// measureKept returns the memory, in objects and stacks, that each of n more calls of do() keeps.
func measureKept(t *testing.T, n int, do func() error) float64 {
	t.Helper()
	before := int64(0)
	for i := range 10 + n { // the first ten are for one-time allocations
		if i == 10 {
			before = inUse()
		}
		testkit.NoError(t, do())
	}
	return max(0, float64(inUse()-before)/float64(n))
}

func inUse() int64 {
	runtime.GC()
	runtime.GC() // twice, because pools survive the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
