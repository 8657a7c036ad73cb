package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

var errWhy = errors.New("why")

type key struct{}

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

func TestDeadlineOfParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var ctx waiting.Context
		ctx.Init(parent)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("deadline: got %v, %t, want that of the parent", at, ok)
		}
		<-ctx.Done()
		ctx.Cancel(errWhy)
		wantEqual(t, "state", look(&ctx),
			state{context.DeadlineExceeded, context.DeadlineExceeded, true})
	})
}

// Deriving a child must not start a goroutine.
func TestDeriveStartsNoGoroutine(t *testing.T) {
	var ctx waiting.Context
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

// A context may be printed while in use, and hides its values, like contexts of package context.
func TestPrint(t *testing.T) {
	parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, "v"))
	defer cancel(nil)
	var ctx waiting.Context
	ctx.Init(parent)
	defer ctx.Cancel(nil)
	var waiting sync.WaitGroup
	waiting.Go(func() { ctx.Done() })
	same, cancelSame := context.WithCancel(parent)
	defer cancelSame()
	for _, verb := range []string{"%v", "%+v", "%s"} {
		wantEqual(t, verb, fmt.Sprintf(verb, &ctx), fmt.Sprintf(verb, same))
	}
	waiting.Wait()
}

func TestUnwatchedIsFree(t *testing.T) {
	parent := t.Context()
	allocs := testing.AllocsPerRun(100, func() {
		var ctx waiting.Context
		ctx.Init(parent)
		if ctx.Err() != nil {
			t.Error("cancelled from the start")
		}
		ctx.Cancel(nil)
		wantEqual(t, "error at the end", ctx.Err(), context.Canceled)
	})
	if allocs > 1 { // the context, if it escapes
		t.Errorf("allocations: got %v, want at most 1", allocs)
	}
}
