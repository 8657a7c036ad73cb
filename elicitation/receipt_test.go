package elicitation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// An answer counts as accepted once its upstream has got it.
func TestAnswersCountWhenTheUpstreamHasThem(t *testing.T) {
	const secret = "canary-4242-secret"
	for _, test := range []struct {
		name   string
		report func(receipt *elicitation.Receipt)
		want   string // the end event
		cause  string
	}{
		{"confirmed", func(r *elicitation.Receipt) { r.Confirm() }, "completed", ""},
		{"confirmed and then failed", func(r *elicitation.Receipt) {
			r.Confirm()
			r.Fail(errors.New(secret))
		}, "completed", ""},
		{"failed", func(r *elicitation.Receipt) { r.Fail(errors.New(secret)) }, "error",
			"error of type *errors.errorString"},
		{"failed without a cause", func(r *elicitation.Receipt) { r.Fail(nil) }, "error",
			"elicitation: the upstream did not get the answer"},
		{"failed and then confirmed", func(r *elicitation.Receipt) {
			r.Fail(context.Canceled)
			r.Confirm()
		}, "error", "context canceled"},
		{"never reported", func(*elicitation.Receipt) {
			time.Sleep(10 * time.Second)
		},
			"error", "elicitation: nothing said that the upstream got the answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				s := r.attach(elicitation.SessionInfo{ID: "s1"})
				sc := r.answers(s, yes)
				call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
				defer call.End()
				var receipt elicitation.Receipt
				answer, err := call.Elicit(t.Context(), form("m"),
					&elicitation.ElicitOptions{Receipt: &receipt})
				if err != nil || answer == nil {
					t.Fatal(err)
				}
				r.wantEvents("created delivered")
				if r.Pending() != 1 || r.value("elicitation_pending") != 1 {
					t.Error("the question has ended before its upstream has the answer")
				}
				id := sc.requests()[0].ID
				r.complete(s.Sender(), result(id, yes), elicitation.Duplicate)
				d := r.HandleProgress(s.Sender(), progress(id, 1))
				if d != elicitation.Duplicate {
					t.Errorf("progress is %v", d)
				}
				test.report(&receipt)
				synctest.Wait()
				r.wantEvents("created delivered " + test.want)
				end := r.logs.All()[2].ContextMap()
				if cause, _ := end["error"].(string); cause != test.cause {
					t.Errorf("the log says %v", end)
				}
				accepted, lost := 1.0, 0.0
				if test.want == "error" {
					accepted, lost = 0, 1
					if end["reason"] != "answer_lost" || end["action"] != "" {
						t.Errorf("the log says %v", end)
					}
				}
				if r.value("elicitation_completed_total", "action", "accept") != accepted ||
					r.value("elicitation_errors_total", "reason", "answer_lost") != lost {
					t.Error("the metrics count another end")
				}
				r.complete(s.Sender(), result(id, yes), elicitation.Duplicate)
				r.settled()
			})
		})
	}
}

// Nothing but the receipt decides about a question that has been answered.
func TestNothingElseEndsAnAnsweredQuestion(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(call *elicitation.Call, offered *elicitation.Offered, cancel func())
	}{
		{"the call ends", func(c *elicitation.Call, _ *elicitation.Offered, _ func()) { c.End() }},
		{"the upstream's request ends",
			func(_ *elicitation.Call, _ *elicitation.Offered, cancel func()) { cancel() }},
		{"it is withdrawn", func(_ *elicitation.Call, o *elicitation.Offered, _ func()) {
			o.Cancel()
		}},
		{"its delivery fails", func(_ *elicitation.Call, o *elicitation.Offered, _ func()) {
			o.FailDelivery(context.Canceled)
		}},
		{"the session ends", func(c *elicitation.Call, _ *elicitation.Offered, _ func()) {
			c.Origin().Session.Detach()
		}},
		{"its delivery is confirmed",
			func(_ *elicitation.Call, o *elicitation.Offered, _ func()) { o.ConfirmDelivery() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				s := r.attach(elicitation.SessionInfo{ID: "s1"})
				call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
				defer call.End()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var receipt elicitation.Receipt
				var outcomes []elicitation.Outcome
				offered, err := call.Offer(ctx, form("m"),
					&elicitation.ElicitOptions{Receipt: &receipt},
					func(o elicitation.Outcome) { outcomes = append(outcomes, o) })
				if err != nil {
					t.Fatal(err)
				}
				receipt.Confirm() // too early: there is no answer
				r.complete(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted)
				test.end(call, offered, cancel)
				synctest.Wait()
				r.wantEvents("created delivered")
				receipt.Confirm()
				r.wantEvents("created delivered completed")
				if len(outcomes) != 1 || outcomes[0].Result == nil {
					t.Errorf("outcomes are %+v", outcomes)
				}
				r.settled()
			})
		})
	}
}

// A question that ends without an answer has nothing to be received.
func TestReceiptOfAQuestionWithoutAnAnswer(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	call := r.begin(elicitation.Origin{Session: s},
		elicitation.ViaFrames(r.answers(s, `{"action":"decline"}`)), "up")
	defer call.End()
	var receipt, unused elicitation.Receipt
	unused.Confirm()
	unused.Fail(context.Canceled)
	if _, err := call.Elicit(t.Context(), form("m"),
		&elicitation.ElicitOptions{Receipt: &receipt}); err != nil {
		t.Fatal(err)
	}
	receipt.Confirm()
	r.wantEvents("created delivered completed")
	var refusal elicitation.Receipt
	if _, err := call.Elicit(t.Context(), nil,
		&elicitation.ElicitOptions{Receipt: &refusal}); err == nil {
		t.Error("nothing was asked, and that was not refused")
	}
	refusal.Confirm()
	refusal.Fail(context.Canceled)
	r.settled()
}
