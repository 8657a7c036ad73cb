//go:build redis

package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/internal/testing/chaos"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/redisstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func chaosFlows() int {
	if testkit.Soak {
		return 1000
	}
	return 150
}

func openReplica(ctx context.Context, address string) (store.Guard, error) {
	return redisstore.New(ctx, redis.NewClient(&redis.Options{Addr: address,
		ContextTimeoutEnabled: true}), nil)
}

func runAsReplica() bool { return chaos.ServeReplica(chaos.Stores{Guard: openReplica}) }

func planOf(t *testing.T, link *servertest.Link, client *redis.Client) chaos.Plan {
	return chaos.Plan{
		Flows: chaosFlows(), Copies: 5, Retries: 60, Store: link.Address(), Every: time.Second,
		Length: 5 * time.Second, // Redis would end before the first failure
		ExpireLeases: func() {
			eachClaim(t, client, func(key string) error {
				return client.HSet(t.Context(), key, "lease", 0).Err()
			})
		},
	}
}

// TestChaos kills replicas and Redis and cuts connections: no flow is charged twice.
func TestChaos(t *testing.T) {
	server := startServer(t, "--appendonly", "yes", "--appendfsync", "everysec")
	link, client := servertest.NewLink(t), server.connect()
	link.Open(server.socket())
	setBirth(t, client, time.Now().Add(-24*time.Hour))
	plan := planOf(t, link, client)
	plan.Trouble = []func(){
		link.Break,
		func() { server.kill(); server.start() },
	}
	report := chaos.RunFlows(t, plan)
	if report.Double > 0 || report.Open > 0 || report.Served < chaosFlows()*8/10 {
		t.Error("each flow must be charged once at most, and its client must learn that")
	}
}

// TestChaosOfAnEmptyRedis empties Redis: flows are refused for a while, none is charged twice.
func TestChaosOfAnEmptyRedis(t *testing.T) {
	server := startServer(t)
	link, client := servertest.NewLink(t), server.connect()
	link.Open(server.socket())
	setBirth(t, client, time.Now().Add(-24*time.Hour))
	plan := planOf(t, link, client)
	plan.Retries, plan.Every, plan.Length = 5, 300*time.Millisecond, time.Second
	emptied := false
	plan.Trouble = []func(){func() {
		if !emptied {
			server.kill()
			server.start()
			emptied = true
		}
	}}
	report := chaos.RunFlows(t, plan)
	if report.Double > 0 || emptied != (report.Open > 0) {
		t.Error("flows of which Redis knows nothing any more must be refused")
	}
}

// TestChaosOfFailovers promotes a replica. Unreplicated claims are lost, so it only logs.
func TestChaosOfFailovers(t *testing.T) {
	servers := [2]*redisServer{startServer(t), startServer(t)}
	link := servertest.NewLink(t)
	link.Open(servers[0].socket())
	setBirth(t, servers[0].connect(), time.Now().Add(-24*time.Hour))
	follow := func(replica, primary *redisServer) {
		if err := replica.connect().SlaveOf(t.Context(), "127.0.0.1",
			primary.listen()).Err(); err != nil {
			t.Error(err)
		}
	}
	follow(servers[1], servers[0])
	plan := planOf(t, link, servers[0].connect())
	plan.ExpireLeases, plan.Every = nil, 500*time.Millisecond
	plan.Retries, plan.Length = 10, 2*time.Second
	primary := 0
	plan.Trouble = []func(){func() {
		old, next := servers[primary], servers[1-primary]
		old.kill()
		if err := next.connect().SlaveOf(t.Context(), "no", "one").Err(); err != nil {
			t.Error(err)
		}
		link.Open(next.socket())
		link.Break()
		old.start()
		follow(old, next)
		primary = 1 - primary
	}}
	report := chaos.RunFlows(t, plan)
	if report.Served == 0 {
		t.Error("no flow is served")
	}
}
