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

// TestChaos has 1,000 flows, the last leg of each sent five times at once to any of three
// replicas and again until it is served, while servers are killed, stalled and cut off. Each
// is charged once, and none is refused for good.
func TestChaos(t *testing.T) {
	const flows, copies, retries = 1000, 5, 60
	c := natstest.StartWiredCluster(t, 3)
	var guards []*natsguard.Guard
	for i := range c.Servers {
		js := natstest.Connect(t, c.ClientURL(t, i)+","+c.ClientURL(t, (i+1)%3))
		opts := &natsguard.Options{Timeout: 2 * time.Second}
		natstest.Eventually(t, "a guard", func() bool {
			g, err := natsguard.New(t.Context(), js, opts)
			guards = append(guards[:i], g)
			return err == nil
		})
	}
	stop := make(chan struct{})
	var troubled sync.WaitGroup
	troubled.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Second):
			}
			i := rand.IntN(3)
			switch n % 3 {
			case 0:
				c.Crash(i)
				<-time.After(3 * time.Second)
				c.Restart(t, i)
			case 1:
				c.Stall(i)
				<-time.After(5 * time.Second)
				c.Resume(i)
			case 2:
				c.Isolate(i)
				<-time.After(6 * time.Second)
				c.Rejoin(i)
			}
			c.AwaitConnected(t)
		}
	})
	var charged, double, refused, again, running atomic.Int32
	// leg is one copy of the last leg of a flow.
	leg := func(id string, charges *atomic.Int32) {
		g := guards[rand.IntN(3)]
		err := g.Claim(t.Context(), id, "", print1, inAnHour())
		switch {
		case err == nil:
			charges.Add(1)
			_ = g.Commit(t.Context(), id, []byte("done")) // if it is lost replays are refused
		case isRunning(err):
			running.Add(1)
		}
	}
	slots := make(chan struct{}, 50)
	var wg sync.WaitGroup
	for n := range flows {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			id := fmt.Sprint("flow ", n)
			var charges atomic.Int32
			var legs sync.WaitGroup
			for range copies {
				legs.Go(func() { leg(id, &charges) })
			}
			legs.Wait()
			for try := 0; try < retries && charges.Load() == 0; try++ {
				again.Add(1)
				<-time.After(100 * time.Millisecond)
				leg(id, &charges)
			}
			switch charges.Load() {
			case 0:
				refused.Add(1)
			case 1:
				charged.Add(1)
			default:
				double.Add(1)
			}
		})
		<-time.After(20 * time.Millisecond)
	}
	wg.Wait()
	close(stop)
	troubled.Wait()
	t.Logf("%d charged, %d double, %d refused for good, %d retries, %d told that it runs",
		charged.Load(), double.Load(), refused.Load(), again.Load(), running.Load())
	if double.Load() > 0 || refused.Load() > 0 {
		t.Error("each flow must be charged once")
	}
}
