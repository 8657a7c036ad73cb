//go:build soak

package natsguard_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestSoak has three replicas, each with a server of its own, race for states
// while servers are stopped and started and cut off from the others. No state
// is ever won twice, and whoever lost gets the outcome of who won or a refusal.
// What one replica stores is gone for none.
func TestSoak(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := natstest.StartWiredCluster(t, 3)
	var guards []*natsguard.Guard
	var stores []*natsguard.StateStore
	for i := range c.Servers {
		js := natstest.Connect(t, c.Servers[i].ClientURL())
		opts := &natsguard.Options{Timeout: 2 * time.Second}
		natstest.Eventually(t, "a guard and a store", func() bool {
			g, err1 := natsguard.New(t.Context(), js, opts)
			s, err2 := natsguard.NewStateStore(t.Context(), js, opts)
			guards, stores = append(guards[:i], g), append(stores[:i], s)
			return err1 == nil && err2 == nil
		})
	}
	stopped := make(chan struct{})
	var won, lost, refused, replayed, read atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stopped:
				return
			default:
				read.Add(keep(t, stores, n))
			}
		}
	})
	for w := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stopped:
					return
				default:
				}
				id := fmt.Sprint("state", w, "-", n)
				winners := contest(t, guards, id, &lost, &refused, &replayed)
				if winners > 1 {
					t.Errorf("%s was won %d times", id, winners)
				}
				won.Add(winners)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 0))
	n := 0
	for end := time.Now().Add(natstest.SoakTime(t)); time.Now().Before(end); n++ {
		disturb(t, c, random)
	}
	close(stopped)
	wg.Wait()
	t.Logf("%d states won, %d claims lost, %d of them got the outcome, %d refused, %d disturbances",
		won.Load(), lost.Load(), replayed.Load(), refused.Load(), n)
	t.Logf("%d states read", read.Load())
	if won.Load() < 100 || replayed.Load() < 100 || read.Load() < 100 {
		t.Error("too little happened")
	}
}

// contest has every replica claim one state, then claim it again.
func contest(
	t *testing.T, guards []*natsguard.Guard, id string, lost, refused, replayed *atomic.Int32,
) (winners int32) {
	var wins atomic.Int32
	for range 2 {
		var wg sync.WaitGroup
		for i, g := range guards {
			wg.Go(func() {
				err := g.Claim(t.Context(), id, "", print1, inAnHour())
				switch {
				case err == nil:
					wins.Add(1)
					if err := g.Commit(t.Context(), id, fmt.Append(nil, "of ", i)); err != nil {
						refused.Add(1)
					}
				case isSpent(err):
					lost.Add(1)
					if spent(t, err) != nil {
						replayed.Add(1)
					}
				default:
					refused.Add(1)
				}
			})
		}
		wg.Wait()
	}
	return wins.Load()
}

// keep has one replica store a state, and every one read it.
func keep(t *testing.T, stores []*natsguard.StateStore, n int) (read int32) {
	id := fmt.Sprint("kept", n)
	if stores[n%len(stores)].Put(t.Context(), id, "owner", []byte(id), inAnHour()) != nil {
		return 0
	}
	for i, s := range stores {
		got, err := s.Get(t.Context(), id)
		switch {
		case errorsIsGone(err):
			t.Errorf("%s is gone for replica %d", id, i)
		case err == nil && string(got) != id:
			t.Errorf("replica %d reads %q, want %q", i, got, id)
		case err == nil:
			read++
		}
	}
	return read
}

// disturb takes one server away for some seconds, so that two always work
// together.
func disturb(t *testing.T, c *natstest.WiredCluster, random *rand.Rand) {
	i := random.IntN(3)
	length := time.Duration(1+random.IntN(8)) * time.Second
	if random.IntN(2) == 0 {
		c.Isolate(i)
		<-time.After(length)
		c.Rejoin(i)
	} else {
		natstest.Stop(c.Servers[i])
		<-time.After(length)
		c.Restart(t, i)
	}
	c.AwaitConnected(t)
	<-time.After(2 * time.Second)
}
