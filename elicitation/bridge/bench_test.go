package bridge_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
)

func newBenchBridge(b *testing.B, calls int) *bridge.Bridge {
	b.Helper()
	router, err := elicitation.New(&elicitation.Options{
		MaxPending: -1, MaxPerPrincipal: -1, MaxPerSession: -1, MaxPerUpstream: -1})
	if err != nil {
		b.Fatal(err)
	}
	made, err := bridge.New(router, &bridge.Options{Keys: ring.Derive(bridge.KeyPurpose),
		MaxParked: calls, MaxPerPrincipal: calls, Settle: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = made.Shutdown(ctx)
		_ = router.Shutdown(context.Background())
	})
	return made
}

// BenchmarkServe is a call with one question, from its first request to its result.
func BenchmarkServe(b *testing.B) {
	made := newBenchBridge(b, 100)
	first := request(asking(nil, "one?"))
	b.ReportAllocs()
	for b.Loop() {
		o, err := made.Serve(b.Context(), first)
		if err == nil {
			o, err = made.Serve(b.Context(), retry(first, o, accept(1)))
		}
		if err != nil || o.Result == nil {
			b.Fatal(o, err)
		}
	}
}

// BenchmarkParked reports what a call takes that waits for its client, objects and stacks, in
// bytes. The connection to the upstream is not in it.
func BenchmarkParked(b *testing.B) {
	const calls = 2000
	made := newBenchBridge(b, calls*b.N)
	first := request(asking(nil, "one?"))
	objects, stacks := memory()
	b.ResetTimer()
	for range calls * b.N {
		if _, err := made.Serve(b.Context(), first); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	moreObjects, moreStacks := memory()
	b.ReportMetric(float64(moreObjects-objects)/float64(calls*b.N), "object-B/call")
	b.ReportMetric(float64(moreStacks-stacks)/float64(calls*b.N), "stack-B/call")
}

// memory returns the bytes of objects and of stacks in use.
func memory() (objects, stacks uint64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
}
