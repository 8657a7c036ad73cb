package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestManyColdAnswersAreDropped: each cold answer that is kept is compared with
// every one that follows, so a body of a megabyte once took a quarter of a
// minute.
func TestManyColdAnswersAreDropped(t *testing.T) {
	const sent = 50_000
	many := protocol.InputResponses{}
	for i := range sent {
		many = append(many, protocol.KeyedResponse{Key: fmt.Sprint("k", i), Result: json.RawMessage(accepted)})
	}
	for _, tc := range []struct {
		name string
		opts roundtrip.Options
		cold bool
	}{
		{"AcceptCold", roundtrip.Options{}, true},
		{"Plain", roundtrip.Options{Plain: true}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, tc.opts, func(ctx context.Context) (protocol.Result, error) {
				_, first := roundtrip.AcceptedContent[Confirmation](ctx, "k0")
				_, last := roundtrip.AcceptedContent[Confirmation](ctx, fmt.Sprint("k", sent-1))
				return say(fmt.Sprintf("first %v, last %v, dropped %d", first, last, len(roundtrip.DroppedAnswers(ctx))))
			})
			c.call.AcceptCold = tc.cold
			c.call.Responses = many
			want := fmt.Sprintf("first true, last false, dropped %d", sent-roundtrip.MaxUnsolicited)
			if got := c.done(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// lenient is a Sealer that takes a token for the same with spaces behind it, as
// one made of a lenient base64 decoder does.
type lenient struct{ *roundtrip.Keyring }

func (l lenient) Open(ctx context.Context, text string) ([]byte, error) {
	return l.Keyring.Open(ctx, strings.TrimRight(text, " "))
}

// TestOtherSpellingOfSpentState: a guard is about states, however a Sealer lets
// them be spelled.
func TestOtherSpellingOfSpentState(t *testing.T) {
	opts := roundtrip.Options{Sealer: lenient{roundtrip.EphemeralKeyring()}, Guard: roundtrip.NewMemoryGuard(0)}
	paid := 0
	c := newClient(t, opts, func(ctx context.Context) (protocol.Result, error) {
		if _, ok := roundtrip.AcceptedContent[Confirmation](ctx, "pay"); !ok {
			return ask(roundtrip.Elicit[Confirmation]("pay", "Pay?"))
		}
		paid++
		return say("paid")
	})
	c.ask("pay")
	state, _ := c.call.State.Text()
	c.answer("pay", accepted).done()
	for _, spelling := range []string{state, state + " ", state + "  "} {
		c.call.State = protocol.StateText(spelling)
		c.answer("pay", `{"action":"accept","content":{"reason":"again"}}`).fails(protocol.CodeInvalidParams)
	}
	if paid != 1 {
		t.Errorf("the handler paid %d times, want once", paid)
	}
}
