//go:build soak

package natsbus_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestSoak has three routers on three servers ask and answer while servers are
// stopped and started, cut off and joined again, and connections break. Every
// question that was put ends once, with one of the answers that were given to
// it; every call is bounded; and in the end everything is as it was.
func TestSoak(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := natstest.StartWiredCluster(t, 3)
	opts := &natsbus.Options{Lease: 3 * time.Second, Timeout: 2 * time.Second}
	patient := &natsbus.Options{Timeout: natstest.Patience}
	open(t, natstest.Connect(t, c.Servers[0].ClientURL()), patient)
	rs := threeReplicas(t, c.Servers, opts)
	s := &soak{cluster: c, replicas: rs, stop: make(chan struct{})}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { s.talk(t, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	stop := sync.OnceFunc(func() {
		close(s.stop)
		wg.Wait()
	})
	defer stop()
	s.trouble(t, rand.New(rand.NewPCG(seed, 100)), natstest.SoakTime(t))
	// A short soak may pass without a leader for most of the time; what counts
	// is that work goes on.
	before := s.answered.Load()
	answered := func() bool { return s.answered.Load() >= before+100 }
	natstest.Eventually(t, "questions are answered after the trouble", answered)
	stop()
	t.Logf("%d questions answered, %d refused, %d attempts failed, %d disturbances",
		s.answered.Load(), s.refused.Load(), s.failed.Load(), s.disturbances)
	for i, asks := range rs {
		if n := asks.Pending(); n != 0 {
			t.Errorf("replica %d has %d questions pending", i, n)
		}
		natstest.Eventually(t, "everybody reaches everybody", func() bool {
			q, call, err := asks.try()
			if err != nil {
				return false
			}
			defer call.End()
			d, err := rs[(i+1)%3].answerWithin(attemptTime, q, "in the end")
			return d == elicitation.Accepted && err == nil
		})
	}
	s.tidy(t)
}

type soak struct {
	cluster      *natstest.WiredCluster
	replicas     []*replica
	stop         chan struct{}
	disturbances int

	answered, refused, failed atomic.Int32
}

// talk puts questions and has them answered elsewhere, one after the other.
func (s *soak) talk(t *testing.T, random *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			return
		case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
		}
		asks := s.replicas[random.IntN(3)]
		began := time.Now()
		q, call, err := asks.try()
		if took := time.Since(began); took > natstest.Patience/2 {
			t.Errorf("asking took %v", took)
		}
		if err != nil {
			s.refused.Add(1)
			if !errors.Is(err, elicitation.ReasonBus) {
				t.Errorf("a question was refused: %v", err)
			}
			continue
		}
		s.converse(t, random, q)
		call.End()
	}
}

// converse answers until the answer has arrived.
func (s *soak) converse(t *testing.T, random *rand.Rand, q *question) {
	given := make(map[string]bool)
	for deadline := time.Now().Add(4 * natstest.Patience); time.Now().Before(deadline); {
		reason := fmt.Sprintf("reason %d", len(given))
		given[reason] = true
		began := time.Now()
		d, err := s.replicas[random.IntN(3)].answer(q, reason)
		if took := time.Since(began); took > natstest.Patience*3/2 {
			t.Errorf("a reply took %v", took)
		}
		switch {
		case d == elicitation.Accepted:
			given = map[string]bool{reason: true} // no other may have been
		case err != nil:
			s.failed.Add(1)
		case len(given) == 1:
			t.Errorf("the first reply is %v", d)
		}
		grace := 10 * time.Millisecond
		if err == nil { // the question has been answered, now or before
			grace = natstest.Patience
		}
		select {
		case o := <-q.outcome:
			s.check(t, o, given)
			return
		case <-time.After(grace):
			if err == nil {
				t.Errorf("a reply is %v, and no answer arrives", d)
				return
			}
		}
	}
	t.Error("a question is not answered")
}

func (s *soak) check(t *testing.T, o elicitation.Outcome, given map[string]bool) {
	if o.Err != nil {
		t.Errorf("a question ended with %v", o.Err)
		return
	}
	s.answered.Add(1)
	for reason := range given {
		if strings.Contains(string(o.Result.Content), `"`+reason+`"`) {
			return
		}
	}
	t.Errorf("a question was answered with %s, given were %v", o.Result.Content, given)
}

// trouble disturbs one server at a time, so that two always work together.
func (s *soak) trouble(t *testing.T, random *rand.Rand, total time.Duration) {
	for end := time.Now().Add(total); time.Now().Before(end); s.disturbances++ {
		i := random.IntN(3)
		// Another leader is elected after four seconds at the earliest, and one
		// that is cut off thinks it leads for ten.
		length := time.Duration(1+random.IntN(9)) * time.Second
		switch random.IntN(3) {
		case 0:
			s.cluster.Isolate(i)
			<-time.After(length)
			s.cluster.Rejoin(i)
		case 1:
			natstest.Stop(s.cluster.Servers[i])
			<-time.After(length)
			s.cluster.Restart(t, i)
		case 2:
			_ = s.replicas[i].bus.nc.ForceReconnect()
		}
		s.cluster.AwaitConnected(t)
		<-time.After(2 * time.Second)
	}
}

// tidy wants nothing left in the directory but leases.
func (s *soak) tidy(t *testing.T) {
	js, err := jetstream.New(s.replicas[0].bus.nc)
	if err != nil {
		t.Fatal(err)
	}
	// Listing keys takes a consumer, and that a leader of the cluster, which is
	// not the one of the directory and may not be elected yet.
	var keys []string
	natstest.Eventually(t, "the keys are listed", func() bool {
		kv, err := js.KeyValue(t.Context(), natsbus.DefaultBucket)
		if err == nil {
			keys, err = kv.Keys(t.Context())
		}
		return err == nil
	})
	// What could not be released during an outage ends with its time to live,
	// for which this does not wait.
	claims := 0
	for _, key := range keys {
		if strings.HasPrefix(key, "c.") {
			claims++
		}
	}
	t.Logf("%d claims wait to expire", claims)
	if limit := int(s.failed.Load()+s.refused.Load()) + 100; claims > limit {
		t.Errorf("%d claims are left over, at most %d could not be released", claims, limit)
	}
}
