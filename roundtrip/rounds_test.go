package roundtrip_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// insatiable asks something new in every round.
func insatiable(ctx context.Context) (protocol.Result, error) {
	return ask(roundtrip.Elicit[Confirmation](fmt.Sprint("q", roundtrip.Number(ctx)), "And?"))
}

func TestRoundCap(t *testing.T) {
	for _, tc := range []struct{ max, want int }{{0, 8}, {3, 3}, {12, 12}} {
		c := newClient(t, roundtrip.Options{MaxRounds: tc.max}, insatiable)
		for n := 1; n <= tc.want; n++ {
			key := fmt.Sprint("q", n)
			c.ask(key)
			c.answer(key, accepted)
			asked := all[roundtrip.InputRequested](c.events)
			if got := asked[n-1].RoundsLeft; got != tc.want-n {
				t.Errorf("cap %d: RoundsLeft is %d in round %d", tc.want, got, n)
			}
			if asked[n-1].Round != n || asked[n-1].Flow == "" || asked[n-1].Flow != asked[0].Flow {
				t.Errorf("event of round %d says %+v", n, asked[n-1].Where)
			}
		}
		contains(t, c.done(), "error: gave up after", fmt.Sprint(tc.want), fmt.Sprint("q", tc.want+1))
		if end := one[roundtrip.FlowEnded](t, c.events); end.How != roundtrip.EndRounds || end.Legs != tc.want+1 {
			t.Errorf("end %+v", end)
		}
	}
}

func TestRoundCapOfOtherFamilies(t *testing.T) {
	for _, method := range []string{protocol.MethodGetPrompt, protocol.MethodReadResource} {
		c := newClient(t, roundtrip.Options{MaxRounds: 1}, insatiable)
		c.call.Method = method
		c.ask("q1")
		contains(t, c.answer("q1", accepted).fails(protocol.CodeFlowEnded).Message, "gave up after 1 rounds")
	}
}

// TestStateOnlyRounds come back without a question, and count.
func TestStateOnlyRounds(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		n, _ := roundtrip.State[int](ctx)
		return ask(roundtrip.WithState(n + 1))
	})
	for range 8 {
		if asked := c.ask(); asked.InputRequests != nil {
			t.Fatalf("questions %v", asked.InputRequests)
		}
	}
	contains(t, c.done(), "gave up after 8 rounds")
}

// consent asks for one thing until it has it.
func consent(ctx context.Context) (protocol.Result, error) {
	if _, ok := roundtrip.AcceptedContent[Confirmation](ctx, "k"); ok {
		return say("done")
	}
	return ask(roundtrip.Elicit[Confirmation]("k", "?"))
}

// TestClientThatLosesTheState answers without the state: it is asked twice,
// and told why it is not asked a third time.
func TestClientThatLosesTheState(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, consent)
	lose := func() *client {
		c.call.State = protocol.RequestState{}
		return c.answer("k", accepted)
	}
	c.ask("k")
	lose().ask("k")
	contains(t, lose().done(), "error: ", "loses the requestState")
	contains(t, lose().done(), "error: ", "loses the requestState")

	c.call.Arguments = json.RawMessage(`{"env":"dev"}`)
	lose().ask("k") // another request is another count

	c.call.Method = protocol.MethodGetPrompt
	c.call.State = protocol.RequestState{}
	c.answer("k", accepted).ask("k")
	c.call.State = protocol.RequestState{}
	contains(t, c.answer("k", accepted).fails(protocol.CodeFlowEnded).Message, "loses the requestState")
}

// TestClientWithWrongKeys brings the state, and answers to something else.
func TestClientWithWrongKeys(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, consent)
	c.ask("k")
	c.answer("wrong", accepted).ask("k")
	contains(t, c.answer("wrong", accepted).done(), "error: ", "cannot be used")
	if end := one[roundtrip.FlowEnded](t, c.events); end.How != roundtrip.EndStateLost || end.Legs != 3 {
		t.Errorf("end %+v", end)
	}

	c = newClient(t, roundtrip.Options{}, consent)
	c.ask("k")
	c.answer("k", `{"method":"elicitation/create","result":`+accepted+`}`).ask("k")
	contains(t, c.answer("k", `null`).done(), "error: ", "their shape is wrong")
}

// TestClientThatRecovers brings good answers in between.
func TestClientThatRecovers(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, consent)
	c.ask("k")
	for range 2 {
		c.answer("wrong", accepted).ask("k")
		c.answer("k", `{"action":"accept"}`).ask("k") // heard, if not valid
	}
	if got := c.answer("wrong", accepted, "k", accepted).done(); got != "done" { // one good answer beside a wrong one will do
		t.Errorf("got %q", got)
	}

	// One that lost the state once and then brings it is taken off the table.
	c = newClient(t, roundtrip.Options{}, consent)
	c.answer("k", accepted).ask("k")
	if n := c.funnel.StatelessCallers(); n != 1 {
		t.Fatalf("%d losers, want 1", n)
	}
	c.answer("k", `{"action":"accept"}`).ask("k")
	if n := c.funnel.StatelessCallers(); n != 0 {
		t.Errorf("%d losers after the client came back with its state, want none", n)
	}
}

func TestLosersAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundtrip.Options{}, consent)
		for range 5 {
			c.call.State = protocol.RequestState{}
			c.answer("k", accepted).ask("k")
			time.Sleep(roundtrip.StatelessCallerTTL + time.Second)
		}
	})
}

// TestLoserTableIsBounded has more clients lose their state than are counted.
func TestLoserTableIsBounded(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, consent)
	for n := range roundtrip.MaxStatelessCallers + 50 {
		c.call = toolCall()
		c.call.Principal.Subject = fmt.Sprint("user", n)
		c.answer("k", accepted).ask("k")
	}
	if n := c.funnel.StatelessCallers(); n != roundtrip.MaxStatelessCallers {
		t.Errorf("%d losers are remembered, want %d", n, roundtrip.MaxStatelessCallers)
	}
}
