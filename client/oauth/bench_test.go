package oauth_test

import "testing"

func BenchmarkCredentials(b *testing.B) {
	s, source := newLogin(b)
	ctx, out := b.Context(), s.post()
	b.ReportAllocs()
	for b.Loop() {
		if header, err := source.Credentials(ctx, out); err != nil || len(header) == 0 {
			b.Fatal(len(header), err)
		}
	}
}

func TestAllocCredentials(t *testing.T) {
	s, source := newLogin(t)
	ctx, out := t.Context(), s.post()
	if n := testing.AllocsPerRun(100, func() { _, _ = source.Credentials(ctx, out) }); n > 1 {
		t.Errorf("%v allocations, want 1 at most", n)
	}
}
