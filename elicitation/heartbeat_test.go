package elicitation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// wantsProgress is the origin of a call whose client wants progress.
func (r *rig) wantsProgress() elicitation.Origin {
	return elicitation.Origin{Session: r.attach(elicitation.SessionInfo{}),
		ProgressToken: protocol.StringID("p")}
}

// answersAfter makes a screen's client answer after a while.
func (r *rig) answersAfter(s *elicitation.Session, wait time.Duration) *screen {
	sc := &screen{t: r.TB}
	sc.answer = func(q *protocol.Request) {
		time.AfterFunc(wait, func() { _ = r.HandleReply(s.Sender(), result(q.ID, yes)) })
	}
	return sc
}

// reported is the progress that the client has heard of.
func (s *screen) reported() (all []protocol.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.frames {
		n, ok := m.(*protocol.Notification)
		if !ok || n.Method != protocol.NotifyProgress {
			continue
		}
		var p protocol.Progress
		if err := jsonx.Decode(n.Params, &p); err != nil {
			s.t.Error(err)
		}
		if p.Token != protocol.StringID("p") {
			s.t.Errorf("token %v, want p", p.Token)
		}
		all = append(all, p)
	}
	return all
}

// While an upstream asks, the client of a gateway hears that its request is alive,
// on the token on which the upstream's progress is relayed.
func TestHeartbeatsWhileAPersonIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		o := r.wantsProgress()
		frames := r.answersAfter(o.Session, 40*time.Second)
		call := r.begin(o, elicitation.ViaFrames(frames), "up")
		relay := func(progress float64, message string) {
			total := 9.0
			if err := call.RelayProgress(t.Context(),
				&protocol.Progress{Token: protocol.IntID(7), Progress: progress,
					Total: &total, Message: message}); err != nil {
				t.Error(err)
			}
		}
		relay(1, "work")
		relay(1.0005, "waiting for an answer") // the upstream waits for a person, too
		if _, err := call.Elicit(t.Context(), form("Sure?"), nil); err != nil {
			t.Error(err)
		}
		relay(1.00051, "raised")
		relay(1.0003, "heard already")
		relay(2, "work")
		call.End()
		relay(3, "after the end")
		time.Sleep(time.Hour)
		last, texts := 0.0, ""
		for _, p := range frames.reported() {
			if p.Progress <= last {
				t.Errorf("%v follows %v", p.Progress, last)
			}
			if last = p.Progress; p.Total == nil || *p.Total != 9 {
				t.Errorf("total %v, want 9", p.Total)
			}
			texts += p.Message + ", "
		}
		const beat = "waiting for an answer, "
		if want := "work, " + beat + beat + beat + beat + "raised, work, "; texts != want ||
			last != 2 {
			t.Errorf("the client heard %s up to %v, want %s up to 2", texts, last, want)
		}
	})
}

func TestNoHeartbeats(t *testing.T) {
	for name, token := range map[string]protocol.ID{
		"client wants no progress":  {},
		"the question is withdrawn": protocol.StringID("p"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				frames := &screen{t: t}
				call := r.begin(elicitation.Origin{Session: r.attach(elicitation.SessionInfo{}),
					ProgressToken: token}, elicitation.ViaFrames(frames), "up")
				ctx, cancel := context.WithCancel(t.Context())
				if name == "the question is withdrawn" {
					time.AfterFunc(time.Second, cancel)
				}
				time.AfterFunc(51*time.Second, cancel)
				_, _ = call.Elicit(ctx, form("Sure?"), nil)
				time.Sleep(50 * time.Second)
				if got := frames.reported(); len(got) > 0 {
					t.Errorf("the client heard %+v", got)
				}
			})
		})
	}
}

// A transport that is stuck at a heartbeat, or panics, holds up no answer.
func TestHeartbeatsHoldUpNoAnswer(t *testing.T) {
	for name, broken := range map[string]func(ctx context.Context){
		"stuck":                func(context.Context) { time.Sleep(time.Hour) },
		"stuck till cancelled": func(ctx context.Context) { <-ctx.Done() },
		"panics":               func(context.Context) { panic("oh no") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				o := r.wantsProgress()
				sc := r.answersAfter(o.Session, 30*time.Second)
				call := r.begin(o, sends(func(ctx context.Context, m protocol.Message) error {
					if _, ok := m.(*protocol.Request); ok {
						return sc.Deliver(ctx, m)
					}
					broken(ctx)
					return fmt.Errorf("not delivered")
				}), "up")
				began := time.Now()
				if _, err := call.Elicit(t.Context(), form("Sure?"), nil); err != nil {
					t.Error(err)
				}
				call.End()
				if took := time.Since(began); took > 32*time.Second {
					t.Errorf("the call took %s", took)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// A sdkClient is the client of one request behind an SDK: it takes progress, and a
// person answers each question after some time.
type sdkClient struct {
	thinks  time.Duration
	deliver func(ctx context.Context, p *protocol.Progress) error
}

func (c sdkClient) Ask(ctx context.Context, _ elicitation.Question,
	_ func()) (json.RawMessage, error) {
	select {
	case <-time.After(c.thinks):
		return json.RawMessage(yes), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c sdkClient) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	return c.deliver(ctx, p)
}

// Hosts whose SDK asks deliver progress with the SDK, too: in the context that holds
// the stream, one at a time, and nothing once the call is over.
func TestHeartbeatsThroughAnSDK(t *testing.T) {
	type streamKey struct{}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		last, texts, total := 0.0, "", 9.0
		client := sdkClient{40 * time.Second,
			func(ctx context.Context, p *protocol.Progress) error {
				if p.Progress <= last || *p.Total != total || p.Token != protocol.StringID("p") {
					t.Errorf("%+v follows %v", p, last)
				}
				if ctx.Value(streamKey{}) != "stream" {
					t.Error("the context does not hold the stream")
				}
				last, texts = p.Progress, texts+p.Message+", "
				return nil
			}}
		call := r.beginIn(context.WithValue(t.Context(), streamKey{}, "stream"),
			r.wantsProgress(), elicitation.ViaAsker(client), "up")
		relay := func(progress float64) {
			p := &protocol.Progress{Token: protocol.IntID(7), Progress: progress, Total: &total,
				Message: fmt.Sprint(progress)}
			if err := call.RelayProgress(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
		relay(1)
		if _, err := call.Elicit(t.Context(), form("Sure?"), nil); err != nil {
			t.Error(err)
		}
		relay(1)
		relay(1.00001)
		relay(2)
		call.End()
		relay(3)
		time.Sleep(time.Hour)
		const beat = "waiting for an answer, "
		if want := "1, " + beat + beat + beat + "1.00001, 2, "; texts != want || last != 2 {
			t.Errorf("the client heard %s up to %v, want %s up to 2", texts, last, want)
		}
	})
}

// The result of a call may follow its end at once: progress that is on its way has
// left by then, and what waits for its turn is not sent.
func TestEndWaitsForProgress(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration // of the transport
		ends  time.Duration // of the call
	}{
		"slow":  {500 * time.Millisecond, 500 * time.Millisecond},
		"stuck": {time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				var began, left atomic.Int32
				client := sdkClient{0, func(ctx context.Context, _ *protocol.Progress) error {
					began.Add(1)
					select {
					case <-time.After(c.takes):
						left.Add(1)
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}}
				call := r.begin(r.wantsProgress(), elicitation.ViaAsker(client), "up")
				for n := range 2 {
					go func() {
						_ = call.RelayProgress(t.Context(),
							&protocol.Progress{Progress: float64(n)})
					}()
				}
				synctest.Wait()
				before := time.Now()
				call.End()
				if took := time.Since(before); took != c.ends {
					t.Errorf("the end took %s, want %s", took, c.ends)
				}
				leftInTime := left.Load()
				time.Sleep(2 * time.Hour)
				if left.Load() != leftInTime || began.Load() != 1 {
					t.Errorf("%d of %d left before the end, %d in all", leftInTime, began.Load(),
						left.Load())
				}
			})
		})
	}
}

// A transport that is at a heartbeat and does not watch its context holds up the end of
// the wait, and then that of the call.
func TestEndWaitsForAHeartbeatThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		client := sdkClient{time.Hour, func(context.Context, *protocol.Progress) error {
			time.Sleep(time.Minute)
			return nil
		}}
		call := r.begin(r.wantsProgress(), elicitation.ViaAsker(client), "up")
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = call.Elicit(t.Context(), form("Sure?"), nil)
		}()
		time.Sleep(10 * time.Second)
		before := time.Now()
		call.End()
		if took := time.Since(before); took > 2*time.Second {
			t.Errorf("the end took %s, want two seconds at most", took)
		}
		<-asked
		time.Sleep(2 * time.Hour)
	})
}

// What the client did not ask for, or its SDK cannot deliver, is an error of the
// host's.
func TestProgressThatNobodyWants(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	o := r.wantsProgress()
	fails := sdkClient{0, func(context.Context, *protocol.Progress) error {
		t.Error("progress was delivered")
		return nil
	}}
	for name, call := range map[string]*elicitation.Call{
		"no token": r.begin(elicitation.Origin{Session: o.Session}, elicitation.ViaAsker(fails),
			"up"),
		"no way": r.begin(o, byHand(), "up"),
	} {
		if err := call.RelayProgress(t.Context(), &protocol.Progress{Progress: 1}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
