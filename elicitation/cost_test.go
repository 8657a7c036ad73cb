package elicitation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// The benchmarks tell how long things take; that does not fail on a busy
// machine. What they allocate does.
func TestElicitationAllocates(t *testing.T) {
	const most = 40
	router, err := elicitation.New(&elicitation.Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := router.Attach(elicitation.SessionInfo{Principal: alice(),
		Capabilities: caps(true, true)})
	if err != nil {
		t.Fatal(err)
	}
	frames := elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
		_, err := router.HandleReply(ctx, s.Sender(),
			&protocol.Response{ID: m.(*protocol.Request).ID, Result: json.RawMessage(yes)})
		return err
	})
	call, err := router.Begin(t.Context(), elicitation.Origin{Session: s},
		elicitation.ViaFrames(frames), "up")
	if err != nil {
		t.Fatal(err)
	}
	defer call.End()
	params := form("Deploy to prod?")
	got := testing.AllocsPerRun(200, func() {
		if _, err := call.Elicit(t.Context(), params, nil); err != nil {
			t.Error(err)
		}
	})
	if got > most {
		t.Errorf("an elicitation allocates %v times, want at most %d", got, most)
	}
}

func TestPendingCosts(t *testing.T) {
	const n, most = 2000, 4 << 10
	router, err := elicitation.New(&elicitation.Options{MaxPending: -1, MaxPerUpstream: -1})
	if err != nil {
		t.Fatal(err)
	}
	before := heapInUse()
	for i := range n {
		s, err := router.Attach(elicitation.SessionInfo{Principal: protocol.Principal{Subject: fmt.Sprint(i)}, Capabilities: caps(true, true)})
		if err != nil {
			t.Fatal(err)
		}
		call, err := router.Begin(t.Context(), elicitation.Origin{Session: s}, elicitation.Via{},
			elicitation.UpstreamKey(fmt.Sprint("up ", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer call.End()
		if _, err := call.Offer(t.Context(), form("Deploy to prod?"), nil,
			func(elicitation.Outcome) {}); err != nil {
			t.Fatal(err)
		}
	}
	each := int64(heapInUse()-before) / n
	runtime.KeepAlive(router)
	if t.Logf("%d bytes", each); each > most {
		t.Errorf("a question that waits takes %d bytes, want at most %d", each, most)
	}
}
