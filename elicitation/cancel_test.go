package elicitation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Whoever withdraws a question, the client is told once, with a reason, and the
// upstream gets one error.
func TestCancellation(t *testing.T) {
	type scene struct {
		*rig
		session        *elicitation.Session
		call           *elicitation.Call
		client, server context.CancelFunc
	}
	for _, test := range []struct {
		name    string
		cancel  func(s *scene)
		by      string
		code    int64
		message string
		reason  string // what the client is told
		kind    error
	}{
		{"upstream's context", func(s *scene) { s.server() }, "upstream", protocol.CodeFlowEnded, "Elicitation cancelled", "the server withdrew the question", elicitation.ErrCancelled},
		{"upstream's notification", func(s *scene) {
			if s.CancelUpstream("up", protocol.StringID("7")) || s.CancelUpstream("other", protocol.IntID(7)) || s.CancelUpstream("up", protocol.ID{}) {
				s.Error("another id was taken for the question's")
			}
			if !s.CancelUpstream("up", protocol.IntID(7)) || s.CancelUpstream("up", protocol.IntID(7)) {
				s.Error("the question is not cancelled once")
			}
		}, "upstream", protocol.CodeFlowEnded, "Elicitation cancelled", "the server withdrew the question", elicitation.ErrCancelled},
		{"client's request", func(s *scene) { s.client() }, "client", protocol.CodeFlowEnded, "Elicitation cancelled: the request that caused it has ended", "the request that asked has ended", elicitation.ErrCancelled},
		{"end of the call", func(s *scene) { s.call.End() }, "call", protocol.CodeFlowEnded, "Elicitation cancelled: the request that caused it has ended", "the request that asked has ended", elicitation.ErrCancelled},
		{"end of the session", func(s *scene) { s.session.Detach() }, "session", -32601, "No client session available", "the request that asked has ended", elicitation.ErrNoSession},
		{"shutdown", func(s *scene) {
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("Shutdown: %v", err)
			}
		}, "shutdown", protocol.CodeBusy, "The gateway is shutting down", "the gateway is shutting down", elicitation.ErrShutdown},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{rig: newRig(t, elicitation.Options{})}
				s.session = s.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
				sc := &screen{t: t}
				var client, server context.Context
				client, s.client = context.WithCancel(t.Context())
				server, s.server = context.WithCancel(t.Context())
				defer s.client()
				defer s.server()
				s.call = s.beginIn(client, elicitation.Origin{Session: s.session}, elicitation.Frames(sc), "up")
				defer s.call.End()
				done := make(chan error)
				go func() {
					_, err := s.call.Elicit(server, form("m"), &elicitation.ElicitOptions{UpstreamID: protocol.IntID(7)})
					done <- err
				}()
				synctest.Wait()
				go test.cancel(s)
				err := <-done
				refused(t, err, test.kind, test.code, test.message)
				if e, _ := errors.AsType[*elicitation.Error](err); string(e.By) != test.by || e.RequestID == "" {
					t.Errorf("cancelled by %s, want %s", e.By, test.by)
				}
				time.Sleep(time.Second)
				told := sc.notifications("notifications/cancelled")
				if len(told) != 1 {
					t.Fatalf("the client was told %d times", len(told))
				}
				var c protocol.Cancelled
				if err := jsonx.Decode(told[0].Params, &c); err != nil || c.RequestID != sc.requests()[0].ID || c.Reason != test.reason {
					t.Errorf("the client was told %s", told[0].Params)
				}
				s.complete(s.session.From(), result(sc.requests()[0].ID, yes), elicitation.Expired)
				s.wantEvents("created delivered cancelled")
				if n := s.value("elicitation_cancelled_total", "by", test.by); n != 1 {
					t.Errorf("cancelled{%s} is %v", test.by, n)
				}
				s.settled()
			})
		})
	}
}

// In the split form the host is handed the frame that withdraws the question.
func TestWithdrawInSplitForm(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	_, offered, outcome := r.offered()
	offered.Delivered()
	offered.Cancel()
	var c protocol.Cancelled
	if outcome.Withdraw == nil || outcome.Withdraw.Method != protocol.NotifyCancelled {
		t.Fatalf("outcome is %+v", outcome)
	}
	if err := jsonx.Decode(outcome.Withdraw.Params, &c); err != nil || c.RequestID != offered.Request().ID {
		t.Errorf("withdraws %s", outcome.Withdraw.Params)
	}
}

// After its end a call takes no questions, whatever ended it.
func TestNothingAfterTheEnd(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	ask := func(c *elicitation.Call) error {
		_, err := c.Elicit(t.Context(), form("m"), nil)
		return err
	}
	ended := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t}), "up")
	ended.End()
	ended.End()
	refused(t, ask(ended), elicitation.ErrNoSession, -32601, "No client session available")

	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := r.beginIn(ctx, elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t}), "up")
		defer cancelled.End()
		cancel()
		synctest.Wait()
		refused(t, ask(cancelled), elicitation.ErrNoSession, -32601, "No client session available")
	})

	open := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(&screen{t: t}), "up")
	defer open.End()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := open.Elicit(gone, form("m"), nil)
	refused(t, err, elicitation.ErrNoSession, -32601, "No client session available")
	s.Detach()
	s.Detach()
	refused(t, ask(open), elicitation.ErrNoSession, -32601, "No client session available")
	if _, err := r.Begin(t.Context(), elicitation.Origin{Session: s}, elicitation.Via{}, "up"); !errors.Is(err, elicitation.ErrNoSession) {
		t.Errorf("Begin: %v", err)
	}
	if _, err := r.Begin(t.Context(), elicitation.Origin{}, elicitation.Via{}, "up"); err == nil {
		t.Error("Begin without a session")
	}
	r.settled()
}

func TestAttach(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	if _, err := r.Attach(elicitation.SessionInfo{ID: "s1"}); err == nil {
		t.Error("one id was attached twice")
	}
	s.Detach()
	if again := r.attach(elicitation.SessionInfo{ID: "s1"}); again.ID() != "s1" {
		t.Errorf("id is %q", again.ID())
	}
	a, b := r.attach(elicitation.SessionInfo{}), r.attach(elicitation.SessionInfo{})
	if a.ID() == b.ID() || len(a.ID()) != 32 {
		t.Errorf("random ids are %q and %q", a.ID(), b.ID())
	}
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s, offered, outcome := r.offered()
		offered.Delivered()
		done := make(chan error)
		go func() { done <- r.Shutdown(t.Context()) }()
		synctest.Wait()
		if _, err := r.Attach(elicitation.SessionInfo{}); !errors.Is(err, elicitation.ErrShutdown) {
			t.Errorf("Attach: %v", err)
		}
		if _, err := r.Begin(t.Context(), elicitation.Origin{Session: s}, elicitation.Via{}, "up"); !errors.Is(err, elicitation.ErrShutdown) {
			t.Errorf("Begin: %v", err)
		}
		_, err := offered.Call().Offer(t.Context(), form("m"), nil, nil)
		refused(t, err, elicitation.ErrShutdown, protocol.CodeBusy, "The gateway is shutting down")
		_, err = r.ElicitFrom(t.Context(), "up", form("m"), nil)
		refused(t, err, elicitation.ErrShutdown, protocol.CodeBusy, "The gateway is shutting down")
		_, err = r.Exclusive(t.Context(), "up")
		refused(t, err, elicitation.ErrShutdown, protocol.CodeBusy, "The gateway is shutting down")
		// What was pending may still be answered.
		r.complete(s.From(), result(offered.Request().ID, yes), elicitation.Accepted)
		if err := <-done; err != nil || outcome.Result == nil {
			t.Errorf("Shutdown: %v, outcome %+v", err, outcome)
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
		r.settled()
	})
}

// The sweep reports what the host forgot, at the second look, and ends nothing.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		other := r.attach(elicitation.SessionInfo{ID: "s2"})
		ctx, cancel := context.WithCancel(t.Context())
		forgotten := r.beginIn(ctx, elicitation.Origin{Session: s, CallID: "forgotten"}, elicitation.Via{}, "up")
		orphan := r.begin(elicitation.Origin{Session: other, CallID: "orphan"}, elicitation.Via{}, "up")
		long := r.begin(elicitation.Origin{Session: s, CallID: "long"}, elicitation.Via{}, "up")
		cancel()
		other.Detach()
		time.Sleep(5*time.Minute + time.Second)
		r.wantEvents("")
		time.Sleep(5 * time.Minute)
		r.wantEvents("leaked leaked")
		for _, e := range r.logs.All() {
			if id := e.ContextMap()["call_id"]; id != "forgotten" && id != "orphan" {
				t.Errorf("%v is reported", id)
			}
		}
		for _, c := range []*elicitation.Call{forgotten, orphan, long} {
			c.End()
		}
		time.Sleep(time.Hour)
		r.wantEvents("leaked leaked")
		again := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
		time.Sleep(time.Hour)
		again.End()
		r.wantEvents("leaked leaked")
	})
}

// A transport that is deaf to its context does not hold up a shutdown for good.
func TestShutdownWithDeafTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		deaf := elicitation.DeliverFunc(func(_ context.Context, m protocol.Message) error {
			if _, ok := m.(*protocol.Notification); ok {
				time.Sleep(time.Hour)
			}
			return nil
		})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(deaf), "up")
		defer call.End()
		go call.Elicit(t.Context(), form("m"), nil)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := r.Shutdown(ctx); !errors.Is(err, context.Canceled) || time.Since(began) > 5*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(began))
		}
		r.settled()
		time.Sleep(2 * time.Hour)
	})
}

// A call or session that ends while a question is being made ready takes the
// question with it before it exists.
func TestEndBeforeTheBeginning(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(*elicitation.Call)
	}{
		{"call", (*elicitation.Call).End},
		{"session", func(c *elicitation.Call) { c.Origin().Session.Detach() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			var call *elicitation.Call
			running := true
			pause := func() func() {
				running = false
				test.end(call)
				return func() { running = true }
			}
			call = r.begin(elicitation.Origin{Session: s, PauseClock: pause}, elicitation.Via{}, "up")
			defer call.End()
			_, err := call.Offer(t.Context(), form("m"), nil, func(elicitation.Outcome) { t.Error("it has an outcome") })
			refused(t, err, elicitation.ErrNoSession, -32601, "No client session available")
			if !running {
				t.Error("the host's clock stands still")
			}
			r.wantEvents("rejected")
			r.settled()
		})
	}
}
