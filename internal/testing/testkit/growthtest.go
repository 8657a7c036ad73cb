package testkit

// This file bounds the cost of a reader of foreign bytes by the size of its input. Bytes and
// objects are counted for the whole process: tests that use this are not parallel. CPU time is
// bounded as a ratio of two sizes, the least of several runs: ten times the input takes a linear
// reader 10 times as long, a quadratic one 100 times.

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The sizes at which readers are measured, in bytes.
const (
	Small  = 10 << 10
	Medium = 100 << 10
	Large  = 1 << 20
)

const (
	// maxTimeRatio is nearer to 100 than to 10: caches and collections favour small inputs.
	maxTimeRatio = 40
	// shortest is what a run counts as at least: below, the runtime matters more than the reader.
	shortest = 200 * time.Microsecond
	// tries is how often a run that is out of bounds is repeated.
	tries = 5
	// slack is what a reader may allocate whatever the size of the input.
	slack = 64 << 10
	// The ratios bound what ten times the input may allocate: buffers that double are less than
	// twice as large as they need to be.
	maxBytesRatio   = 22
	maxObjectsRatio = 15
)

// A GrowthReader is an operation on foreign bytes.
type GrowthReader struct {
	// Read reads one input and reports whether it was accepted.
	Read func(input []byte) (accepted bool)
	// BytesPerByte and ObjectsPerByte bound allocations for each byte of input.
	BytesPerByte, ObjectsPerByte float64
}

// A GrowthInput makes inputs of about the given size. Refused ones must be refused,
// as must those of at least RefusedFrom bytes where that is set.
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

// CheckGrowth measures r with each input in a subtest. Refused inputs have the same bounds.
func CheckGrowth(t *testing.T, r GrowthReader, inputs ...GrowthInput) {
	t.Helper()
	for _, in := range inputs {
		t.Run(in.Name, func(t *testing.T) { r.test(t, in) })
	}
}

func (r GrowthReader) test(t *testing.T, in GrowthInput) {
	t.Helper()
	if Race { // nothing is measured: the race detector allocates, and empties pools
		input := in.Make(Small)
		if accepted := r.Read(input); accepted == in.refused(input) {
			t.Errorf("%d bytes of input: accepted %t, want %t", len(input), accepted, !accepted)
		}
		return
	}
	sizes := []int{Small, Medium} // a quadratic cost shows here
	if Slow {
		sizes = append(sizes, Large) // takes most of the time
	}
	var last cost
	var lastSize int
	for _, size := range sizes {
		input := in.Make(size)
		if len(input) < size/2 || len(input) > 2*size {
			t.Fatalf("input of %d bytes, want about %d", len(input), size)
		}
		if size == Small {
			r.Read(input) // what is made once is made here
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

// bounds returns what an input may cost, given what one of a tenth of its size did.
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

// measure returns the least that a run takes, of a few if need be.
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
	// A collection in the middle of a run counts for large inputs alone: small ones need none.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.ReadMemStats(&before)
	start := processTime()
	accepted = r.Read(input)
	c.took = processTime() - start
	runtime.ReadMemStats(&after)
	c.bytes, c.objects = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	return c, accepted
}

// Repeat returns a Make that puts as many copies of part between head and tail as fit.
func Repeat(head, part, tail string) func(size int) []byte {
	return func(size int) []byte {
		b := make([]byte, 0, size+len(part)+len(tail))
		b = append(b, head...)
		for len(b)+len(part)+len(tail) <= size {
			b = append(b, part...)
		}
		return append(b, tail...)
	}
}

// HeapInUse returns the bytes of the heap that are held.
func HeapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
