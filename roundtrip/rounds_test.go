package roundtrip_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// insatiable asks something new in every round.
func insatiable(ctx context.Context) (protocol.Result, error) {
	key := fmt.Sprint("q", roundtrip.RoundOf(ctx).Number)
	return ask(roundtrip.Elicit[Confirmation](key, "And?"))
}

func TestRoundCap(t *testing.T) {
	for _, tc := range []struct {
		name      string
		max, want int
	}{
		{"default", 0, 8},
		{"fewer", 3, 3},
		{"more", 12, 12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, roundtrip.Options{Limits: roundtrip.Limits{Rounds: tc.max}},
				insatiable)
			for n := 1; n <= tc.want; n++ {
				key := fmt.Sprint("q", n)
				c.ask(key).answer(key, accepted)
				asked := all[event.InputRequested](c.events)
				if got := asked[n-1].RoundsLeft; got != tc.want-n {
					t.Errorf("cap %d: RoundsLeft is %d in round %d", tc.want, got, n)
				}
				if asked[n-1].Round != n || asked[n-1].Flow == "" ||
					asked[n-1].Flow != asked[0].Flow {
					t.Errorf("event of round %d says %+v", n, asked[n-1].Where)
				}
			}
			contains(t, c.done(), "error: gave up after", fmt.Sprint(tc.want),
				fmt.Sprint("q", tc.want+1))
			c.ended(words.EndRounds, tc.want+1)
		})
	}
}

// TestStateOnlyRounds come back without a question, and count.
func TestStateOnlyRounds(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		n, _ := roundtrip.State[int](ctx)
		return ask(roundtrip.WithState(n + 1))
	})
	for range 8 {
		if asked := c.ask().asked; asked.InputRequests != nil {
			t.Fatalf("questions %v", asked.InputRequests)
		}
	}
	contains(t, c.done(), "gave up after 8 rounds")
}

// Middleware between the funnel and the handler learns the round, and the flow as events
// name it.
func TestMiddlewareLearnsTheRound(t *testing.T) {
	var rounds []string
	c := serve(t, flow(func(ctx context.Context) string {
		round := roundtrip.RoundOf(ctx)
		if round.Number == 0 {
			t.Error("the handler has no round")
		}
		rounds = append(rounds, fmt.Sprint(round.Flow(), " ", round.Number))
		must(roundtrip.Ask[Confirmation](ctx, "k", "?"))
		return "done"
	}))
	c.ask("k").answer("k", accepted).done()
	flow := one[event.FlowEnded](t, c.events).Flow
	want := []string{flow + " 1", flow + " 2"}
	if flow == "" || !slices.Equal(rounds, want) {
		t.Errorf("got %v, want %v", rounds, want)
	}
	if round := roundtrip.RoundOf(t.Context()); round.Number != 0 || round.Flow() != "" {
		t.Errorf("outside of a round: got %v", round)
	}
}
