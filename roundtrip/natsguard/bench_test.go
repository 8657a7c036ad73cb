package natsguard_test

import (
	"strconv"
	"testing"

	"github.com/rondo-mcp/rondo/internal/natstest"
)

// BenchmarkClaimCommit is what a guard adds to a leg: two writes to one server
// on the loopback interface, files included.
func BenchmarkClaimCommit(b *testing.B) {
	g := newGuard(b, natstest.Connect(b, natstest.Start(b, b.TempDir(), 0).ClientURL()), nil)
	outcome := make([]byte, 1<<10)
	until := inAnHour()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := strconv.Itoa(i)
		if err := g.Claim(b.Context(), id, "", print1, until); err != nil {
			b.Fatal(err)
		}
		if err := g.Commit(b.Context(), id, outcome); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay is what a replay costs: a refused write and a read.
func BenchmarkReplay(b *testing.B) {
	g := newGuard(b, natstest.Connect(b, natstest.Start(b, b.TempDir(), 0).ClientURL()), nil)
	until := inAnHour()
	if err := g.Claim(b.Context(), "id", "", print1, until); err != nil {
		b.Fatal(err)
	}
	if err := g.Commit(b.Context(), "id", make([]byte, 1<<10)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if g.Claim(b.Context(), "id", "", print1, until) == nil {
			b.Fatal("claimed twice")
		}
	}
}
