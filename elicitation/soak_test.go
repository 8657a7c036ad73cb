package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestSoak looks for leaks, in 100,000 elicitations with the build tag soak.
func TestSoak(t *testing.T) {
	rounds := 3000
	if testkit.Soak {
		rounds = 100_000
	}
	router := newRig(t, elicitation.Options{Log: silent}).Router
	long, cancel := context.WithCancel(t.Context()) // outlives all questions
	defer cancel()
	const warm = 9000
	for i := range 3 {
		// Fill everything that is bounded: tombstones, maps, pools.
		soak(t, long, router, i*warm/3, (i+1)*warm/3)
	}
	goroutines, heap := runtime.NumGoroutine(), testkit.HeapInUse()
	soak(t, long, router, warm, warm+rounds)
	wantEqual(t, "pending", router.Pending(), 0)
	for range 100 { // goroutines may still be ending
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		runtime.Gosched()
		testkit.HeapInUse()
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	grown := int64(testkit.HeapInUse()) - int64(heap)
	runtime.KeepAlive(router)
	t.Logf("%d elicitations: heap grew by %d bytes", rounds, grown)
	if grown > 128<<10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// soak runs the elicitations with these numbers, which are part of their names.
func soak(t *testing.T, long context.Context, router *elicitation.Router, from, to int) {
	for i := from; i < to; i++ {
		s, err := router.Attach(elicitation.SessionInfo{
			Principal:    protocol.Principal{Subject: fmt.Sprint("user ", i)},
			Capabilities: caps(true, true),
		})
		noError(t, err)
		upstream := elicitation.UpstreamKey(fmt.Sprint("up ", i))
		ctx, cancel := long, func() {}
		if i%4 == 3 {
			ctx, cancel = context.WithCancel(t.Context())
		}
		via := sends(func(_ context.Context, m protocol.Message) error {
			q, ok := m.(*protocol.Request)
			switch {
			case i%4 == 3:
				cancel()
			case ok && i%4 == 2:
				return errors.New("gone")
			case ok:
				router.HandleReply(s.Sender(), result(q.ID, yes))
			}
			return nil
		})
		call, err := router.Begin(long, elicitation.Origin{Session: s}, via, upstream)
		noError(t, err)
		params := json.RawMessage(fmt.Sprintf(`{"message":"m","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean","title":"%d"}}}}`, i))
		if i%2 == 1 {
			params = urlQuestion("m", "https://id.example/", fmt.Sprint(i))
		}
		_, err = call.Elicit(ctx, params)
		if (err == nil) != (i%4 < 2) {
			t.Fatalf("elicitation %d: %v", i, err)
		}
		call.End()
		s.Detach()
		cancel()
	}
}
