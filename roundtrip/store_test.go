package roundtrip_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// shelf is a store that remembers what it was given, and can be told to lie.
type shelf struct {
	mu   sync.Mutex
	data map[string][]byte
	till map[string]time.Time
	get  func(id string, data []byte) ([]byte, error)
	put  error
}

func newShelf() *shelf {
	return &shelf{data: map[string][]byte{}, till: map[string]time.Time{}}
}

func (s *shelf) Put(_ context.Context, id, _ string, state []byte, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.data[id]; ok {
		return errors.New("put twice")
	}
	s.data[id], s.till[id] = bytes.Clone(state), until
	return s.put
}

func (s *shelf) Get(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.data[id]
	if s.get != nil {
		return s.get(id, data)
	}
	if !ok {
		return nil, roundtrip.ErrStateGone
	}
	return data, nil
}

// large keeps 20 KB of secrets and asks twice.
func large(ctx context.Context) (protocol.Result, error) {
	kept, err := roundtrip.Memo(ctx, "large", func(context.Context) (string, error) {
		return strings.Repeat("secret ", 3000), nil
	})
	if err != nil {
		return nil, err
	}
	a, err := reasonOf(ctx, "a")
	if err != nil {
		return nil, err
	}
	b, err := reasonOf(ctx, "b")
	if err != nil {
		return nil, err
	}
	return say(fmt.Sprint(len(kept), " ", a, " ", b))
}

// TestStateStore takes a flow past the cap. What goes over the wire stays
// small, what the store sees says nothing.
func TestStateStore(t *testing.T) {
	for name, store := range map[string]roundtrip.StateStore{"memory": roundtrip.NewMemoryStateStore(0), "shelf": newShelf()} {
		t.Run(name, func(t *testing.T) {
			opts := roundtrip.Options{StateStore: store, Guard: roundtrip.NewMemoryGuard(0)}
			inEveryMode(t, opts, person{"a": form("one"), "b": form("two")}, large,
				func(t *testing.T, m mode, j *journey, result protocol.Result, err error) {
					if show(result) != "21000 one two" || err != nil {
						t.Errorf("got %q, %v; events %+v", show(result), err, j.events.list)
					}
					for _, asked := range all[roundtrip.InputRequested](j.events) {
						if asked.StateBytes > 400 {
							t.Errorf("%d bytes on the wire", asked.StateBytes)
						}
					}
				})
			if s, ok := store.(*shelf); ok {
				if len(s.data) != 2 { // two rounds in the mode whose client carries the state
					t.Errorf("%d states stored, want 2", len(s.data))
				}
				for id, data := range s.data {
					if len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" ||
						bytes.Contains(data, []byte("secret")) ||
						bytes.Contains(data, []byte("deploy")) {
						t.Errorf("%s: what is stored can be read", id)
					}
					if left := time.Until(s.till[id]); left < time.Hour ||
						left > time.Hour+5*time.Minute {
						t.Errorf("stored for %v", left)
					}
				}
			}
		})
	}
}

// TestStateStoreIsForLargeStatesOnly leaves small ones on the wire.
func TestStateStoreIsForLargeStatesOnly(t *testing.T) {
	s := newShelf()
	c := newClient(t, roundtrip.Options{StateStore: s}, consent)
	c.ask("k")
	if len(s.data) != 0 {
		t.Error("a small state was stored")
	}
	c = newClient(t, roundtrip.Options{}, large)
	contains(t, c.bug(), "over the limit", `memo "large"`)
	c = newClient(t, roundtrip.Options{StateStore: s, MaxStoredBytes: 20_000}, large)
	contains(t, c.bug(), "over the limit of 20000", "stored", `memo "large"`)
}

// TestStoredStateIsBound: a handle is of no use to anybody else, nor is what a
// store puts in the place of what it was given.
func TestStoredStateIsBound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(s *shelf, c *client)
		reason roundtrip.Reason
	}{
		{"gone", func(s *shelf, _ *client) { s.data = nil }, roundtrip.ReasonGone},
		{"other principal", func(_ *shelf, c *client) { c.call.Principal.Subject = "bob" },
			roundtrip.ReasonGone},
		{"anonymous", func(_ *shelf, c *client) { c.call.Principal = roundtrip.Principal{} },
			roundtrip.ReasonGone},
		{"other tool", func(_ *shelf, c *client) { c.call.Target = "delete" },
			roundtrip.ReasonTarget},
		{"other arguments", func(_ *shelf, c *client) { c.call.Arguments = nil },
			roundtrip.ReasonArguments},
		{"changed", func(s *shelf, _ *client) {
			for _, data := range s.data {
				data[len(data)/2] ^= 1
			}
		}, roundtrip.ReasonTampered},
		{"cut", func(s *shelf, _ *client) {
			s.get = func(_ string, data []byte) ([]byte, error) { return data[:10], nil }
		}, roundtrip.ReasonTampered},
		{"empty", func(s *shelf, _ *client) {
			s.get = func(string, []byte) ([]byte,
				error) {
				return nil, nil
			}
		}, roundtrip.ReasonTampered},
		{"flooded", func(s *shelf, _ *client) {
			s.get = func(string, []byte) ([]byte,
				error) {
				return make([]byte, roundtrip.DefaultMaxStoredBytes+17), nil
			}
		}, roundtrip.ReasonTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShelf()
			c := newClient(t, roundtrip.Options{StateStore: s}, large)
			c.ask("a")
			tc.spoil(s, c)
			frozen(t, c.answer("a", accepted), tc.reason)
		})
	}
	t.Run("that of another flow", func(t *testing.T) {
		s := newShelf()
		c := newClient(t, roundtrip.Options{StateStore: s}, large)
		c.ask("a")
		mine := c.call.State
		var first string
		for id := range s.data {
			first = id
		}
		c.call = toolCall()
		c.ask("a")
		s.get = func(id string, _ []byte) ([]byte, error) {
			for other, data := range s.data {
				if other != id {
					return data, nil
				}
			}
			return nil, errors.New("no other")
		}
		c.call.State = mine
		frozen(t, c.answer("a", accepted), roundtrip.ReasonTampered)
		if first == "" {
			t.Error("nothing stored")
		}
	})
	t.Run("a funnel without a store", func(t *testing.T) {
		ring := ring(t, "k1")
		c := newClient(t, roundtrip.Options{StateStore: newShelf(), Sealer: ring}, large)
		c.ask("a")
		other := newClient(t, roundtrip.Options{Sealer: ring}, large)
		other.call = c.call
		frozen(t, other.answer("a", accepted), roundtrip.ReasonMalformed)
	})
}

// TestStateStoreFails: a store that cannot be asked lets nothing through, and
// is no proof against a state either.
func TestStateStoreFails(t *testing.T) {
	s := newShelf()
	s.put = errors.New("no space")
	c := newClient(t, roundtrip.Options{StateStore: s}, large)
	contains(t, c.bug(), "storing the state", "no space")

	s = newShelf()
	c = newClient(t, roundtrip.Options{StateStore: s}, large)
	c.ask("a")
	s.get = func(string, []byte) ([]byte, error) { return nil, errors.New("no route") }
	contains(t, c.answer("a", accepted).bug(), "reading the stored state", "no route")
	if c.runs != 1 {
		t.Error("the handler ran")
	}
	s.get = nil
	c.answer("a", accepted).ask("b") // later it may go on
}

func TestMemoryStateStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := roundtrip.NewMemoryStateStore(2)
		put := func(id string, size int, d time.Duration) error {
			return s.Put(ctx, id, "owner of "+id, make([]byte, size), time.Now().Add(d))
		}
		for _, id := range []string{"a", "b"} {
			if err := put(id, 10, time.Minute); err != nil {
				t.Error(err)
			}
		}
		if put("a", 1, time.Minute) == nil {
			t.Error("an id was put twice")
		}
		if err := put("c", 1, time.Minute); !refusedFor(err, "server") {
			t.Errorf("full: %v", err)
		}
		if data, err := s.Get(ctx, "a"); err != nil || len(data) != 10 {
			t.Errorf("got %d bytes, %v", len(data), err)
		}
		if _, err := s.Get(ctx, "c"); !errors.Is(err, roundtrip.ErrStateGone) {
			t.Errorf("unknown: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := s.Get(ctx, "a"); !errors.Is(err, roundtrip.ErrStateGone) {
			t.Errorf("expired: %v", err)
		}
		if err := put("c", 1, time.Minute); err != nil {
			t.Errorf("after expiry: %v", err)
		}
		s = roundtrip.NewMemoryStateStore(0)
		for range 2 { // the second time shows that room comes back
			for _, id := range []string{"a", "b", "c", "d"} {
				if err := put(id, roundtrip.MaxStoreBytes/4, time.Minute); err != nil {
					t.Error(err)
				}
			}
			if put("e", 1, time.Minute) == nil {
				t.Error("more bytes than are allowed")
			}
			time.Sleep(time.Minute)
		}
	})
}

// refusedFor reports whether err tells that a bound is reached and when to come
// back.
func refusedFor(err error, limit string) bool {
	full, ok := errors.AsType[*roundtrip.QuotaError](err)
	return ok && full.Limit == limit && full.RetryAfter == time.Minute
}

// TestMemoryStateStoreShares: one principal cannot take all the room.
func TestMemoryStateStoreShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := roundtrip.NewMemoryStateStore(8)
		put := func(owner, id string, size int) error {
			return s.Put(t.Context(), id, owner, make([]byte, size), time.Now().Add(time.Minute))
		}
		for _, id := range []string{"a", "b"} {
			if err := put("greedy", id, 10); err != nil {
				t.Error(err)
			}
		}
		if err := put("greedy", "c", 1); !refusedFor(err, "principal") {
			t.Errorf("a third state: %v", err)
		}
		if err := put("modest", "d", 10); err != nil {
			t.Errorf("another principal: %v", err)
		}
		time.Sleep(time.Minute)
		if err := put("greedy", "c", roundtrip.MaxStoreBytes/4); err != nil {
			t.Errorf("after expiry: %v", err)
		}
		if err := put("greedy", "e", 1); !refusedFor(err, "principal") {
			t.Error("more bytes than its share")
		}
	})
}

// TestStoreIsToldTheOwner: states of one principal have one owner, those of
// anonymous callers none.
func TestStoreIsToldTheOwner(t *testing.T) {
	s := &owners{shelf: newShelf()}
	for _, subject := range []string{"ann", "ann", "bob", ""} {
		c := newClient(t, roundtrip.Options{StateStore: s, MaxStateBytes: 1 << 10},
			func(context.Context) (protocol.Result, error) {
				return ask(whyNow.Elicit("why?"), roundtrip.WithState(strings.Repeat("x", 2<<10)))
			})
		c.call.Principal = roundtrip.Principal{Subject: subject}
		c.ask("why")
	}
	if o := s.seen; len(o) != 4 || o[0] != o[1] || o[0] == o[2] || o[3] != "" || len(o[0]) != 64 {
		t.Errorf("owners %q", o)
	}
}

type owners struct {
	*shelf
	seen []string
}

func (o *owners) Put(ctx context.Context, id, owner string, state []byte, until time.Time) error {
	o.seen = append(o.seen, owner)
	return o.shelf.Put(ctx, id, owner, state, until)
}
