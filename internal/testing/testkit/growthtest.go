package testkit

// This file bounds the cost of foreign bytes by input size. Bytes and objects are counted per
// process, so these tests are not parallel. CPU time (the least of several runs) is compared for
// two sizes: on ten times the input a linear reader takes 10 times as long, a quadratic one 100.

import (
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// These are input sizes in bytes.
const (
	Small  = 10 << 10
	Medium = 100 << 10
	Large  = 1 << 20
)

const (
	// maxTimeRatio is nearer to 100 than to 10, because caches and collections favour small inputs.
	maxTimeRatio = 40
	shortest     = 200 * time.Microsecond // shorter runs count as this long: the runtime dominates
	tries        = 5                      // repetitions of a run that exceeds its bounds
	slack        = 64 << 10               // bytes allocated for any input size
	// maxBytesRatio limits the growth for ten times the input: buffers that double waste half.
	maxBytesRatio   = 22
	maxObjectsRatio = 15
)

// A GrowthReader is an operation on foreign bytes.
type GrowthReader struct {
	// Read reads an input and reports whether it was accepted.
	Read                         func(input []byte) (accepted bool)
	BytesPerByte, ObjectsPerByte float64 // bounds on allocations
}

// A GrowthInput makes inputs. With Refused, or from RefusedFrom bytes on, they must be refused.
type GrowthInput struct {
	Name        string
	Make        func(size int) []byte
	Refused     bool
	RefusedFrom int
}

func (in GrowthInput) refused(input []byte) bool {
	return in.Refused || in.RefusedFrom > 0 && len(input) >= in.RefusedFrom
}

type cost struct {
	bytes, objects uint64
	took           time.Duration
}

// CheckGrowth measures r with each input, in a subtest. Refused inputs have the same bounds.
func CheckGrowth(t *testing.T, r GrowthReader, inputs ...GrowthInput) {
	t.Helper()
	for _, in := range inputs {
		t.Run(in.Name, func(t *testing.T) { r.test(t, in) })
	}
}

func (r GrowthReader) test(t *testing.T, in GrowthInput) {
	t.Helper()
	if Race { // it makes measurements useless: it allocates, and empties pools
		input := in.Make(Small)
		if accepted := r.Read(input); accepted == in.refused(input) {
			t.Errorf("%d bytes of input: accepted %t, want %t", len(input), accepted, !accepted)
		}
		return
	}
	sizes := []int{Small, Medium} // enough to show a quadratic cost
	if Slow {
		sizes = append(sizes, Large) // this size takes most of the time
	}
	var last cost
	var lastSize int
	for _, size := range sizes {
		input := in.Make(size)
		if len(input) < size/2 || len(input) > 2*size {
			t.Fatalf("input of %d bytes, want about %d", len(input), size)
		}
		if size == Small {
			r.Read(input) // a first run, which excludes one-time costs
		}
		bounds := r.bounds(input, last, lastSize)
		c := r.measure(t, in, input, bounds)
		t.Logf("%s: %d bytes: %d bytes in %d objects, %v", t.Name(), len(input), c.bytes, c.objects,
			c.took.Round(time.Microsecond))
		if c.bytes > bounds.bytes || c.objects > bounds.objects {
			t.Errorf("%d bytes of input: allocates %d bytes in %d objects, want at most %d in %d",
				len(input), c.bytes, c.objects, bounds.bytes, bounds.objects)
		}
		if c.took > bounds.took {
			t.Errorf("%d bytes of input: took %v, want less than %v: %d times what %d bytes take",
				len(input), c.took, bounds.took, maxTimeRatio, lastSize)
		}
		last, lastSize = c, len(input)
	}
}

// bounds returns an input's limits. last is the cost of a tenth of its size.
func (r GrowthReader) bounds(input []byte, last cost, lastSize int) cost {
	size := float64(len(input))
	b := cost{
		bytes:   slack + uint64(r.BytesPerByte*size),
		objects: slack/64 + uint64(r.ObjectsPerByte*size),
		took:    math.MaxInt64,
	}
	if lastSize > 0 {
		b.bytes = min(b.bytes, slack+maxBytesRatio*max(last.bytes, slack/4))
		b.objects = min(b.objects, slack/64+maxObjectsRatio*max(last.objects, slack/256))
		b.took = maxTimeRatio * max(last.took, shortest)
	}
	return b
}

func (r GrowthReader) measure(t *testing.T, in GrowthInput, input []byte, bounds cost) cost {
	t.Helper()
	best := cost{math.MaxUint64, math.MaxUint64, math.MaxInt64}
	for range tries {
		c, accepted := r.run(input)
		if accepted == in.refused(input) {
			t.Fatalf("%d bytes of input: accepted %t, want %t", len(input), accepted, !accepted)
		}
		best = cost{min(best.bytes, c.bytes), min(best.objects, c.objects), min(best.took, c.took)}
		if best.bytes <= bounds.bytes && best.objects <= bounds.objects &&
			best.took <= bounds.took {
			break
		}
	}
	return best
}

func (r GrowthReader) run(input []byte) (c cost, accepted bool) {
	var before, after runtime.MemStats
	runtime.GC()
	// Garbage collection during a run would count for large inputs only.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.ReadMemStats(&before)
	start := processTime()
	accepted = r.Read(input)
	c.took = processTime() - start
	runtime.ReadMemStats(&after)
	c.bytes, c.objects = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	return c, accepted
}

// Repeat returns a Make that puts as many copies of part between head and tail as fit into size.
func Repeat(head, part, tail string) func(size int) []byte {
	return func(size int) []byte {
		copies := max(0, size-len(head)-len(tail)) / len(part)
		return []byte(head + strings.Repeat(part, copies) + tail)
	}
}

// HeapInUse returns the bytes of the live heap.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
