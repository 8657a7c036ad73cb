// Package measure holds what is measured, on which servers, and runs it round by round, so that all
// peers have the same share of a busy machine's good and bad moments. It prints a table.
package measure

import (
	"fmt"
	"runtime"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/cputime"
)

// A Metric is what is measured of a case.
type Metric string

// The metrics. Durations are in nanoseconds, memory in bytes.
const (
	CPU    Metric = "CPU"     // of the process, for one operation
	Allocs Metric = "allocs"  // of one operation
	Bytes  Metric = "bytes"   // allocated by one operation
	Rate   Metric = "flows/s" // over all connections; the one metric of which more is better
	P50    Metric = "p50"
	P99    Metric = "p99"
	Memory Metric = "memory" // kept for each of many things
)

// noisy tells metrics that differ from run to run from those that are counted.
func (m Metric) noisy() bool { return m != Allocs && m != Bytes }

// A Sample is what one run of a case found.
type Sample map[Metric]float64

// A Case is something that is measured of one peer. Rows of several peers are
// compared.
type Case struct {
	Group, Row, Peer string
	Run              func(d time.Duration) (Sample, error) // takes about d
}

// An Op is something that can be repeated.
type Op struct {
	Group, Row, Peer string
	// Start prepares; do may be called any number of times until stop, one
	// call after another. An answer that is not as it should be is an error.
	Start func() (do func() error, stop func(), err error)
}

// Case measures the operation with one processor.
func (o Op) Case() Case {
	return Case{o.Group, o.Row, o.Peer, func(d time.Duration) (Sample, error) {
		do, stop, err := o.Start()
		if err != nil {
			return nil, err
		}
		defer stop()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return loop(do, d)
	}}
}

// loop repeats do for about d, after a fifth of that for pools and caches to
// fill.
func loop(do func() error, d time.Duration) (Sample, error) {
	if _, err := repeat(do, d/5); err != nil {
		return nil, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cputime.Process()
	n, err := repeat(do, d)
	if err != nil {
		return nil, err
	}
	cpu = cputime.Process() - cpu
	runtime.ReadMemStats(&after)
	each := func(total float64) float64 { return total / float64(n) }
	return Sample{
		CPU:    each(float64(cpu)),
		Allocs: each(float64(after.Mallocs - before.Mallocs)),
		Bytes:  each(float64(after.TotalAlloc - before.TotalAlloc)),
	}, nil
}

// repeat calls do for about d, at least once, and returns how often.
func repeat(do func() error, d time.Duration) (int, error) {
	const fine = 32 // the clock is read this often in the time that is left
	began := time.Now()
	for n, batch := 0, 1; ; {
		for range batch {
			if err := do(); err != nil {
				return n, err
			}
		}
		n += batch
		spent := time.Since(began)
		if spent >= d {
			return n, nil
		}
		batch = max(1, int(float64(n)*float64(d-spent)/float64(spent)/fine))
	}
}

// Run measures all cases once a round. Before each it calls progress, whose error ends it.
func Run(cases []Case, rounds int, d time.Duration,
	progress func(round int, c Case) error) (*Table, error) {
	t := newTable()
	for round := range rounds {
		for _, c := range cases {
			if err := progress(round, c); err != nil {
				return nil, err
			}
			runtime.GC()
			sample, err := c.Run(d)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %s: %w", c.Group, c.Row, c.Peer, err)
			}
			t.add(c, sample)
		}
	}
	return t, nil
}

// Kept is the memory, in objects and stacks, that is in use after n more calls of do, for each.
func Kept(n int, do func() error) (Sample, error) {
	before := int64(0)
	for i := range 10 + n { // ten for what is made once
		if i == 10 {
			before = inUse()
		}
		if err := do(); err != nil {
			return nil, err
		}
	}
	// Less than one byte each is what other things did meanwhile.
	return Sample{Memory: max(0, float64((inUse()-before)/int64(n)))}, nil
}

func inUse() int64 {
	runtime.GC()
	runtime.GC() // twice, for what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
