package elicitation_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// errors.Is matches a reason and the more general one, if any, but not the reverse.
func TestErrorIsItsReason(t *testing.T) {
	general := map[elicitation.Reason]elicitation.Reason{
		elicitation.ReasonMode:           elicitation.ReasonCapability,
		elicitation.ReasonTooLarge:       elicitation.ReasonInvalidQuestion,
		elicitation.ReasonSecret:         elicitation.ReasonInvalidQuestion,
		elicitation.ReasonURLPolicy:      elicitation.ReasonInvalidQuestion,
		elicitation.ReasonInvalidContent: elicitation.ReasonInvalidReply,
	}
	all := []elicitation.Reason{
		elicitation.ReasonNoSession, elicitation.ReasonAmbiguous, elicitation.ReasonCapability,
		elicitation.ReasonMode, elicitation.ReasonInvalidQuestion, elicitation.ReasonTooLarge,
		elicitation.ReasonSecret, elicitation.ReasonURLPolicy, elicitation.ReasonCapacity,
		elicitation.ReasonShutdown, elicitation.ReasonDelivery, elicitation.ReasonClientError,
		elicitation.ReasonInvalidReply, elicitation.ReasonInvalidContent,
		elicitation.ReasonTimeout, elicitation.ReasonCancelled,
	}
	for _, reason := range all {
		t.Run(string(reason), func(t *testing.T) {
			err := fmt.Errorf("host: %w", newError(reason, ""))
			for _, target := range all {
				want := target == reason || target == general[reason]
				wantEqual(t, fmt.Sprint("is ", target), errors.Is(err, target), want)
			}
			wantEqual(t, "printed as", fmt.Sprint(reason), string(reason))
		})
	}
}

// A cancelled question also matches the reason of a refusal with the same cause.
func TestCancelledQuestionIsItsCause(t *testing.T) {
	for by, cause := range map[string]elicitation.Reason{
		"session":  elicitation.ReasonNoSession,
		"shutdown": elicitation.ReasonShutdown,
		"upstream": "",
		"client":   "",
		"call":     "",
	} {
		t.Run(string(by), func(t *testing.T) {
			err := newError(elicitation.ReasonCancelled, by)
			wantIs(t, "the cause", err, elicitation.ReasonCancelled)
			for _, other := range []elicitation.Reason{
				elicitation.ReasonNoSession, elicitation.ReasonShutdown,
			} {
				wantEqual(t, fmt.Sprint("is ", other), errors.Is(err, other), other == cause)
			}
		})
	}
}

func newError(reason elicitation.Reason, by string) error {
	wire := protocol.Errorf(protocol.CodeInternalError, "refused")
	return &elicitation.Error{Reason: reason, By: by, Wire: wire}
}
