package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// This is a test because allocations, unlike times, do not depend on the machine's load.
func TestElicitationAllocates(t *testing.T) {
	const most = 40
	s := newSceneVia(t, elicitation.Options{Log: silent}, elicitation.Via{})
	s.call.End()
	frames := sends(func(_ context.Context, m protocol.Message) error {
		s.Router.HandleReply(s.session.Sender(), result(m.(*protocol.Request).ID, yes))
		return nil
	})
	call := s.begin(elicitation.Origin{Session: s.session}, frames, "up")
	params := form("Deploy to prod?")
	got := testing.AllocsPerRun(200, func() {
		if _, err := call.Elicit(t.Context(), params); err != nil {
			t.Error(err)
		}
	})
	if got > most {
		t.Errorf("an elicitation allocates %v times, want at most %d", got, most)
	}
}

// A pending question takes little memory, however it is asked, and frees it all when it ends.
func TestPendingCosts(t *testing.T) {
	const n, most = 2000, 3 << 10
	if testkit.Race {
		t.Skip("memory is not measured with the race detector")
	}
	asked := asker(func(ctx context.Context, _ elicitation.Question, delivered func()) (string,
		error) {
		delivered()
		<-ctx.Done()
		return "", ctx.Err()
	})
	sent := sends(func(context.Context, protocol.Message) error { return nil })
	for _, test := range []struct {
		name   string
		via    elicitation.Via
		shared bool // one connection and two users
	}{
		{"frames", sent, false}, {"frames, shared connection", sent, true},
		{"asker", asked, false}, {"asker, shared connection", asked, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{MaxPending: -1, MaxPerPrincipal: -1, Log: silent})
			waitForAll := func() {
				for r.Pending() < n {
					runtime.Gosched()
				}
			}
			askAll(t, r.Router, test.via, test.shared, n, waitForAll) // fills bounded caches
			before := int64(testkit.HeapInUse())
			var each int64
			askAll(t, r.Router, test.via, test.shared, n, func() {
				waitForAll()
				each = (int64(testkit.HeapInUse()) - before) / n
			})
			left := int64(testkit.HeapInUse()) - before
			for range 100 { // the last goroutines may still be ending
				if left <= n*most/10 {
					break
				}
				time.Sleep(10 * time.Millisecond)
				left = int64(testkit.HeapInUse()) - before
			}
			runtime.KeepAlive(r)
			t.Logf("%d bytes each, %d left", each, left)
			if each > most {
				t.Errorf("a question that waits takes %d bytes, want at most %d", each, most)
			}
			if left > n*most/10 {
				t.Errorf("%d bytes are left", left)
			}
		})
	}
}

// askAll begins n calls with a question each, runs whilePending, and ends the calls.
func askAll(t *testing.T, router *elicitation.Router, via elicitation.Via, shared bool, n int,
	whilePending func()) {
	t.Helper()
	users := n
	if shared {
		users = 2
	}
	sessions := make([]*elicitation.Session, users)
	for i := range sessions {
		s, err := router.Attach(elicitation.SessionInfo{
			Principal:    protocol.Principal{Subject: fmt.Sprint(i)},
			Capabilities: caps(true, true),
		})
		noError(t, err)
		defer s.Detach()
		sessions[i] = s
	}
	var ended sync.WaitGroup
	defer ended.Wait()
	for i := range n {
		up := elicitation.UpstreamKey("up")
		if !shared {
			up = elicitation.UpstreamKey(fmt.Sprint("up ", i))
		}
		call, err := router.Begin(t.Context(),
			elicitation.Origin{Session: sessions[i%users]}, via, up)
		noError(t, err)
		defer call.End()
		ended.Go(func() {
			_, err := call.Elicit(t.Context(), form("Deploy to prod?"))
			if !errors.Is(err, elicitation.ReasonCancelled) && // or the client had left
				!errors.Is(err, elicitation.ReasonNoSession) {
				t.Error(err)
			}
		})
	}
	whilePending()
}
