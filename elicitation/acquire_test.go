package elicitation_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// Calls that queue for one connection run one at a time, in order, so that what
// is asked on it is never ambiguous.
func TestAcquireUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		sc := r.answers(s, yes)
		var order []int
		for i := range 10 {
			time.Sleep(time.Second)
			go func() {
				release, err := r.AcquireUpstream(t.Context(), "up")
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
				defer call.End()
				time.Sleep(time.Minute)
				order = append(order, i)
				if _, err := r.ElicitFrom(t.Context(), "up", form("m"), nil); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("order is %v", order)
			}
		}
		if len(order) != 10 {
			t.Errorf("%d calls ran", len(order))
		}
	})
}

func TestAcquireUpstreamGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		release, err := r.AcquireUpstream(t.Context(), "up")
		if err != nil {
			t.Fatal(err)
		}
		if other, err := r.AcquireUpstream(t.Context(), "elsewhere"); err != nil {
			t.Fatal(err)
		} else {
			other()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.AcquireUpstream(ctx, "up"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		if _, err := r.AcquireUpstream(ctx, "up"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that has ended: %v", err)
		}
		long, stop := context.WithCancel(t.Context())
		for range 100 {
			go r.AcquireUpstream(long, "up")
		}
		synctest.Wait()
		_, err = r.AcquireUpstream(t.Context(), "up")
		refused(t, err, elicitation.ReasonCapacity, protocol.CodeBusy,
			"Too many calls wait for the connection")
		if e, ok := errors.AsType[*elicitation.Error](err); !ok ||
			e.RetryAfter != 5*time.Second ||
			!strings.Contains(string(e.Wire.Data), `"retryAfterMs":5000`) {
			t.Errorf("the refusal %v does not tell when to come back", err)
		}
		r.wantEvents("rejected")
		if f := r.logs.All()[0].ContextMap(); f["upstream_session"] != "up" ||
			f["reason"] != "capacity" || f["error"] != "limit: queue" {
			t.Errorf("the log has %v", f)
		}
		if n := r.value("elicitation_rejected_total", "reason", "capacity"); n != 1 {
			t.Errorf("%v refusals are counted, want 1", n)
		}
		stop()
		synctest.Wait()
		release()
		release()
		if release, err = r.AcquireUpstream(t.Context(), "up"); err != nil {
			t.Error(err)
		}
		release()
	})
}

// An endingContext ends at the moment at which somebody waits for its end.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}

// A turn that comes at the very moment at which its owner gives up is passed on.
func TestAcquireUpstreamTurnOfWhoGivesUp(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	gaveUp := 0
	for range 40 { // which of the two is seen first is left to chance
		release, err := r.AcquireUpstream(t.Context(), "up")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		own, err := r.AcquireUpstream(endingContext{ctx, func() { release(); cancel() }}, "up")
		if err == nil {
			own()
			continue
		}
		if gaveUp++; !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		soon, stop := context.WithTimeout(t.Context(), 10*time.Second)
		next, err := r.AcquireUpstream(soon, "up")
		if stop(); err != nil {
			t.Fatalf("the connection is held by nobody: %v", err)
		}
		next()
	}
	if gaveUp == 0 {
		t.Error("nobody gave up")
	}
}

// Turns that come while their owners give up are passed on, not lost.
func TestAcquireUpstreamUnderPressure(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(),
					time.Duration(i*n%37)*time.Microsecond)
				if release, err := r.AcquireUpstream(ctx, "up"); err == nil {
					release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	release, err := r.AcquireUpstream(ctx, "up")
	if err != nil {
		t.Fatal(err)
	}
	release()
}
