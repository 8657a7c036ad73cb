package natsguard_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestClusterLosesALeader takes away the server that leads the bucket while
// two replicas race for states. Every state is won at most once, what was won
// before stays won, and claiming works again with the servers that are left.
func TestClusterLosesALeader(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	servers := natstest.StartCluster(t, 3)
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.ClientURL()
	}
	all := strings.Join(urls, ",")
	opts := &natsguard.Options{Timeout: natstest.Patience}
	js := natstest.Connect(t, all)
	a, b := newGuard(t, js, opts), newGuard(t, natstest.Connect(t, all), opts)
	if err := a.Claim(ctx, "before", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(ctx, "before", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	// An exact replay right after, wherever it lands.
	for range 50 {
		if got := spent(t, b.Claim(ctx, "before", "", print1,
			inAnHour())); string(got) != "outcome" {
			t.Fatalf("outcome %q", got)
		}
	}
	if err := a.Claim(ctx, "running", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}

	const states = 40
	var won [states]atomic.Int32
	var wg sync.WaitGroup
	begun := make(chan struct{})
	for w := range 8 {
		g := []*natsguard.Guard{a, b}[w%2]
		wg.Go(func() {
			for i := range states {
				if i == 5 && w == 0 {
					close(begun)
				}
				err := g.Claim(ctx, fmt.Sprint("state", i), "", print1, inAnHour())
				if err == nil {
					won[i].Add(1)
				} else if !isSpent(err) {
					t.Logf("state %d: %v", i, err)
				}
			}
		})
	}
	<-begun
	lose := leaderOf(t, js, servers)
	natstest.Stop(lose)
	wg.Wait()
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("state %d was won %d times, want 1", i, n)
		}
	}
	if got := spent(t, b.Claim(ctx, "before", "", print1, inAnHour())); string(got) != "outcome" {
		t.Errorf("outcome %q", got)
	}
	if err := a.Commit(ctx, "running", []byte("late")); err != nil {
		t.Errorf("a claim from before: %v", err)
	}
}

func leaderOf(
	t *testing.T, js jetstream.JetStream, servers []*natsserver.Server,
) *natsserver.Server {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_"+natsguard.DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	if info.Config.Replicas != 3 {
		t.Fatalf("the bucket has %d replicas, want 3", info.Config.Replicas)
	}
	for _, s := range servers {
		if s.Name() == info.Cluster.Leader {
			return s
		}
	}
	t.Fatalf("no server is called %q", info.Cluster.Leader)
	return nil
}

// TestClusterWithoutQuorum fails closed: one server of three decides nothing.
func TestClusterWithoutQuorum(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	servers := natstest.StartCluster(t, 3)
	url := servers[0].ClientURL()
	newGuard(t, natstest.Connect(t, url), &natsguard.Options{Timeout: natstest.Patience})
	g := newGuard(t, natstest.Connect(t, url), &natsguard.Options{Timeout: natstest.Patience / 30})
	if err := g.Claim(ctx, "before", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	natstest.Stop(servers[1])
	natstest.Stop(servers[2])
	err := g.Claim(ctx, "new", "", print1, inAnHour())
	unspent(t, err)
	if err := g.Claim(ctx, "before", "", print1, inAnHour()); err == nil {
		t.Error("a claim succeeds twice")
	}
}
