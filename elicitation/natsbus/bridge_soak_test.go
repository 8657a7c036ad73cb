//go:build soak

package natsbus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/protocol"
)

// A bridgeSoak has clients make calls at three replicas.
type bridgeSoak struct {
	cluster  *natstest.WiredCluster
	replicas [3]atomic.Pointer[soakedReplica]
	stop     chan struct{}
	flows    atomic.Int64 // so far

	done, refused, lost, busy, killed atomic.Int64
	slowest                           atomic.Int64 // until a lost call was known to be lost
}

// A soakedReplica may be killed, and the calls that it has with it.
type soakedReplica struct {
	*bridgeReplica
	diedAt atomic.Pointer[time.Time] // nil: it lives
}

// TestBridgeSoak has clients whose requests reach any of three replicas, in copies, with requests
// that are given up and sent again, while servers of NATS stop, start and are cut off, and replicas
// are killed and replaced. Each call is made once at most, whoever gets a result gets that of its
// own answers, a call is lost only with its replica, and in the end nothing is left.
func TestBridgeSoak(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &bridgeSoak{cluster: natstest.StartWiredCluster(t, 3), stop: make(chan struct{})}
	for i := range s.replicas {
		s.replaceReplica(t, i)
	}
	var clients sync.WaitGroup
	for i := range 12 {
		clients.Go(func() { s.makeCalls(t, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	stop := sync.OnceFunc(func() {
		close(s.stop)
		clients.Wait()
	})
	defer stop()
	disturbances := disturb(t, rand.New(rand.NewPCG(seed, 100)), s.cluster, func(i int) {
		now := time.Now()
		s.replicas[i].Load().diedAt.Store(&now)
		s.replicas[i].Load().bus.Kill()
		s.killed.Add(1)
		s.replaceReplica(t, i)
	})
	before := s.done.Load()
	natstest.Eventually(t, "calls are served after the trouble", func() bool {
		return s.done.Load() >= before+50
	})
	stop()
	t.Logf("%d calls done, %d lost with %d replicas (known after %v at most), %d not begun, "+
		"%d requests refused for a time, %d disturbances", s.done.Load(), s.lost.Load(),
		s.killed.Load(), time.Duration(s.slowest.Load()), s.refused.Load(), s.busy.Load(),
		disturbances)
	for i := range s.replicas {
		ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
		if err := s.replicas[i].Load().Shutdown(ctx); err != nil {
			t.Errorf("replica %d: %v", i, err) // a call is left
		}
		cancel()
	}
}

func (s *bridgeSoak) replaceReplica(t *testing.T, i int) {
	t.Helper()
	opts := &natsbus.Options{Lease: 3 * time.Second, Timeout: natstest.Patience}
	s.replicas[i].Store(&soakedReplica{bridgeReplica: newBridgeReplicaOn(t,
		open(t, connectInOrder(t, s.cluster.Servers, i), opts))})
}

// makeCalls makes calls one after the other.
func (s *bridgeSoak) makeCalls(t *testing.T, random *rand.Rand) {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(time.Duration(random.IntN(50)) * time.Millisecond):
		}
		n := int(s.flows.Add(1))
		f := newParkedFlow(n)
		s.makeCall(t, random, n, f)
		if runs := f.runs.Load(); runs > 1 {
			t.Errorf("call %d was made %d times", n, runs)
		}
	}
}

// makeCall makes one call and checks its result.
func (s *bridgeSoak) makeCall(t *testing.T, random *rand.Rand, n int, f *parkedFlow) {
	owner := s.replicas[random.IntN(3)].Load()
	o, err := owner.Serve(context.Background(), &f.request)
	if err != nil {
		s.refused.Add(1) // the router could not reach its directory, or the replica died
		return
	}
	for o.Result == nil {
		if o = s.resume(t, random, owner, f.answer(o, n)); o == nil {
			return
		}
	}
	s.done.Add(1)
	if want := fmt.Sprintf(`"{\"reason\":\"%d\"} {\"reason\":\"%[1]d\"}"`, n); string(o.Result) != want {
		t.Errorf("got %s, want %s", o.Result, want)
	}
}

// resume sends a request, in copies, until it has its outcome. It returns nil when the call is
// lost.
func (s *bridgeSoak) resume(t *testing.T, random *rand.Rand, owner *soakedReplica,
	request *bridge.Request) *bridge.Outcome {
	for began := time.Now(); time.Since(began) < 4*natstest.Patience; {
		type answer struct {
			outcome *bridge.Outcome
			err     error
		}
		answers := make(chan answer, 3)
		copies := 1 + random.IntN(3)
		for range copies {
			at := s.replicas[random.IntN(3)].Load()
			ctx, cancel := context.WithCancel(context.Background())
			if random.IntN(4) == 0 { // it is given up
				time.AfterFunc(time.Duration(random.IntN(20))*time.Millisecond, cancel)
			}
			go func() {
				defer cancel()
				outcome, err := at.Serve(ctx, request)
				answers <- answer{outcome, err}
			}()
		}
		var got *bridge.Outcome
		lost := false
		for range copies {
			a := <-answers
			e, told := protocol.AsError(a.err)
			switch {
			case a.err == nil && got != nil && !sameOutcome(got, a.outcome):
				t.Errorf("copies got %s and %s", describe(got), describe(a.outcome))
			case a.err == nil:
				got = a.outcome
			case told && e.Code == protocol.CodeBusy:
				s.busy.Add(1)
			case told && owner.diedAt.Load() != nil:
				lost = true
			case told:
				t.Errorf("the replica of the call lives, and a request was refused: %v", a.err)
				lost = true
			}
		}
		switch {
		case got != nil:
			return got
		case lost:
			s.lost.Add(1)
			if died := owner.diedAt.Load(); died != nil {
				since := time.Since(later(*died, began))
				if old := s.slowest.Load(); int64(since) > old {
					s.slowest.CompareAndSwap(old, int64(since))
				}
			}
			return nil
		}
	}
	t.Errorf("a request has no outcome, and the replica of its call died at %v",
		owner.diedAt.Load())
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sameOutcome reports whether copies of a request got the same.
func sameOutcome(a, b *bridge.Outcome) bool { return describe(a) == describe(b) }

// describe returns the result of an outcome, or the ids of its questions.
func describe(o *bridge.Outcome) string {
	if o.Result != nil {
		return string(o.Result)
	}
	var ids []string
	for _, q := range o.Questions {
		ids = append(ids, q.ID)
	}
	data, _ := json.Marshal(strings.Join(ids, " "))
	return string(data)
}
