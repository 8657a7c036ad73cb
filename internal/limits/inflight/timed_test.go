package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
)

var errLate = errors.New("late")

// TestTimedSame does the same to a lazy context with a deadline and to one of package context, and
// wants to see the same.
func TestTimedSame(t *testing.T) {
	type pair struct {
		ctx          context.Context
		cancel       context.CancelFunc
		cancelParent context.CancelCauseFunc
	}
	steps := map[string]func(p pair){
		"Done":           func(p pair) { p.ctx.Done() },
		"Err":            func(p pair) { _ = p.ctx.Err() },
		"Value":          func(p pair) { _ = p.ctx.Value(key{}) },
		"derive":         func(p pair) { _, cancel := context.WithCancel(p.ctx); defer cancel() },
		"end":            func(p pair) { p.cancel() },
		"parent ends":    func(p pair) { p.cancelParent(nil) },
		"parent cancels": func(p pair) { p.cancelParent(errors.ErrUnsupported) },
		"time passes":    func(pair) { time.Sleep(time.Second); synctest.Wait() },
	}
	// a step takes two seconds, as it is done to both: the second one is late
	const limit = 3 * time.Second
	for first := range steps {
		for second := range steps {
			for third := range steps {
				t.Run(first+", "+second+", "+third, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						deadline := time.Now().Add(limit)
						var got, want pair
						parent, cancel := context.WithCancelCause(context.WithValue(t.Context(),
							key{}, "v"))
						lazy := new(inflight.Timed)
						lazy.Init(parent, deadline, errLate)
						got = pair{lazy, lazy.Cancel, cancel}
						parent, cancel = context.WithCancelCause(t.Context())
						want.ctx, want.cancel = context.WithDeadlineCause(parent, deadline, errLate)
						want.cancelParent = cancel
						for _, step := range []string{first, second, third} {
							steps[step](got)
							steps[step](want)
						}
						// twice, and nobody may have looked
						ended := parent.Err() != nil && !time.Now().Before(deadline)
						if got, want := look(got.ctx), look(want.ctx); got != want &&
							(!ended || !got.done || got.cause == nil) {
							t.Errorf("got %+v, want %+v", got, want)
						}
						if got := got.ctx.Value(key{}); got != "v" {
							t.Errorf("value: got %v, want v", got)
						}
						got.cancel()
						want.cancel()
						got.cancelParent(nil)
						want.cancelParent(nil)
					})
				})
			}
		}
	}
}

func TestTimedDeadline(t *testing.T) {
	early, late := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	for _, c := range []struct {
		name              string
		parent, own, want time.Time
	}{{"its own", late, early, early}, {"of the parent", early, late, early},
		{"the parent has none", time.Time{}, late, late}} {
		t.Run(c.name, func(t *testing.T) {
			parent := t.Context()
			if !c.parent.IsZero() {
				var cancel context.CancelFunc
				parent, cancel = context.WithDeadline(parent, c.parent)
				defer cancel()
			}
			var ctx inflight.Timed
			ctx.Init(parent, c.own, errLate)
			defer ctx.Cancel()
			if got, ok := ctx.Deadline(); !ok || !got.Equal(c.want) {
				t.Errorf("got %v, %t, want %v", got, ok, c.want)
			}
		})
	}
}

// A timer wakes those who wait before the deadline has come.
func TestTimedWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx inflight.Timed
		ctx.Init(t.Context(), time.Now().Add(time.Minute), errLate)
		defer ctx.Cancel()
		child, cancel := context.WithCancel(&ctx)
		defer cancel()
		<-child.Done()
		if got := context.Cause(child); got != errLate {
			t.Errorf("cause: got %v, want %v", got, errLate)
		}
	})
}

func TestTimedPrint(t *testing.T) {
	var ctx inflight.Timed
	ctx.Init(context.Background(), time.Unix(1, 0).UTC(), errLate)
	defer ctx.Cancel()
	const want = "context.Background.WithDeadline(1970-01-01 00:00:01 +0000 UTC)"
	if got := fmt.Sprint(&ctx); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTimedUnwatchedIsFree(t *testing.T) {
	parent, deadline := t.Context(), time.Now().Add(time.Hour)
	allocs := testing.AllocsPerRun(100, func() {
		var ctx inflight.Timed
		ctx.Init(parent, deadline, errLate)
		if ctx.Err() != nil {
			t.Error("cancelled from the start")
		}
		ctx.Cancel()
	})
	if allocs > 1 { // the context, where it escapes
		t.Errorf("allocations: got %v, want at most 1", allocs)
	}
}
