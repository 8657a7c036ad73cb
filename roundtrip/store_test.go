package roundtrip_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A shelf is a store that records states, and can lie.
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
		return nil, store.ErrStateGone
	}
	return data, nil
}

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

// TestStateStore: a flow exceeds the limit; the wire stays small, and the store sees no content.
func TestStateStore(t *testing.T) {
	for name, kept := range map[string]store.StateStore{"memory": store.NewMemoryStateStore(0),
		"shelf": newShelf()} {
		t.Run(name, func(t *testing.T) {
			opts := roundtrip.Options{StateStore: kept, Guard: store.NewMemoryGuard(0)}
			inEveryMode(t, opts, person{"a": form("one"), "b": form("two")}, large,
				func(t *testing.T, m mode, j *journey, result protocol.Result, err error) {
					if show(result) != "21000 one two" || err != nil {
						t.Errorf("got %q, %v; events %+v", show(result), err, j.events.list)
					}
					for _, asked := range all[event.InputRequested](j.events) {
						if asked.StateBytes > 400 {
							t.Errorf("%d bytes on the wire", asked.StateBytes)
						}
					}
				})
			if s, ok := kept.(*shelf); ok {
				if len(s.data) != 2 { // two rounds with client-carried state
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

func TestStateStoreIsForLargeStatesOnly(t *testing.T) {
	s := newShelf()
	c := newClient(t, roundtrip.Options{StateStore: s}, consent)
	c.ask("k")
	if len(s.data) != 0 {
		t.Error("a small state was stored")
	}
	c = serve(t, large)
	contains(t, c.bug(), "over the limit", `memo "large"`)
}

// TestStoredStateIsBound: handles are useless to others, as are states that a store has replaced.
func TestStoredStateIsBound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(s *shelf, c *client)
		reason event.Reason
	}{
		{"gone", func(s *shelf, _ *client) { s.data = nil }, words.ReasonGone},
		{"other principal", func(_ *shelf, c *client) { c.call.Principal.Subject = "bob" },
			words.ReasonGone},
		{"anonymous", func(_ *shelf, c *client) { c.call.Principal = protocol.Principal{} },
			words.ReasonGone},
		{"other tool", func(_ *shelf, c *client) { c.call.Target = "delete" }, words.ReasonTarget},
		{"other arguments", func(_ *shelf, c *client) { c.call.Arguments = nil },
			words.ReasonArguments},
		{"changed", func(s *shelf, _ *client) {
			for _, data := range s.data {
				data[len(data)/2] ^= 1
			}
		}, words.ReasonTampered},
		{"cut", func(s *shelf, _ *client) {
			s.get = func(_ string, data []byte) ([]byte, error) { return data[:10], nil }
		}, words.ReasonTampered},
		{"empty", func(s *shelf, _ *client) {
			s.get = func(string, []byte) ([]byte, error) { return nil, nil }
		}, words.ReasonTampered},
		{"flooded", func(s *shelf, _ *client) {
			s.get = func(string, []byte) ([]byte, error) { return make([]byte, (1<<20)+17), nil }
		}, words.ReasonTooLong},
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
		frozen(t, c.answer("a", accepted), words.ReasonTampered)
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
		frozen(t, other.answer("a", accepted), words.ReasonMalformed)
	})
}

// TestStateStoreFails: an unreachable store admits nothing, but does not invalidate a state.
func TestStateStoreFails(t *testing.T) {
	s := newShelf()
	s.put = errors.New("no space")
	c := newClient(t, roundtrip.Options{StateStore: s}, large)
	unknown := c.fails(protocol.CodeFlowEnded) // a memo is kept
	contains(t, unknown.Message, "the outcome is not known")
	if e := one[event.StoreFailed](t, c.events); e.Resource != "store" || e.Operation != "write" {
		t.Errorf("reported %+v", e)
	}

	s = newShelf()
	c = newClient(t, roundtrip.Options{StateStore: s}, large)
	c.ask("a")
	s.get = func(string, []byte) ([]byte, error) { return nil, errors.New("no route") }
	c.answer("a", accepted).fails(protocol.CodeBusy)
	if e := one[event.StoreFailed](t, c.events); e.Resource != "store" || e.Operation != "read" {
		t.Errorf("reported %+v", e)
	}
	if c.runs != 1 {
		t.Error("the handler ran")
	}
	s.get = nil
	c.answer("a", accepted).ask("b") // retry later
}

// TestStoreIsToldTheOwner: a principal's states have one owner, anonymous callers' have none.
func TestStoreIsToldTheOwner(t *testing.T) {
	s := &owners{shelf: newShelf()}
	for _, subject := range []string{"ann", "ann", "bob", ""} {
		c := newClient(t, roundtrip.Options{StateStore: s,
			Limits: roundtrip.Limits{StateBytes: 1 << 10}},
			func(context.Context) (protocol.Result, error) {
				return ask(whyNow.Elicit("why?"), roundtrip.WithState(strings.Repeat("x", 2<<10)))
			})
		c.call.Principal = protocol.Principal{Subject: subject}
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
