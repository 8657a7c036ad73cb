package natsbus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
)

// A bridgeReplica is a bridge on a bus of its own.
type bridgeReplica struct {
	*bridge.Bridge
	bus mortal
}

func newBridgeReplica(t testing.TB, url string) *bridgeReplica {
	t.Helper()
	return newBridgeReplicaOn(t, open(t, natstest.Connect(t, url), nil))
}

func newBridgeReplicaOn(t testing.TB, bus mortal) *bridgeReplica {
	t.Helper()
	r := &bridgeReplica{bus: bus}
	key, err := keys.NewKey("k1", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	shared := bridge.ShareBus(r.bus)
	router, err := elicitation.New(&elicitation.Options{
		Bus: shared, Keys: ring.Derive(elicitation.KeyPurpose), MaxPending: -1,
		MaxPerPrincipal: -1, MaxPerUpstream: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Bridge, err = bridge.New(router, &bridge.Options{
		Bus: shared, Keys: ring.Derive(bridge.KeyPurpose), MaxPerPrincipal: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what is left ends now
		_ = r.Shutdown(ctx)
		_ = router.Shutdown(context.Background())
	})
	return r
}

// A parkedFlow is a call with two questions, which counts how often it was made.
type parkedFlow struct {
	request bridge.Request
	runs    atomic.Int64
}

func newParkedFlow(n int) *parkedFlow {
	f := &parkedFlow{request: bridge.Request{
		Method: "tools/call", Target: fmt.Sprint("tool", n),
		Principal: protocol.Principal{Subject: "ann"},
		Capabilities: protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}},
	}}
	f.request.Run = func(ctx context.Context, begin bridge.BeginFunc) (json.RawMessage, error) {
		f.runs.Add(1)
		call, err := begin(ctx, elicitation.UpstreamKey(fmt.Sprint("up/", n)))
		if err != nil {
			return nil, err
		}
		defer call.End()
		var got []string
		for range 2 {
			answer, err := call.Elicit(ctx, json.RawMessage(ask), nil)
			if err != nil {
				return nil, err
			}
			got = append(got, string(answer.Content))
		}
		return json.Marshal(strings.Join(got, " "))
	}
	return f
}

// answer returns the request that comes back with the answer n.
func (f *parkedFlow) answer(o *bridge.Outcome, n int) *bridge.Request {
	again := f.request
	again.State, again.Responses = o.State, map[string]json.RawMessage{
		o.Questions[0].ID: json.RawMessage(fmt.Sprintf(
			`{"action":"accept","content":{"reason":"%d"}}`, n))}
	return &again
}

// TestParkedCallsOfReplicas: each request of a client, in two copies, may reach any replica. Each
// call is made once, and its answers reach it.
func TestParkedCallsOfReplicas(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	fleet := make([]*bridgeReplica, len(servers))
	for i, server := range servers {
		fleet[i] = newBridgeReplica(t, server.ClientURL())
	}
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	var clients sync.WaitGroup
	for n := range 60 {
		clients.Go(func() {
			f := newParkedFlow(n)
			o, err := fleet[rand.IntN(len(fleet))].Serve(ctx, &f.request)
			for err == nil && o.Result == nil {
				request := f.answer(o, n)
				var other sync.WaitGroup
				at := rand.IntN(len(fleet))
				other.Go(func() {
					if _, err := fleet[at].Serve(ctx, request); err != nil {
						t.Error(err)
					}
				})
				o, err = fleet[rand.IntN(len(fleet))].Serve(ctx, request)
				other.Wait()
			}
			want := fmt.Sprintf(`"{\"reason\":\"%d\"} {\"reason\":\"%[1]d\"}"`, n)
			if err != nil || string(o.Result) != want || f.runs.Load() != 1 {
				t.Errorf("got %+v, %v after %d runs, want %s", o, err, f.runs.Load(), want)
			}
		})
	}
	clients.Wait()
}

// TestTheReplicaOfAParkedCallDies: its client is told, and the call is not made again.
func TestTheReplicaOfAParkedCallDies(t *testing.T) {
	server := natstest.Start(t, t.TempDir(), -1)
	owner := newBridgeReplica(t, server.ClientURL())
	other := newBridgeReplica(t, server.ClientURL())
	f := newParkedFlow(1)
	o, err := owner.Serve(t.Context(), &f.request)
	if err != nil {
		t.Fatal(err)
	}
	owner.bus.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	natstest.Eventually(t, "the client is told", func() bool {
		_, err := other.Serve(ctx, f.answer(o, 1))
		e, ok := protocol.AsError(err)
		// While the lease of the owner stands, it may be there.
		if !ok || e.Code != protocol.CodeFlowEnded && e.Code != protocol.CodeBusy {
			t.Errorf("got %v", err)
			return true
		}
		return e.Code == protocol.CodeFlowEnded
	})
	if f.runs.Load() != 1 {
		t.Errorf("the call was made %d times", f.runs.Load())
	}
}
