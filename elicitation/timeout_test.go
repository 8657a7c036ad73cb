package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestTimeouts(t *testing.T) {
	for _, test := range []struct {
		name    string
		options elicitation.Options
		asked   time.Duration
		want    time.Duration
	}{
		{"default", elicitation.Options{}, 0, time.Minute},
		{"configured", elicitation.Options{Timeout: 5 * time.Minute}, 0, 5 * time.Minute},
		{"of the question", elicitation.Options{}, 3 * time.Second, 3 * time.Second},
		{"longer than the default", elicitation.Options{}, 2 * time.Minute, 2 * time.Minute},
		{"beyond the maximum", elicitation.Options{}, time.Hour, 10 * time.Minute},
		{"beyond a configured maximum", elicitation.Options{MaxTimeout: 90 * time.Second}, time.Hour, 90 * time.Second},
		{"long default raises the maximum", elicitation.Options{Timeout: 20 * time.Minute}, 0, 20 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.options)
				s := r.attach(elicitation.SessionInfo{ID: "s1"})
				sc := &screen{t: t}
				call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
				defer call.End()
				began := time.Now()
				_, err := call.Elicit(t.Context(), form("m"), &elicitation.ElicitOptions{Timeout: test.asked})
				refused(t, err, elicitation.ErrTimeout, protocol.CodeTimeout, "Elicitation timed out")
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
				synctest.Wait()
				if n := sc.notifications("notifications/cancelled"); len(n) != 1 {
					t.Errorf("the client was told %d times that nobody waits", len(n))
				}
				r.wantEvents("created delivered timeout")
				r.settled()
			})
		})
	}
}

func progress(id protocol.ID, n float64) *protocol.Notification {
	params, err := jsonx.Encode(protocol.Progress{Token: id, Progress: n})
	if err != nil {
		panic(err)
	}
	return &protocol.Notification{Method: protocol.NotifyProgress, Params: params}
}

// Progress starts the timeout anew, within the absolute maximum.
func TestProgressExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{MaxTimeout: 3 * time.Minute})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
		defer call.End()
		var heard []string
		var outcome elicitation.Outcome
		params := []byte(`{"message":"m","requestedSchema":{"type":"object","properties":{}},"_meta":{"progressToken":"up-7"}}`)
		offered, err := call.Offer(t.Context(), params, &elicitation.ElicitOptions{Progress: func(p *protocol.Progress) {
			heard = append(heard, fmt.Sprint(p.Token, " ", p.Progress))
		}}, func(o elicitation.Outcome) { outcome = o })
		if err != nil {
			t.Fatal(err)
		}
		began, id := time.Now(), offered.Request().ID
		if d, _ := r.Progress(t.Context(), elicitation.From{Session: "s2", Principal: alice()}, progress(id, 1)); d != elicitation.WrongSession {
			t.Errorf("a stranger's progress is %v", d)
		}
		if d, _ := r.Progress(t.Context(), s.From(), progress(protocol.IntID(1), 1)); d != elicitation.Unknown {
			t.Errorf("progress of something else is %v", d)
		}
		for i := range 4 {
			time.Sleep(50 * time.Second)
			want := elicitation.Accepted
			if i == 3 {
				want = elicitation.Expired // 200 s, and the maximum is 180 s
			}
			if d, _ := r.Progress(t.Context(), s.From(), progress(id, float64(i))); d != want {
				t.Errorf("after %v progress is %v, want %v", time.Since(began), d, want)
			}
		}
		synctest.Wait()
		if fmt.Sprint(heard) != `["up-7" 0 "up-7" 1 "up-7" 2]` {
			t.Errorf("the upstream heard %v", heard)
		}
		if !errors.Is(outcome.Err, elicitation.ErrTimeout) {
			t.Errorf("outcome is %+v", outcome)
		}
		if d := r.logs.All()[2].ContextMap()["duration_ms"]; d != 180000.0 {
			t.Errorf("it timed out after %v ms, want 180000", d)
		}
	})
}

// A stream that takes nothing is found out long before the timeout, and nothing
// claims a delivery.
func TestStuckDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t, stuck: true}), "up")
		defer call.End()
		began := time.Now()
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ErrDelivery, -32603, "Elicitation could not be delivered")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		r.wantEvents("created error")
		r.settled()
	})
}

func TestFailedDelivery(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	cause := errors.New("no GET stream at https://client.example/mcp?key=canary")
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t, fail: cause}), "up")
	defer call.End()
	_, err := call.Elicit(t.Context(), form("m"), nil)
	refused(t, err, elicitation.ErrDelivery, -32603, "Elicitation could not be delivered")
	if !errors.Is(err, cause) {
		t.Errorf("the cause is lost: %v", err)
	}
	r.wantEvents("created error")
	if e := r.logs.All()[1].ContextMap()["error"]; e != "no GET stream at https://client.example/mcp?…" {
		t.Errorf("the log says %v", e)
	}
	r.settled()
}

// A transport that delivers after all, when nobody waits any more, takes the
// question back.
func TestDeliveryAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		sc := &screen{t: t}
		slow := elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
			if _, ok := m.(*protocol.Request); ok {
				time.Sleep(5 * time.Second) // deaf to ctx
			}
			return sc.Deliver(ctx, m)
		})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(slow), "up")
		defer call.End()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := call.Elicit(ctx, form("m"), nil)
		if !errors.Is(err, elicitation.ErrCancelled) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(10 * time.Second)
		if len(sc.requests()) != 1 || len(sc.notifications("notifications/cancelled")) != 1 {
			t.Errorf("the client got %d frames, want the question and its withdrawal", len(sc.frames))
		}
		r.wantEvents("created cancelled")
		r.settled()
	})
}

// A stream that dies while a person thinks is the host's to report.
func TestLostStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t}), "up")
		defer call.End()
		go func() {
			time.Sleep(time.Second)
			call.Lost(errors.New("connection reset"))
		}()
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ErrDelivery, -32603, "The client's stream was lost")
		r.wantEvents("created delivered error")
		r.settled()
	})
}

// A reply that overtakes the transport's word implies delivery, in that order.
func TestReplyOvertakesDelivery(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	_, offered, _ := r.offered()
	r.complete(offered.Call().Origin().Session.From(), result(offered.Request().ID, yes), elicitation.Accepted)
	offered.Delivered()
	r.wantEvents("created delivered completed")
}

// The host's clock stands still while a person is asked.
func TestPauseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, cancel := elicitation.NewToolClock(t.Context(), 30*time.Second)
		defer cancel()
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		sc := &screen{t: t}
		sc.answer = func(q *protocol.Request) {
			go func() {
				time.Sleep(50 * time.Second)
				r.Complete(context.Background(), s.From(), result(q.ID, yes))
			}()
		}
		call := r.beginIn(ctx, elicitation.Origin{Session: s, PauseClock: clock.Pause}, elicitation.Frames(sc), "up")
		defer call.End()
		began := time.Now()
		time.Sleep(20 * time.Second)
		for range 2 {
			if _, err := call.Elicit(t.Context(), form("m"), nil); err != nil {
				t.Fatal(err)
			}
		}
		<-ctx.Done()
		if took := time.Since(began); took != 130*time.Second || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("the clock ran out after %v with %v, want 130s", took, context.Cause(ctx))
		}
	})
}

func TestToolClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, cancel := elicitation.NewToolClock(t.Context(), 10*time.Second)
		first, second := clock.Pause(), clock.Pause()
		time.Sleep(time.Minute)
		first()
		first()
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Error("a clock that is paused twice ran after one resume")
		}
		second()
		time.Sleep(9 * time.Second)
		if ctx.Err() != nil {
			t.Error("the clock ran out early")
		}
		cancel()
		cancel()
		clock.Pause()()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("cause is %v", context.Cause(ctx))
		}
		ctx, _, cancel = elicitation.NewToolClock(t.Context(), 0)
		defer cancel()
		<-ctx.Done()
	})
}
