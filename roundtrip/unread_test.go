package roundtrip_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

type Another struct {
	Reason string `json:"reason"`
}

// TestHandlerThatReadsNoAnswer: a handler that reads another key or type would use up the rounds.
// The mistake is reported at the second answer.
func TestHandlerThatReadsNoAnswer(t *testing.T) {
	askUnless := func(read func(ctx context.Context) bool, items ...roundtrip.Item) roundtrip.Handler {
		return func(ctx context.Context) (protocol.Result, error) {
			if read(ctx) {
				return say("done")
			}
			return ask(items...)
		}
	}
	confirm := elicit("confirm")
	runs := 0
	for name, tc := range map[string]struct {
		handler   roundtrip.Handler
		questions int
		bug       bool
	}{
		"another key": {askUnless(func(ctx context.Context) bool {
			_, ok := roundtrip.AcceptedContent[Confirmation](ctx, "confrim")
			return ok
		}, confirm), 2, true},
		"another type": {askUnless(func(ctx context.Context) bool {
			_, ok := roundtrip.AcceptedContent[Another](ctx, "confirm")
			return ok
		}, confirm), 2, true},
		"the message of a model": {askUnless(func(ctx context.Context) bool {
			_, ok := roundtrip.Sampled(ctx, "sumary")
			return ok
		}, roundtrip.CreateMessage("summary", message("Sum up"))), 2, true},
		"one that does not come to the second": {askUnless(func(ctx context.Context) bool {
			runs++
			_, ok := roundtrip.AcceptedContent[Confirmation](ctx, "amount")
			if !ok || runs < 4 {
				return false
			}
			_, ok = roundtrip.AcceptedContent[Confirmation](ctx, "confirm")
			return ok
		}, elicit("amount"), confirm), 6, false},
		"one that has read it": {askUnless(func(ctx context.Context) bool {
			runs++
			_, ok := roundtrip.AcceptedContent[Confirmation](ctx, "confirm")
			return ok && runs%4 == 0
		}, confirm), 3, false},
		"a visit, which ends elsewhere": {askUnless(func(context.Context) bool {
			runs++
			return runs%5 == 0
		}, roundtrip.ElicitURL("login", "Log in", "https://id.example/login")), 4, false},
		"asked again on purpose": {askUnless(func(context.Context) bool {
			runs++
			return runs%5 == 0
		}, roundtrip.Elicit[Confirmation]("confirm", "?", roundtrip.AskAgain())), 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			runs = 0
			inEveryMode(t, roundtrip.Options{}, person{}, tc.handler, func(t *testing.T, _ mode,
				j *journey, result protocol.Result, err error) {
				runs = 0
				if j.traffic() != tc.questions {
					t.Errorf("%d questions, want %d", j.traffic(), tc.questions)
				}
				bugs := all[event.ServerBug](j.events)
				switch {
				case !tc.bug && (err != nil || show(result) != "done" || len(bugs) > 0):
					t.Errorf("got %v, %v, bugs %+v", result, err, bugs)
				case tc.bug && (err == nil || len(bugs) != 1 ||
					!strings.Contains(bugs[0].Err.Error(), "answered twice and is asked again")):
					t.Errorf("got %v, %v, bugs %+v", result, err, bugs)
				}
			})
		})
	}
}
