//go:build redis

package redisstore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/roundtrip/redisstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/store/storetest"
)

const prefix = "rondo:{store}:"

var answers = [32]byte{1}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// newStore returns a store on a Redis with an old marker.
func newStore(t *testing.T, client *redis.Client, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(t.Context(), client, opts)
	if err != nil {
		t.Fatal(err)
	}
	setBirth(t, client, time.Now().Add(-24*time.Hour))
	return s
}

func setBirth(t *testing.T, client *redis.Client, birth time.Time) {
	t.Helper()
	if err := client.Set(t.Context(), prefix+"marker", birth.UnixMilli(), 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func eachClaim(t *testing.T, client *redis.Client, do func(key string) error) (n int) {
	t.Helper()
	keys, err := client.Keys(t.Context(), prefix+"guard:"+strings.Repeat("?", 64)).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := do(key); err != nil {
			t.Fatal(err)
		}
	}
	return len(keys)
}

func contract(t *testing.T) *storetest.Options {
	server := startServer(t)
	opts := &redisstore.Options{MaxEntries: 40}
	return &storetest.Options{Open: func(t *testing.T) *storetest.Store {
		client := server.connect()
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return &storetest.Store{
			Guard: func(t *testing.T) store.Guard { return newStore(t, server.connect(), opts) },
			States: func(t *testing.T) store.StateStore {
				return newStore(t, server.connect(), opts)
			},
			ExpireLeases: func(t *testing.T) {
				eachClaim(t, client, func(key string) error {
					return client.HSet(t.Context(), key, "lease", 0).Err()
				})
			},
			Entries: 40, Skew: 2 * time.Minute,
		}
	}}
}

func TestGuard(t *testing.T)      { storetest.TestGuard(t, contract(t)) }
func TestStateStore(t *testing.T) { storetest.TestStateStore(t, contract(t)) }

// The function refuses wants a claim to be refused, but not as spent.
func refuses(t *testing.T, s *redisstore.Store, id string, until time.Time, want string) {
	t.Helper()
	_, err := s.Claim(t.Context(), id, "", answers, until)
	if _, spent := errors.AsType[*store.SpentError](err); err == nil || spent ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("claim of %s: got %v, want an error about %q", id, err, want)
	}
}

func takes(t *testing.T, s *redisstore.Store, id string, until time.Time) store.Claim {
	t.Helper()
	claim, err := s.Claim(t.Context(), id, "", answers, until)
	if err != nil {
		t.Errorf("claim of %s: %v", id, err)
	}
	return claim
}

// TestLostClaims: an emptied Redis refuses possibly claimed states until they expire.
func TestLostClaims(t *testing.T) {
	client := startServer(t).connect()
	opts := &redisstore.Options{Longest: time.Hour}
	s := newStore(t, client, opts)
	// The funnel adds two minutes to a state's time.
	issued := func(ago time.Duration) time.Time {
		return time.Now().Add(time.Hour + 2*time.Minute - ago)
	}
	takes(t, s, "before", issued(time.Minute))
	for name, lose := range map[string]func() error{
		"flushed":        func() error { return client.FlushAll(t.Context()).Err() },
		"marker removed": func() error { return client.Del(t.Context(), prefix+"marker").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			if err := lose(); err != nil {
				t.Fatal(err)
			}
			refuses(t, s, "free", issued(0), "marker")
			refuses(t, s, "free", issued(time.Minute), "recently empty")
			if _, err := redisstore.New(t.Context(), client, opts); err != nil { // a new replica
				t.Fatal(err)
			}
			refuses(t, s, "free", issued(time.Minute), "recently empty")
			setBirth(t, client, time.Now().Add(-30*time.Minute))
			takes(t, s, "free "+name, issued(20*time.Minute))
			refuses(t, s, "other", issued(40*time.Minute), "recently empty")
			setBirth(t, client, time.Now().Add(-65*time.Minute))
			takes(t, s, "old "+name, issued(59*time.Minute))
		})
	}
	refuses(t, s, "for ever", time.Now().Add(2*time.Hour), "Options.Longest")
}

func TestPolicy(t *testing.T) {
	for policy, good := range map[string]bool{"noeviction": true, "allkeys-lru": false,
		"volatile-ttl": false} {
		client := startServer(t, "--maxmemory-policy", policy).connect()
		_, err := redisstore.New(t.Context(), client, nil)
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), policy) {
			t.Errorf("%s: %v", policy, err)
		}
	}
	for name, opts := range map[string]*redisstore.Options{
		"entries": {MaxEntries: -1}, "bytes": {MaxBytes: -1},
		"longest": {Longest: -1}, "prefix": {Prefix: "rondo:"}, "empty braces": {Prefix: "a{}"},
	} {
		if _, err := redisstore.New(t.Context(), startServer(t).connect(), opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := redisstore.New(t.Context(), nil, nil); err == nil {
		t.Error("no client: no error")
	}
}

// TestRefusals: a full Redis, or a replica, refuses and loses nothing.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		begin, end [][]any
		want       string
	}{
		"full": {[][]any{{"config", "set", "maxmemory", "1"}},
			[][]any{{"config", "set", "maxmemory", "0"}}, "OOM"},
		"a replica": {[][]any{{"replicaof", "127.0.0.1", "1"}},
			[][]any{{"replicaof", "no", "one"}}, ""}, // the client retries until the timeout
	} {
		t.Run(name, func(t *testing.T) {
			client := startServer(t).connect()
			s := newStore(t, client, nil)
			do := func(commands [][]any) {
				for _, command := range commands {
					if err := client.Do(t.Context(), command...).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			takes(t, s, "before", inAnHour())
			do(c.begin)
			isSpent := func() {
				_, err := s.Claim(t.Context(), "before", "", answers, inAnHour())
				if _, spent := errors.AsType[*store.SpentError](err); !spent {
					t.Errorf("before: got %v, want that it is spent", err)
				}
			}
			isSpent()
			refuses(t, s, "free", inAnHour(), c.want)
			do(c.end)
			takes(t, s, "free", inAnHour())
			isSpent()
		})
	}
}

// TestLoading uses a Redis that is still loading its data and answers nothing else.
func TestLoading(t *testing.T) {
	loading := startLoading(t)
	client := redis.NewClient(&redis.Options{Addr: loading, ContextTimeoutEnabled: true,
		MaxRetries: -1, DisableIdentity: true})
	defer client.Close()
	if _, err := redisstore.New(t.Context(), client, nil); err == nil ||
		!strings.Contains(err.Error(), "LOADING") {
		t.Errorf("New: %v", err)
	}
	server := startServer(t)
	var address = server.socket()
	moving := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1,
		DisableIdentity: true, PoolSize: 1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if strings.HasPrefix(address, "/") {
				return new(net.Dialer).DialContext(ctx, "unix", address)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}})
	defer moving.Close()
	s := newStore(t, moving, nil)
	server.kill() // new connections reach the loading one
	address = loading
	refuses(t, s, "free", inAnHour(), "LOADING")
}

func startLoading(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "*") { // a command begins
						fmt.Fprint(conn, "-LOADING Redis is loading the dataset in memory\r\n")
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestRestart: with an append-only file Redis keeps all claims; without one it refuses.
func TestRestart(t *testing.T) {
	t.Run("append-only", func(t *testing.T) {
		server := startServer(t, "--appendonly", "yes", "--appendfsync", "always")
		s := newStore(t, server.connect(), nil)
		takes(t, s, "before", inAnHour())
		server.kill()
		server.start()
		_, err := s.Claim(t.Context(), "before", "", answers, inAnHour())
		if spent, ok := errors.AsType[*store.SpentError](err); !ok || !spent.Running {
			t.Errorf("got %v, want that it runs", err)
		}
		takes(t, s, "free", inAnHour())
	})
	t.Run("empty", func(t *testing.T) {
		server := startServer(t)
		s := newStore(t, server.connect(), nil)
		takes(t, s, "before", inAnHour())
		server.kill()
		server.start()
		refuses(t, s, "before", inAnHour(), "marker")
		refuses(t, s, "before", inAnHour(), "recently empty")
	})
}

// TestForgetting: expired entries do not count; every entry is kept ten minutes after it expires.
func TestForgetting(t *testing.T) {
	client := startServer(t).connect()
	s := newStore(t, client, &redisstore.Options{MaxEntries: 2, MaxBytes: 100})
	for round := range 5 {
		for i := range 2 {
			id := fmt.Sprint("id ", round, i)
			if err := takes(t, s, id, time.Now().Add(-time.Minute)).Commit(t.Context(),
				[]byte("it")); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Claim(t.Context(), "more", "", answers, inAnHour())
		if _, full := errors.AsType[*store.QuotaError](err); !full {
			t.Fatalf("round %d: got %v, want that there is no room", round, err)
		}
		n := eachClaim(t, client, func(key string) error {
			left, err := client.PTTL(t.Context(), key).Result()
			if left < 8*time.Minute || left > 9*time.Minute { // it expired a minute ago
				t.Errorf("a claim is kept for %v", left)
			}
			return errors.Join(err, client.Del(t.Context(), key).Err())
		})
		if n != 2 {
			t.Errorf("%d claims are there, want 2", n)
		}
		members, err := client.ZRange(t.Context(), prefix+"guard:expiry", 0, -1).Result()
		if err != nil || len(members) != 2 {
			t.Fatalf("%d claims are counted, %v", len(members), err)
		}
		for _, member := range members { // as if expired
			if err := client.ZAdd(t.Context(), prefix+"guard:expiry",
				redis.Z{Score: 1, Member: member}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if used, err := client.HGetAll(t.Context(), prefix+"guard:usage").Result(); err != nil ||
		len(used) != 4 || used["*:e"] != "2" {
		t.Errorf("counted: %v, %v", used, err)
	}
}

// TestSecrets looks for ids, owners, answers and outcomes in the stored data.
func TestSecrets(t *testing.T) {
	client := startServer(t).connect()
	const id, owner, secret = "3f1c9a0277d84c0cb4f5a9e2d6071b88", "owner-of-it", "confidential"
	s, print := newStore(t, client, nil), [32]byte(bytes.Repeat([]byte("f"), 32))
	claim, err := s.Claim(t.Context(), id, owner, print, inAnHour())
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Commit(t.Context(), []byte("it is "+secret)); err != nil {
		t.Fatal(err)
	}
	all := ""
	if n := eachClaim(t, client, func(key string) error {
		fields, err := client.HGetAll(t.Context(), key).Result()
		all += fmt.Sprint(key, fields)
		return err
	}); n != 1 {
		t.Fatalf("%d claims", n)
	}
	used, err := client.HGetAll(t.Context(), prefix+"guard:usage").Result()
	if err != nil {
		t.Fatal(err)
	}
	all += fmt.Sprint(used)
	for _, hidden := range []string{id, owner, secret, string(print[:])} {
		if strings.Contains(all, hidden) {
			t.Errorf("%q shows in %q", hidden, all)
		}
	}
}
