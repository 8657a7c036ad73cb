package elicitation_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

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
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				s := r.attach(elicitation.SessionInfo{Version: protocol.Version(version)})
				frames := &screen{t: t, version: version}
				frames.answer = func(q *protocol.Request) {
					go func() {
						time.Sleep(40 * time.Second)
						_, _ = r.Complete(t.Context(), s.From(), result(q.ID, yes))
					}()
				}
				call := r.begin(elicitation.Origin{Session: s, ProgressToken: protocol.StringID("p")}, elicitation.Frames(frames), "up")
				relay := func(progress float64, message string) {
					total := 9.0
					if err := call.RelayProgress(t.Context(), &protocol.Progress{Token: protocol.IntID(7), Progress: progress, Total: &total, Message: message}); err != nil {
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
				if want := "work, " + beat + beat + beat + beat + "raised, work, "; texts != want || last != 2 {
					t.Errorf("the client heard %s up to %v, want %s up to 2", texts, last, want)
				}
			})
		})
	}
}

func TestNoHeartbeats(t *testing.T) {
	for name, c := range map[string]struct {
		opts  elicitation.Options
		token protocol.ProgressToken
	}{
		"off":                       {elicitation.Options{Heartbeat: -1}, protocol.StringID("p")},
		"client wants no progress":  {elicitation.Options{}, protocol.ProgressToken{}},
		"the question is withdrawn": {elicitation.Options{}, protocol.StringID("p")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.opts)
				frames := &screen{t: t}
				call := r.begin(elicitation.Origin{Session: r.attach(elicitation.SessionInfo{}), ProgressToken: c.token}, elicitation.Frames(frames), "up")
				defer call.End()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					_, err := call.Elicit(ctx, form("Sure?"), nil)
					done <- err
				}()
				if name == "the question is withdrawn" {
					time.Sleep(time.Second)
					cancel()
				}
				time.Sleep(50 * time.Second)
				if got := frames.reported(); len(got) > 0 {
					t.Errorf("the client heard %+v", got)
				}
				cancel()
				<-done
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
				s := r.attach(elicitation.SessionInfo{})
				frames := elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
					if q, ok := m.(*protocol.Request); ok {
						go func() {
							time.Sleep(30 * time.Second)
							_, _ = r.Complete(t.Context(), s.From(), result(q.ID, yes))
						}()
						return nil
					}
					broken(ctx)
					return fmt.Errorf("not delivered")
				})
				call := r.begin(elicitation.Origin{Session: s, ProgressToken: protocol.StringID("p")}, elicitation.Frames(frames), "up")
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
