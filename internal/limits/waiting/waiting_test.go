package waiting_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// record returns a context with a watch, and the watch's events.
func record(ctx context.Context) (context.Context, *[]bool) {
	told := new([]bool)
	return waiting.WithWatch(ctx, func(waits bool) { *told = append(*told, waits) }), told
}

func TestACallWaitsWhileAnyOfItsQuestionsIsOpen(t *testing.T) {
	ctx, told := record(t.Context())
	endFirst, endSecond := waiting.Begin(ctx), waiting.Begin(ctx)
	endFirst()
	endFirst() // does nothing
	if want := []bool{true}; !slices.Equal(*told, want) {
		t.Errorf("one of two questions is open: told %v, want %v", *told, want)
	}
	endSecond()
	waiting.Begin(ctx)()
	if want := []bool{true, false, true, false}; !slices.Equal(*told, want) {
		t.Errorf("told %v, want %v", *told, want)
	}
}

func TestEveryWatchAroundACallIsTold(t *testing.T) {
	outer, outerTold := record(t.Context())
	inner, innerTold := record(outer)
	end := waiting.Begin(outer)
	waiting.Begin(inner)()
	end()
	want := []bool{true, false}
	if !slices.Equal(*outerTold, want) || !slices.Equal(*innerTold, want) {
		t.Errorf("outer was told %v, inner %v, want %v for both", *outerTold, *innerTold, want)
	}
}

func TestBeginWithoutAWatchDoesNothing(t *testing.T) {
	end := waiting.Begin(t.Context())
	end()
	end()
}

func TestManyGoroutinesAsk(t *testing.T) {
	ctx, told := record(t.Context())
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() { waiting.Begin(ctx)() })
	}
	asking.Wait()
	for i, waits := range *told {
		if waits != (i%2 == 0) {
			t.Fatalf("told %v at %d, want true and false by turns", waits, i)
		}
	}
	if len(*told) == 0 || len(*told)%2 != 0 {
		t.Errorf("told %d times, want an even number above 0", len(*told))
	}
}

type questions struct{ cause error }

func (q *questions) Cancel(cause error) { q.cause = cause }

func TestAnEndedWatchWithdrawsWhatIsOpenAndWhatFollows(t *testing.T) {
	var outer, inner waiting.Watch
	ctx := inner.Attach(outer.Attach(t.Context(), nil), nil)
	why := errors.New("why")
	var waits [3]waiting.Wait
	var open, over, later questions
	waits[0].Begin(ctx, &open)
	waits[1].Begin(ctx, &over)
	waits[1].End()
	endOther := waiting.Begin(ctx) // cannot be withdrawn
	outer.End(why)
	waits[2].Begin(ctx, &later)
	if open.cause != why || later.cause != why {
		t.Errorf("got %v for the open wait and %v for the later one, want %v for both", open.cause,
			later.cause, why)
	}
	if over.cause != nil {
		t.Errorf("a wait that was over was withdrawn: %v", over.cause)
	}
	waits[0].End()
	waits[2].End()
	endOther()
}

func TestAForeignContextTellsTheWatchesOfItsCall(t *testing.T) {
	ctx, told := record(t.Context())
	waiting.Begin(waiting.WithWatchOf(context.Background(), ctx))()
	waiting.Begin(waiting.WithWatchOf(ctx, ctx))() // once, not twice
	waiting.Begin(waiting.WithWatchOf(context.Background(), context.Background()))()
	if want := []bool{true, false, true, false}; !slices.Equal(*told, want) {
		t.Errorf("told %v, want %v", *told, want)
	}
}

func TestAPanicOfOneListenerKeepsNoOtherWaiting(t *testing.T) {
	for _, when := range []bool{true, false} {
		outer := false
		ctx := waiting.WithWatch(t.Context(), func(waits bool) { outer = waits })
		ctx = waiting.WithWatch(ctx, func(waits bool) {
			if waits == when {
				panic("inner")
			}
		})
		var w waiting.Wait
		for _, f := range []func(){func() { w.Begin(ctx, nil) }, w.End} {
			func() {
				defer func() { _ = recover() }()
				f()
			}()
		}
		if outer {
			t.Errorf("after a panic of the listener for %v the other is told that the call waits "+
				"still", when)
		}
	}
}

var wantEqual = testkit.WantEqual
