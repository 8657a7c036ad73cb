package roundtrip_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// busy expects a refusal for lack of room, and returns its limit and retry time.
func (c *client) busy() (limit string, after time.Duration) {
	c.t.Helper()
	e := c.fails(protocol.CodeBusy)
	var data struct {
		RetryAfterMs int64
		Limit        string
	}
	if err := json.Unmarshal(e.Data, &data); err != nil || data.RetryAfterMs <= 0 {
		c.t.Errorf("data %s does not tell when to come back", e.Data)
	}
	if bugs := all[event.ServerBug](c.events); len(bugs) > 0 {
		c.t.Errorf("the refusal counts as a bug: %v", bugs)
	}
	return data.Limit, time.Duration(data.RetryAfterMs) * time.Millisecond
}

func pay(ctx context.Context) (protocol.Result, error) {
	reason, err := reasonOf(ctx, "why")
	if err != nil {
		return nil, err
	}
	return say("paid for " + reason)
}

// TestAFullGuardRefusesItsPrincipalAlone: a principal without room is told when to retry with the
// same state. Another principal's concurrent payment goes through.
func TestAFullGuardRefusesItsPrincipalAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := store.NewMemoryGuard(8) // 2 per principal
		flow := func(subject string) *client {
			c := newClient(t, roundtrip.Options{Guard: guard}, pay)
			c.call.Principal = protocol.Principal{Subject: subject}
			c.ask("why")
			return c.answer("why", form("a reason"))
		}
		mallory := flow("mallory")
		flow("mallory").done()
		flow("mallory").done()
		alice, nobody := flow("alice"), flow("")
		if limit, after := mallory.busy(); limit != "principal" || after != time.Minute ||
			mallory.runs != 1 {
			t.Errorf("refused by %q for %v after %d runs, want its share, a minute, 1", limit,
				after, mallory.runs)
		}
		if e := one[event.QuotaExceeded](t, mallory.events); e.Resource != "guard" ||
			e.Limit != "principal" {
			t.Errorf("event %+v", e)
		}
		for _, c := range []*client{alice, nobody} {
			c.says("paid for a reason")
		}
		if first, again := alice.done(), alice.done(); first != again {
			t.Errorf("a replay got %q instead of %q", again, first)
		}
		time.Sleep(59 * time.Minute)
		mallory.call.State = protocol.RequestState{}
		mallory.call.Responses = nil
		mallory.ask("why")
		time.Sleep(4 * time.Minute) // two have expired
		mallory.answer("why", form("patience")).says("paid for patience")
	})
}

// TestAnonymousCallersLeaveRoomFromTheStart: if callers can authenticate, the first to do so finds
// room in guard and store, whatever anonymous callers did.
func TestAnonymousCallersLeaveRoomFromTheStart(t *testing.T) {
	for name, make := range map[string]func() roundtrip.Options{
		"guard": func() roundtrip.Options {
			return roundtrip.Options{Guard: store.NewMemoryGuard(8)}
		},
		"store": func() roundtrip.Options {
			return roundtrip.Options{StateStore: store.NewMemoryStateStore(8),
				Limits: roundtrip.Limits{StateBytes: 250}}
		},
	} {
		for _, authenticates := range []bool{true, false} {
			opts := make()
			use := func(who protocol.Principal) error {
				c := newClient(t, opts, func(ctx context.Context) (protocol.Result, error) {
					if _, err := reasonOf(ctx, "why"); err != nil {
						return ask(roundtrip.WithState(strings.Repeat("x", 250)))
					}
					return say("done")
				})
				c.call.Principal, c.call.Authenticates = who, authenticates
				if _, err := c.send(); err != nil {
					return err
				}
				_, err := c.answer("why", form("a reason")).send()
				return err
			}
			served := 0
			for range 8 {
				if use(protocol.Principal{}) == nil {
					served++
				}
			}
			err := use(ann)
			if want := map[bool]int{true: 6, false: 8}[authenticates]; served != want ||
				(err == nil) != authenticates {
				t.Errorf("%s, callers can authenticate %v: %d anonymous ones are served, and the "+
					"first other gets %v", name, authenticates, served, err)
			}
		}
	}
}

// TestAFullStoreSaysWhenToComeBack, in revisions whose clients carry the state.
func TestAFullStoreSaysWhenToComeBack(t *testing.T) {
	kept := store.NewMemoryStateStore(4) // 1 per principal
	flow := func(subject string) *client {
		c := newClient(t, roundtrip.Options{StateStore: kept}, large)
		c.call.Principal = protocol.Principal{Subject: subject}
		return c
	}
	mallory := flow("mallory")
	mallory.ask("a")
	if limit, _ := flow("mallory").busy(); limit != "principal" {
		t.Errorf("refused by %q", limit)
	}
	if limit, _ := mallory.answer("a", form("one")).busy(); limit != "principal" {
		t.Errorf("a second leg: refused by %q", limit)
	}
	alice := flow("alice")
	alice.ask("a")
	if got := one[event.QuotaExceeded](t, mallory.events); got.Resource != "store" ||
		got.Flow == "" {
		t.Errorf("event %+v", got)
	}
	for _, m := range modes[1:] {
		p := person{"a": form("one"), "b": form("two")}
		j := newJourney(t, m, roundtrip.Options{StateStore: kept}, p, large)
		j.call.Principal = mallory.call.Principal
		if result, err := j.end(p); err != nil || show(result) != "21000 one two" {
			t.Errorf("%s: got %q, %v", m.name, show(result), err)
		}
	}
}
