package inflight_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

var errTest = errors.New("the cause of a test")

func begin(t *testing.T, s *inflight.Set[int], key int, r *inflight.Request) context.Context {
	t.Helper()
	ctx := r.Start(t.Context(), nil)
	if err := s.Begin(key, r); err != nil {
		t.Fatalf("begin %d: %v", key, err)
	}
	t.Cleanup(func() { r.Cancel(nil) })
	return ctx
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func wantCause(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	if got := context.Cause(ctx); got != want {
		t.Errorf("the cause is %v, want %v", got, want)
	}
}

func TestKeysAreTakenUntilTheyAreFreed(t *testing.T) {
	var s inflight.Set[int]
	var first, second inflight.Request
	begin(t, &s, 1, &first)
	if err := s.Begin(1, &second); err != inflight.ErrDuplicate {
		t.Errorf("begin with a key in flight: %v, want ErrDuplicate", err)
	}
	s.Free(1)
	begin(t, &s, 1, &second)
	s.End(1, &first)
	if n := s.Len(); n != 1 {
		t.Errorf("%d in flight, want the second alone", n)
	}
	s.End(1, &second)
	if n := s.Len(); n != 0 {
		t.Errorf("%d in flight, want none", n)
	}
}

func TestCancel(t *testing.T) {
	var s inflight.Set[int]
	var plain, other inflight.Request
	pinned := inflight.Request{Uncancellable: true}
	ctx, otherCtx := begin(t, &s, 1, &plain), begin(t, &s, 2, &other)
	pinnedCtx := begin(t, &s, 3, &pinned)
	for key, want := range map[int]bool{1: true, 3: true, 4: false} {
		if got := s.Cancel(key, errTest); got != want {
			t.Errorf("cancel %d reports %t, want %t", key, got, want)
		}
	}
	wantCause(t, ctx, errTest)
	wantCause(t, otherCtx, nil)
	wantCause(t, pinnedCtx, nil)
	if !plain.IsCancelled() || other.IsCancelled() || pinned.IsCancelled() {
		t.Error("not just the first is cancelled by its client")
	}
	s.Free(2)
	if s.Cancel(2, errTest) {
		t.Error("a request whose key is free can be cancelled")
	}
}

func TestDrainWaitsForTheLast(t *testing.T) {
	var s inflight.Set[int]
	var first, second, late inflight.Request
	endless := inflight.Request{DrainCause: errTest}
	firstCtx := begin(t, &s, 1, &first)
	begin(t, &s, 2, &second)
	endlessCtx := begin(t, &s, 3, &endless)
	drained := s.Drain(true)
	wantCause(t, endlessCtx, errTest)
	wantCause(t, firstCtx, nil)
	late.Start(t.Context(), nil)
	if err := s.Begin(4, &late); err != inflight.ErrDraining {
		t.Errorf("begin: %v, want ErrDraining", err)
	}
	s.Free(1) // the request itself goes on
	s.End(2, &second)
	s.End(3, &endless)
	if isClosed(drained) {
		t.Error("drained while one is in flight")
	}
	s.End(1, &first)
	if !isClosed(drained) || !isClosed(s.Drain(false)) {
		t.Error("not drained after the last has ended")
	}
}

func TestDrainOfAnEmptySet(t *testing.T) {
	var s inflight.Set[int]
	if !isClosed(s.Drain(true)) {
		t.Error("not drained")
	}
}

type canceler chan error

func (c canceler) Cancel(cause error) { c <- cause }

func TestDrainEndsWaits(t *testing.T) {
	for name, people := range map[string]bool{"not for people": false, "for people": true} {
		t.Run(name, func(t *testing.T) {
			var s inflight.Set[int]
			var r inflight.Request
			ctx := begin(t, &s, 1, &r)
			var before, after waiting.Wait
			asked := make(canceler, 2)
			before.Begin(ctx, asked)
			defer before.End()
			s.Drain(people)
			after.Begin(ctx, asked)
			defer after.End()
			want := 2
			if people {
				want = 0
			}
			if len(asked) != want {
				t.Fatalf("%d questions are withdrawn, want %d", len(asked), want)
			}
			for range want {
				if cause := <-asked; cause != waiting.ErrClosing {
					t.Errorf("withdrawn because of %v", cause)
				}
			}
			wantCause(t, ctx, nil)
		})
	}
}

func TestAbort(t *testing.T) {
	var s inflight.Set[int]
	var r, late inflight.Request
	ctx := begin(t, &s, 1, &r)
	if n := s.Abort(errTest); n != 1 {
		t.Errorf("%d aborted, want 1", n)
	}
	wantCause(t, ctx, errTest)
	if r.IsCancelled() {
		t.Error("counts as cancelled by its client")
	}
	late.Start(t.Context(), nil)
	if s.Begin(2, &late) != inflight.ErrDraining {
		t.Error("takes requests after Abort")
	}
}
