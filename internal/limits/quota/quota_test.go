package quota_test

import (
	"context"
	"testing"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

const anonymous, local = "", "local"

// fill takes single units until refused. It returns how many it got and the bound.
func fill(p *quota.Pool[string], account string) (n int, limit quota.Limit) {
	for limit = p.Take(account, 1); limit == quota.None && n < 1000; limit = p.Take(account, 1) {
		n++
	}
	return n, limit
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name          string
		total, share  int64
		authenticates bool
		account       string
		want          int
		limit         quota.Limit
	}{
		{"an authenticated account gets its share", 100, 10, true, "alice", 10, quota.Share},
		{"anonymous callers get the total where nobody authenticates", 100, 10, false, anonymous,
			100, quota.Total},
		{"anonymous callers leave a quarter to those who authenticate", 100, 10, true, anonymous,
			75, quota.Share},
		{"the local client is bound by the total", 100, 10, true, local, 100, quota.Total},
		{"a share above the total", 5, 10, true, "alice", 5, quota.Total},
		{"nothing at all", 0, 10, true, "alice", 0, quota.Total},
		{"no share", 100, -1, true, "alice", 100, quota.Total},
		{"no total", -1, 10, true, "alice", 10, quota.Share},
		{"no bounds", -1, -1, true, "alice", 1000, quota.None},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := quota.New(quota.Options[string]{Total: c.total, Share: c.share,
				Authenticates: c.authenticates, Local: local})
			if got, limit := fill(p, c.account); got != c.want || limit != c.limit {
				t.Errorf("got %d, refused by %q, want %d, %q", got, limit, c.want, c.limit)
			}
		})
	}
}

func TestPoolLearnsThatCallersAuthenticate(t *testing.T) {
	p := quota.New(quota.Options[string]{Total: 100, Share: 10})
	p.Take("alice", 1)
	if got, limit := fill(p, anonymous); got != 75 || limit != quota.Share {
		t.Errorf("anonymous: got %d, refused by %q, want 75, %q", got, limit, quota.Share)
	}
	got, _ := fill(p, "bob")
	wantEqual(t, "bob's share beside them", got, 10)
}

func TestUnitsComeBack(t *testing.T) {
	p := quota.New(quota.Options[string]{Total: 10, Share: 4})
	if limit := p.Take("alice", 4); limit != quota.None {
		t.Fatalf("take: refused by %q", limit)
	}
	p.Give("alice", 3)
	wantEqual(t, "used by alice", p.UsedBy("alice"), int64(1))
	wantEqual(t, "taking 4 more is refused by", p.Take("alice", 4), quota.Share)
	wantEqual(t, "in use after a refused request", p.Used(), int64(1))
	p.Give("alice", 1)
	wantEqual(t, "in use", p.Used(), int64(0))
}

func TestForcedUnitsHoldOthersOff(t *testing.T) {
	p := quota.New(quota.Options[string]{Total: 2, Share: 2})
	p.Take("alice", 2)
	p.ForceTake("bob", 2)
	for _, given := range []int64{1, 1} {
		wantEqual(t, "carol is refused by", p.Take("carol", 1), quota.Total)
		p.Give("alice", given)
	}
	p.Give("bob", 1)
	wantEqual(t, "carol, with room, is refused by", p.Take("carol", 1), quota.None)
}

// A lateContext has ended, and calls atEnd when Done is called.
type lateContext struct {
	context.Context
	atEnd func()
}

func (c lateContext) Done() <-chan struct{} {
	c.atEnd()
	return c.Context.Done()
}

// Units granted just as the context ends are either used or not.
func TestUnitsThatComeAtTheEndAreNotLost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kept := 0
	for range 100 {
		p := quota.New(quota.Options[string]{Total: 1, Share: 1})
		p.Take("ann", 1)
		if p.Await(lateContext{ctx, func() { p.Give("ann", 1) }}, "ann", 1) == nil {
			kept++
			p.Give("ann", 1)
		}
		if used := p.Used(); used != 0 {
			t.Fatalf("%d units are lost", used)
		}
	}
	if kept == 0 || kept == 100 {
		t.Errorf("%d of 100 got the units, want some and not all", kept)
	}
}

var wantEqual = testkit.WantEqual
