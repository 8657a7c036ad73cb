package roundtrip_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A fleet is replicas of two versions of a server that word a question differently.
type fleet struct {
	clients [2]*client
	paid    [2]int // by version
	words   [2]string
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{words: [2]string{"Pay 10 euros?", "Pay ten euros?"}}
	sealer, guard := ring(t, "k1"), store.NewMemoryGuard(0)
	for i := range f.clients {
		f.clients[i] = newClient(t, roundtrip.Options{Sealer: sealer, Guard: guard,
			AppVersion: fmt.Sprint("v", i+1)}, flow(func(ctx context.Context) string {
			must(roundtrip.Ask[Confirmation](ctx, "pay", f.words[i]))
			f.paid[i]++
			return "paid"
		}))
	}
	return f
}

// run makes a flow whose round n goes to replica route(n), and accepts every question. It returns
// the result and the last accepted message.
func (f *fleet) run(t *testing.T, route func(round int) int) (result, words string) {
	call := toolCall()
	for round := 1; ; round++ {
		c := f.clients[route(round)]
		c.call = call
		result, err := c.send()
		if err != nil {
			t.Fatalf("round %d: %v; events %+v", round, err, c.events.list)
		}
		asked, ok := result.(*protocol.InputRequiredResult)
		if !ok {
			return show(result), words
		}
		words = asked.InputRequests[0].Request.(*protocol.ElicitForm).Message
		call.State, call.Responses = asked.RequestState, answers("pay", accepted)
	}
}

func TestRollingDeploymentLosesNoFlow(t *testing.T) {
	f := newFleet(t)
	for i := range 100 {
		switched := 1 + i%3
		got, words := f.run(t, func(round int) int {
			if round <= switched {
				return 0
			}
			return 1
		})
		by := 0
		if switched == 1 {
			by = 1
		}
		if got != "paid" || words != f.words[by] {
			t.Errorf("got %q on %q", got, words)
		}
	}
	if f.paid[0]+f.paid[1] != 100 {
		t.Errorf("paid %v", f.paid)
	}
	e := all[event.QuestionReworded](f.clients[1].events)
	if len(e) == 0 || e[0].Asked != "v1" || e[0].Version != "v2" || e[0].Key != "pay" ||
		e[0].Flow == "" {
		t.Errorf("reported %+v", e)
	}
}

// TestRandomRoutingLosesNoFlow: each effect belongs to the version whose message was accepted last.
func TestRandomRoutingLosesNoFlow(t *testing.T) {
	f, random := newFleet(t), rand.New(rand.NewPCG(1, 2))
	for range 100 {
		last := 0
		got, words := f.run(t, func(int) int {
			last = random.IntN(2)
			return last
		})
		if got != "paid" || words != f.words[last] {
			t.Errorf("got %q on %q of version %d", got, words, last+1)
		}
	}
	for _, c := range f.clients {
		if bugs := all[event.ServerBug](c.events); len(bugs) != 0 {
			t.Errorf("bugs: %v", bugs)
		}
	}
}

// TestAlternatingVersionsRefuse: a flow that never returns to the asking version names both
// versions.
func TestAlternatingVersionsRefuse(t *testing.T) {
	f := newFleet(t)
	for range 10 {
		got, _ := f.run(t, func(round int) int { return round % 2 })
		contains(t, got, "error: ", `"v1"`, `"v2"`, "side by side")
	}
	if f.paid != [2]int{} {
		t.Errorf("paid %v", f.paid)
	}
	for _, c := range f.clients {
		if bugs := all[event.ServerBug](c.events); len(bugs) != 0 {
			t.Errorf("bugs: %v", bugs)
		}
	}
}
