package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestBatch asks everything in one round.
func TestBatch(t *testing.T) {
	inEveryMode(t, roundtrip.Options{}, person{"a": form("one"), "b": form("two")},
		func(ctx context.Context) (protocol.Result, error) {
			var a, b, why Confirmation
			var raw json.RawMessage
			err := roundtrip.Batch(ctx,
				roundtrip.Into(&a, "a", "a ?"),
				roundtrip.Into(&b, "b", "b ?", roundtrip.AnswerWithin(time.Minute)),
				whyNow.Into(&why, "why ?"),
				roundtrip.ElicitSchema("raw", "raw ?", json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`)).Into(&raw),
				roundtrip.ElicitURL("url", "visit", "https://x.example").Into(nil),
				roundtrip.ListRoots("roots").Into(nil))
			if err != nil {
				return nil, err
			}
			roots, _ := roundtrip.Roots(ctx, "roots")
			return say(fmt.Sprint(a.Reason, b.Reason, why.Reason, string(raw),
				roundtrip.Visited(ctx, "url"), len(roots)))
		}, wants(`onetwonow{"reason":"now"}accepted 1`, 6, 2))
}

// TestBatchIsPushedAtOnce: live questions of a batch are in the air together.
func TestBatchIsPushedAtOnce(t *testing.T) {
	c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{},
		func(ctx context.Context) (protocol.Result, error) {
			var a, b Confirmation
			if err := roundtrip.Batch(ctx, roundtrip.Into(&a, "a", "a ?"),
				roundtrip.Into(&b, "b", "b ?")); err != nil {
				return nil, err
			}
			return say(a.Reason + b.Reason)
		})
	var waiting atomic.Int32
	both := make(chan struct{})
	h.answer = func(context.Context, protocol.InputRequest, func()) (json.RawMessage, error) {
		if waiting.Add(1) == 2 {
			close(both)
		}
		<-both
		return json.RawMessage(accepted), nil
	}
	if got := c.done(); got != "nownow" {
		t.Errorf("got %q", got)
	}
}

// TestBatchPartly has some questions answered and some not.
func TestBatchPartly(t *testing.T) {
	handler := func(ctx context.Context) (protocol.Result, error) {
		var a, b Confirmation
		if err := roundtrip.Batch(ctx, roundtrip.Into(&a, "a", "a ?"),
			roundtrip.Into(&b, "b", "b ?")); err != nil {
			if a != (Confirmation{}) || b != (Confirmation{}) {
				t.Errorf("stored %v and %v beside %v", a, b, err)
			}
			return nil, err
		}
		return say(a.Reason + " " + b.Reason)
	}
	c := newClient(t, roundtrip.Options{}, handler)
	c.ask("a", "b")
	c.answer("a", form("first")).ask("b")
	if got := c.answer("b", form("second")).done(); got != "first second" {
		t.Errorf("got %q", got)
	}
	c = newClient(t, roundtrip.Options{}, handler)
	c.ask("a", "b")
	c.answer("a", form("first"), "b", form("x")).ask("b")
	if got := c.answer("b", form("second")).done(); got != "first second" {
		t.Errorf("got %q", got)
	}
	c = newClient(t, roundtrip.Options{}, handler)
	c.ask("a", "b")
	if got := c.answer("b", declined).done(); got != "error: declined: b" {
		t.Errorf("got %q: one refusal is enough", got)
	}
	inEveryMode(t, roundtrip.Options{}, person{"a": declined, "b": cancelled}, handler,
		wants("error: declined: a\ncancelled: b", 2, 2))
}

// TestBatchOfNothing asks nothing.
func TestBatchOfNothing(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		if err := roundtrip.Batch(ctx); err != nil {
			t.Error(err)
		}
		return say("done")
	})
	c.done()
}

// TestBatchOfNil is a mistake that ends the run, as all are: a handler that
// ignores the error must not go on.
func TestBatchOfNil(t *testing.T) {
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		var c Confirmation
		if err := roundtrip.Batch(ctx, roundtrip.Into(&c, "k", "k ?"), nil); err == nil {
			t.Error("no error")
		}
		return say("deleted")
	})
	contains(t, c.bug(), "nil")
}

// TestBatchStoresAllOrNothing: one answer of two does not fit its type.
func TestBatchStoresAllOrNothing(t *testing.T) {
	type small struct {
		N int8 `json:"n"`
	}
	var stored Confirmation
	c := newClient(t, roundtrip.Options{}, func(ctx context.Context) (protocol.Result, error) {
		var n small
		stored = Confirmation{}
		err := roundtrip.Batch(ctx, roundtrip.Into(&stored, "k", "k ?"),
			roundtrip.Into(&n, "n", "n ?"))
		if err != nil && stored != (Confirmation{}) {
			t.Errorf("%v is stored beside the error %v", stored, err)
		}
		return say(fmt.Sprint(stored, n, err))
	})
	c.ask("k", "n")
	c.answer("k", accepted, "n", `{"action":"accept","content":{"n":300}}`).ask("n")
}

// TestWithdrawnBatch: a batch that its handler gave up half answered can be asked
// again, with the keys it had.
func TestWithdrawnBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newLegacy(t, protocol.V20251125, roundtrip.Options{},
			func(ctx context.Context) (protocol.Result, error) {
				var a, b Confirmation
				batch := func(ctx context.Context) error {
					return roundtrip.Batch(ctx, roundtrip.Into(&a, "a", "a ?"),
						roundtrip.Into(&b, "b", "b ?"))
				}
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if err := batch(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if err := batch(ctx); err != nil {
					return nil, err
				}
				return say(a.Reason + b.Reason)
			})
		h.answer = func(ctx context.Context, q protocol.InputRequest,
			extend func()) (json.RawMessage, error) {
			switch h.traffic() {
			case 1, 2:
				if q.(*protocol.ElicitForm).Message == "b ?" {
					return json.RawMessage(`{"action":"yes"}`), nil
				}
			case 3:
				return silent(ctx, q, extend)
			}
			return json.RawMessage(accepted), nil
		}
		if got := c.done(); got != "nownow" || h.traffic() != 4 {
			t.Errorf("got %q after %d questions", got, h.traffic())
		}
	})
}
