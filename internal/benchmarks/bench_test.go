package benchmarks_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
)

// allOps are the operations that are compared, and those that only we are measured by.
func allOps() []measure.Op { return slices.Concat(measure.Ops(), clientOps(), routerOps()) }

// Benchmark repeats each operation, for profiles and for tools that compare two
// versions; cmd/bench compares peers. A name is group/row/peer:
//
//	go test -run '^$' -bench 'Benchmark/handler/leg_2/rondo' -cpuprofile cpu.out .
func Benchmark(b *testing.B) {
	for _, op := range allOps() {
		b.Run(strings.Join([]string{op.Group, op.Row, op.Peer}, "/"), func(b *testing.B) {
			do, stop, err := op.Start()
			if err != nil {
				b.Fatal(err)
			}
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestOps holds that every operation can be repeated for every peer.
func TestOps(t *testing.T) {
	for _, op := range allOps() {
		t.Run(strings.Join([]string{op.Group, op.Row, op.Peer}, "/"), func(t *testing.T) {
			do, stop, err := op.Start()
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			for range 3 {
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestMemory measures once what is not an operation.
func TestMemory(t *testing.T) {
	for _, c := range measure.CachedTokens() {
		t.Run(strings.Join([]string{c.Group, c.Row, c.Peer}, "/"), func(t *testing.T) {
			if _, err := c.Run(0); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestWaitingTakesNoMemory holds that a server keeps nothing for a person who
// thinks. The runtime may grow meanwhile, but not every time.
func TestWaitingTakesNoMemory(t *testing.T) {
	const noise, attempts = 16, 5
	leg1 := slices.IndexFunc(measure.Handler(), func(op measure.Op) bool {
		return op.Row == measure.Leg1Row && op.Peer == measure.Rondo
	})
	least := math.Inf(1)
	for range attempts {
		ask, stop, err := measure.Handler()[leg1].Start()
		if err != nil {
			t.Fatal(err)
		}
		sample, err := measure.Kept(1000, ask)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, sample[measure.Memory])
	}
	if least > noise {
		t.Errorf("a flow that waits takes %.0f bytes at least, want none", least)
	}
}
