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

// until returns a function that brings a reply after some time, or fails as its context does.
func until(after time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(after):
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errGone = errors.New("the owner is gone")

// No client waits for a replica for more than a second, and a reply that it takes for delivered is
// delivered or reported.
func TestForwardedReplies(t *testing.T) {
	for _, test := range []struct {
		name   string
		after  time.Duration
		err    error
		ended  bool
		events string
		lost   elicitation.Reason
	}{
		{name: "at once", ended: true},
		{name: "refused at once", err: errGone, ended: true},
		{name: "before the client goes", after: 900 * time.Millisecond, ended: true},
		{name: "late", after: 9 * time.Minute},
		{name: "owner is gone in the end", after: time.Minute, err: errGone, events: "reply_lost",
			lost: elicitation.ReasonDelivery},
		{name: "owner stays silent", after: time.Hour, events: "reply_lost",
			lost: elicitation.ReasonTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				ended, err := r.ForwardReply(ctx, alice(), 100, until(test.after, test.err))
				if took := time.Since(began); took > time.Second {
					t.Errorf("the client waits for %v", took)
				}
				if ended != test.ended || ended && err != test.err || !ended && err != nil {
					t.Errorf("it is %v, %v", ended, err)
				}
				cancel() // the request of the client has ended
				time.Sleep(2 * time.Hour)
				r.wantEvents(test.events)
				lost := 0.0
				if test.lost != "" {
					lost = r.value("elicitation_replies_lost_total", "reason", string(test.lost))
				}
				if all := r.value("elicitation_replies_lost_total"); all != lost ||
					(lost == 1) != (test.lost != "") {
					t.Errorf("%v replies are lost, %v of them by %q", all, lost, test.lost)
				}
			})
		})
	}
}

func TestLostReplyIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{MaxTimeout: time.Hour})
		late := until(time.Minute, errGone)
		if _, err := r.ForwardReply(t.Context(), alice(), 1, late); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		entry := r.logs.All()[0]
		fields := entry.ContextMap()
		if entry.Message != "elicitation.reply_lost" || entry.Level.String() != "warn" ||
			fields["reason"] != "delivery" || fields["error"] != errGone.Error() ||
			fields["duration_ms"] != 60_000.0 {
			t.Errorf("the log says %s: %v", entry.Message, fields)
		}
	})
}

// A principal whose share is used up has no more replies kept, and holds up nobody else.
func TestForwardedRepliesAreBounded(t *testing.T) {
	for _, test := range []struct {
		name  string
		size  int
		share int
	}{{"count", 1, 64}, {"bytes", 2 << 20, 4}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				keep := func(from protocol.Principal, size int) error {
					ended, err := r.ForwardReply(t.Context(), from, size,
						until(5*time.Minute, nil))
					if ended {
						t.Error("it has ended")
					}
					return err
				}
				for range test.share {
					if err := keep(alice(), test.size); err != nil {
						t.Fatal(err)
					}
				}
				const refusals = 70 // more than the share of count
				for range refusals {
					began, stopped := time.Now(), time.Time{}
					ended, err := r.ForwardReply(t.Context(), alice(), test.size,
						func(ctx context.Context) error {
							<-ctx.Done()
							stopped = time.Now()
							return ctx.Err()
						})
					synctest.Wait()
					refused(t, err, elicitation.ReasonCapacity, protocol.CodeBusy,
						"Too many replies wait for other replicas")
					if ended || stopped.Sub(began) != time.Second {
						t.Errorf("it is %v, and was tried for %v", ended, stopped.Sub(began))
					}
				}
				if ended, err := r.ForwardReply(t.Context(), alice(), test.size,
					until(0, nil)); !ended || err != nil {
					t.Errorf("a reply that arrives at once is %v, %v", ended, err)
				}
				if err := keep(bob(), test.size); err != nil {
					t.Errorf("another principal is refused: %v", err)
				}
				r.wantEvents(strings.TrimSpace(strings.Repeat("rejected ", refusals)))
				time.Sleep(10 * time.Minute)
				var again sync.WaitGroup
				for range 64 {
					again.Go(func() {
						if err := keep(alice(), 1); err != nil {
							t.Errorf("room that was given back is not there: %v", err)
						}
					})
				}
				again.Wait()
				time.Sleep(10 * time.Minute)
			})
		})
	}
}

// Shutdown waits for replies that are on their way, and ends them with its context.
func TestShutdownWaitsForForwardedReplies(t *testing.T) {
	for _, test := range []struct {
		name     string
		patience time.Duration
		events   string
	}{
		{"long enough", time.Minute, ""},
		{"too short", 5 * time.Second, "reply_lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				began := time.Now()
				if _, err := r.ForwardReply(t.Context(), alice(), 1,
					until(30*time.Second, nil)); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.patience)
				defer cancel()
				err := r.Shutdown(ctx)
				if (err != nil) != (test.events != "") {
					t.Errorf("shutdown: %v", err)
				}
				if took := time.Since(began); took > 31*time.Second {
					t.Errorf("it took %v", took)
				}
				r.wantEvents(test.events)
				if test.events != "" &&
					r.value("elicitation_replies_lost_total", "reason", "shutdown") != 1 {
					t.Error("the loss is counted by another reason")
				}
				ended, err := r.ForwardReply(t.Context(), alice(), 1, until(time.Minute, nil))
				if ended != (test.events != "") ||
					!ended && !errors.Is(err, elicitation.ReasonShutdown) {
					t.Errorf("a reply after the end is %v, %v", ended, err)
				}
			})
		})
	}
}

// The completion of a visit that no client waits for is reported.
func TestDroppedCompletionIsReported(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	r.wantCompletion("up", "1", elicitation.Unknown)
	r.wantEvents("completion_dropped")
	if up := r.logs.All()[0].ContextMap()["upstream_session"]; up != "up" {
		t.Errorf("the log says %v", up)
	}
}
