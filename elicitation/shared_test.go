package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// Calls of one client on one connection are not ambiguous: their person is asked on the stream
// of the session, and on that of no request. Whatever differs makes them ambiguous.
func TestSeveralCallsOfOneClient(t *testing.T) {
	type rigOf struct {
		*rig
		own, other *elicitation.Session
		ownOrigin  elicitation.Origin
	}
	urlOnly := caps(false, true)
	for _, test := range []struct {
		name  string
		begin func(r rigOf) // the second call, beside one of own
		info  elicitation.SessionInfo
		opts  *elicitation.ElicitOptions
		want  elicitation.Reason // "": it is asked on the session's stream
	}{
		{name: "the same session",
			begin: func(r rigOf) { r.Cleanup(r.begin(r.ownOrigin, r.unused(), "up").End) }},
		{name: "the same session and id",
			opts:  &elicitation.ElicitOptions{CallID: "one"},
			begin: func(r rigOf) { r.Cleanup(r.begin(r.ownOrigin, r.unused(), "up").End) }},
		{name: "another session of the same principal", want: elicitation.ReasonAmbiguous,
			begin: func(r rigOf) {
				r.Cleanup(r.begin(elicitation.Origin{Session: r.other}, r.unused(), "up").End)
			}},
		{name: "another principal", want: elicitation.ReasonAmbiguous,
			begin: func(r rigOf) {
				o := r.ownOrigin
				o.Principal = bob()
				r.Cleanup(r.begin(o, r.unused(), "up").End)
			}},
		{name: "other capabilities", want: elicitation.ReasonAmbiguous,
			begin: func(r rigOf) {
				o := r.ownOrigin
				o.Capabilities = &urlOnly
				r.Cleanup(r.begin(o, r.unused(), "up").End)
			}},
		{name: "a session that is gone", want: elicitation.ReasonAmbiguous,
			begin: func(r rigOf) {
				r.Cleanup(r.begin(elicitation.Origin{Session: r.other}, r.unused(), "up").End)
				r.other.Detach()
			}},
		{name: "an abandoned call of the same client",
			begin: func(r rigOf) { r.abandon(r.ownOrigin, "up") }},
		{name: "an abandoned call of another client", want: elicitation.ReasonAmbiguous,
			begin: func(r rigOf) { r.abandon(elicitation.Origin{Session: r.other}, "up") }},
		{name: "no request can be open", want: elicitation.ReasonAmbiguous,
			info:  elicitation.SessionInfo{Version: protocol.V20260728},
			begin: func(r rigOf) { r.Cleanup(r.begin(r.ownOrigin, r.unused(), "up").End) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			sc := &screen{t: t}
			test.info.ID, test.info.Principal = "own", alice()
			test.info.Via = elicitation.ViaFrames(sc)
			o := rigOf{rig: r, own: r.attach(test.info),
				other: r.attach(elicitation.SessionInfo{ID: "other", Principal: alice(),
					Via: elicitation.ViaFrames(sc)})}
			sc.answer = r.answers(o.own, yes).answer
			o.ownOrigin = elicitation.Origin{Session: o.own, CallID: "one"}
			first := r.begin(o.ownOrigin, r.unused(), "up")
			defer first.End()
			test.begin(o)
			_, err := r.ElicitFrom(t.Context(), "up", form("m"), test.opts)
			if test.want != "" {
				refused(t, err, test.want, -32601, "No client session available")
				if n := len(sc.requests()); n != 0 {
					t.Errorf("the client was asked %d times", n)
				}
				return
			}
			if err != nil || len(sc.requests()) != 1 {
				t.Fatalf("%d questions, %v", len(sc.requests()), err)
			}
			r.wantEvents("created delivered completed")
			f := r.logs.All()[0].ContextMap()
			if n, _ := f["candidates"].(int64); n == 0 || f["call_id"] != nil {
				t.Errorf("the log says %v", f)
			}
			r.settled()
		})
	}
}

// unused is the Via of a request on whose stream nothing may be asked.
func (r *rig) unused() elicitation.Via {
	return elicitation.ViaFrames(elicitation.DeliverFunc(
		func(context.Context, protocol.Message) error {
			r.Error("asked on the stream of a request")
			return nil
		}))
}

// abandon leaves a call that its client gave up and its upstream has not noticed.
func (r *rig) abandon(o elicitation.Origin, up elicitation.UpstreamKey) *elicitation.Call {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	c := r.beginIn(ctx, o, elicitation.Via{}, up)
	cancel()
	c.End()
	return c
}

// A host without a stream of the session's own has its client's questions refused.
func TestSeveralCallsWithoutAStreamOfTheSession(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	for range 2 {
		defer r.begin(elicitation.Origin{Session: s}, r.unused(), "up").End()
	}
	_, err := r.ElicitFrom(t.Context(), "up", form("m"), nil)
	refused(t, err, elicitation.ReasonAmbiguous, -32601, "No client session available")
}

// A question of several calls is withdrawn when the last of them ends, whatever ends it, and
// by its upstream; none of the calls outlives it in the router.
func TestQuestionOfSeveralCallsEndsWithTheLast(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(r *rig, last *elicitation.Call, cancel func())
		by   elicitation.CancelledBy
	}{
		{"End", func(_ *rig, last *elicitation.Call, _ func()) { last.End() },
			elicitation.ByCallEnd},
		{"the client's cancellation",
			func(_ *rig, _ *elicitation.Call, cancel func()) { cancel() }, elicitation.ByClient},
		{"the session", func(_ *rig, last *elicitation.Call, _ func()) {
			last.Origin().Session.Detach()
		}, elicitation.BySession},
		{"the upstream", func(r *rig, _ *elicitation.Call, _ func()) {
			if !r.CancelUpstream("up", protocol.IntID(7)) {
				r.Error("the question was not found")
			}
		}, elicitation.ByUpstream},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				sc := &screen{t: t}
				s := r.attach(elicitation.SessionInfo{ID: "s1", Via: elicitation.ViaFrames(sc)})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var waits [2]bool
				var calls [2]*elicitation.Call
				for i := range calls {
					watched := waiting.WithWatch(ctx, func(waiting bool) { waits[i] = waiting })
					if i == 0 {
						watched = waiting.WithWatch(t.Context(),
							func(waiting bool) { waits[i] = waiting })
					}
					calls[i] = r.beginIn(watched, elicitation.Origin{Session: s}, r.unused(), "up")
					defer calls[i].End()
				}
				done := make(chan error, 1)
				go func() {
					_, err := r.ElicitFrom(t.Context(), "up", form("m"),
						&elicitation.ElicitOptions{UpstreamID: protocol.IntID(7)})
					done <- err
				}()
				synctest.Wait()
				if waits != [2]bool{true, true} {
					t.Errorf("the requests wait: %v, want both", waits)
				}
				calls[0].End()
				synctest.Wait()
				if waits != [2]bool{false, true} || r.Pending() != 1 {
					t.Errorf("the requests wait: %v, pending %d", waits, r.Pending())
				}
				test.end(r, calls[1], cancel)
				err := <-done
				e, ok := errors.AsType[*elicitation.Error](err)
				if !ok || e.By != test.by {
					t.Errorf("got %v, want cancelled by %s", err, test.by)
				}
				synctest.Wait()
				if n := len(sc.notifications(protocol.NotifyCancelled)); n != 1 || waits[1] {
					t.Errorf("withdrawn %d times, the request waits: %v", n, waits[1])
				}
				r.settled()
			})
		})
	}
}

// The time limits of all requests that may wait for the answer stand still.
func TestQuestionOfSeveralCallsPausesTheirTimeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		sc := &screen{t: t}
		s := r.attach(elicitation.SessionInfo{ID: "s1", Via: elicitation.ViaFrames(sc)})
		reply := r.answers(s, yes).answer
		sc.answer = func(q *protocol.Request) {
			go func() {
				time.Sleep(30 * time.Second)
				reply(q)
			}()
		}
		var limited []context.Context
		for range 3 {
			ctx, limit, cancel := elicitation.NewPausableTimeout(t.Context(), 5*time.Second)
			defer cancel()
			limited = append(limited, ctx)
			call := r.beginIn(ctx, elicitation.Origin{Session: s, PauseTimeout: limit.Pause},
				r.unused(), "up")
			defer call.End()
		}
		if _, err := r.ElicitFrom(t.Context(), "up", form("m"), nil); err != nil {
			t.Fatal(err)
		}
		for i, ctx := range limited {
			if ctx.Err() != nil {
				t.Errorf("call %d has timed out while its person was asked", i)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for i, ctx := range limited {
			if ctx.Err() == nil {
				t.Errorf("call %d does not time out any more", i)
			}
		}
	})
}

// Calls of one client begin, are given up and end while their upstream asks: each question has
// one end, and nothing is left of any.
func TestSharedQuestionsWhileCallsComeAndGo(t *testing.T) {
	r := newRig(t, elicitation.Options{Limits: elicitation.Limits{Pending: -1, PerPrincipal: -1,
		PerSession:  -1,
		PerUpstream: -1}, Log: zaplog.New(zap.NewNop())})
	answers := elicitation.ViaAsker(elicitation.AskFunc(func(ctx context.Context,
		_ elicitation.Question, _ func()) (json.RawMessage, error) {
		runtime.Gosched()
		return json.RawMessage(yes), ctx.Err()
	}))
	s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice(), Via: answers})
	stop := make(chan struct{})
	var calls, questions sync.WaitGroup
	for worker := range 4 {
		calls.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithCancel(t.Context())
				call := r.beginIn(ctx, elicitation.Origin{Session: s}, answers, "up")
				runtime.Gosched()
				if i%3 == worker%3 {
					cancel()
					call.End()
					call.ConfirmUpstreamEnd()
				} else {
					call.End()
					cancel()
				}
			}
		})
	}
	for range 4 {
		questions.Go(func() {
			for range 500 {
				_, err := r.ElicitFrom(t.Context(), "up", form("m"), nil)
				if err != nil && !errors.Is(err, elicitation.ReasonNoSession) &&
					!errors.Is(err, elicitation.ReasonCancelled) {
					t.Error(err)
				}
			}
		})
	}
	questions.Wait()
	close(stop)
	calls.Wait()
	if r.HasAbandonedCalls("up") {
		t.Error("abandoned calls are left")
	}
	r.settled()
}
