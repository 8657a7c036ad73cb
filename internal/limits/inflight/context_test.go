package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
)

var errWhy = errors.New("why")

type key struct{}

// state is all that can be seen of a context.
type state struct {
	err, cause error
	done       bool
}

func look(ctx context.Context) state {
	s := state{err: ctx.Err(), cause: context.Cause(ctx)}
	select {
	case <-ctx.Done():
		s.done = true
	default:
	}
	return s
}

// TestSame does the same to a lazy context and to one of package context, and wants to see the
// same.
func TestSame(t *testing.T) {
	type pair struct {
		ctx          context.Context
		cancel       context.CancelCauseFunc
		cancelParent context.CancelCauseFunc
	}
	steps := map[string]func(p pair){
		"Done":           func(p pair) { p.ctx.Done() },
		"Err":            func(p pair) { _ = p.ctx.Err() },
		"derive":         func(p pair) { _, cancel := context.WithCancel(p.ctx); defer cancel() },
		"end":            func(p pair) { p.cancel(nil) },
		"cancel":         func(p pair) { p.cancel(errWhy) },
		"parent ends":    func(p pair) { p.cancelParent(nil) },
		"parent cancels": func(p pair) { p.cancelParent(errors.ErrUnsupported) },
	}
	names := []string{"Done", "Err", "derive", "end", "cancel", "parent ends", "parent cancels"}
	for _, first := range names {
		for _, second := range names {
			for _, third := range names {
				t.Run(first+", "+second+", "+third, func(t *testing.T) {
					var got, want pair
					parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{},
						"v"))
					lazy := new(inflight.Context)
					lazy.Init(parent)
					got = pair{lazy, lazy.Cancel, cancel}
					parent, cancel = context.WithCancelCause(t.Context())
					want.ctx, want.cancel = context.WithCancelCause(parent)
					want.cancelParent = cancel
					for _, step := range []string{first, second, third} {
						steps[step](got)
						steps[step](want)
					}
					if got, want := look(got.ctx), look(want.ctx); got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
					if got := got.ctx.Value(key{}); got != "v" {
						t.Errorf("value: got %v, want v", got)
					}
					got.cancel(nil)
					want.cancel(nil)
				})
			}
		}
	}
}

func TestDeadlineOfParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var ctx inflight.Context
		ctx.Init(parent)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("deadline: got %v, %t, want that of the parent", at, ok)
		}
		<-ctx.Done()
		ctx.Cancel(errWhy)
		if got, want := look(&ctx), (state{context.DeadlineExceeded, context.DeadlineExceeded,
			true}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestWaitersWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx inflight.Context
		ctx.Init(t.Context())
		child, cancel := context.WithCancel(&ctx)
		defer cancel()
		called := false
		context.AfterFunc(&ctx, func() { called = true })
		var woken sync.WaitGroup
		for range 8 {
			woken.Go(func() { <-ctx.Done() })
			woken.Go(func() { <-child.Done() })
		}
		synctest.Wait()
		ctx.Cancel(errWhy)
		woken.Wait()
		synctest.Wait()
		if !called || context.Cause(child) != errWhy {
			t.Errorf("AfterFunc called: %t, cause of the child: %v, want true, %v", called,
				context.Cause(child), errWhy)
		}
	})
}

// A child must hang on the context itself and not on a goroutine that waits for it.
func TestDeriveStartsNoGoroutine(t *testing.T) {
	var ctx inflight.Context
	ctx.Init(t.Context())
	defer ctx.Cancel(nil)
	before := runtime.NumGoroutine()
	for range 100 {
		_, cancel := context.WithCancel(&ctx)
		defer cancel()
	}
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("goroutines: got %d more, want none", n-before)
	}
}

// A context may be printed, by a log say, while others use it, and like those of package context it
// says nothing of its values.
func TestPrint(t *testing.T) {
	parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, "v"))
	defer cancel(nil)
	var ctx inflight.Context
	ctx.Init(parent)
	defer ctx.Cancel(nil)
	var waiting sync.WaitGroup
	waiting.Go(func() { ctx.Done() })
	same, cancelSame := context.WithCancel(parent)
	defer cancelSame()
	for _, verb := range []string{"%v", "%+v", "%s"} {
		if got, want := fmt.Sprintf(verb, &ctx), fmt.Sprintf(verb, same); got != want {
			t.Errorf("%s: got %s, want %s", verb, got, want)
		}
	}
	waiting.Wait()
}

func TestUnwatchedIsFree(t *testing.T) {
	parent := t.Context()
	allocs := testing.AllocsPerRun(100, func() {
		var ctx inflight.Context
		ctx.Init(parent)
		if ctx.Err() != nil {
			t.Error("cancelled from the start")
		}
		ctx.Cancel(nil)
		if ctx.Err() != context.Canceled {
			t.Error("not cancelled at the end")
		}
	})
	if allocs > 1 { // the context, where it escapes
		t.Errorf("allocations: got %v, want at most 1", allocs)
	}
}

func BenchmarkUnwatched(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Run("lazy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx := new(inflight.Context)
			ctx.Init(parent)
			ctx.Cancel(nil)
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parent, cancelParent := context.WithCancel(parent) // as net/http makes for each request
			_, cancel := context.WithCancelCause(parent)
			cancel(nil)
			cancelParent()
		}
	})
}
