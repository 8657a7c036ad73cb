package roundtrip_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestMemoRunsOnce in a flow of three rounds, in every mode, with the same value.
func TestMemoRunsOnce(t *testing.T) {
	type quote struct {
		Cents int
		Until time.Time
	}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			runs, seen := 0, map[quote]bool{}
			p := person{}
			j := newJourney(t, m, roundtrip.Options{}, p, flow(func(ctx context.Context) string {
				q := must(roundtrip.Memo(ctx, "quote", func(context.Context) (quote, error) {
					runs++
					// with a monotonic reading, which JSON drops
					return quote{100 * runs, time.Now()}, nil
				}))
				seen[q] = true
				for _, key := range []string{"a", "b"} {
					must(reasonOf(ctx, key))
				}
				return fmt.Sprint(q.Cents)
			}))
			result, err := j.end(p)
			if err != nil || show(result) != "100" || runs != 1 || len(seen) != 1 {
				t.Errorf("got %q, %v; fn ran %d times, %d values", show(result), err, runs,
					len(seen))
			}
		})
	}
}

func TestMemoFails(t *testing.T) {
	runs := 0
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		fn := func(context.Context) (int, error) {
			if runs++; runs == 1 {
				return 0, errors.New("not today")
			}
			return runs, nil
		}
		if _, err := roundtrip.Memo(ctx, "m", fn); err != nil && err.Error() != "not today" {
			t.Errorf("got %v", err)
		}
		if roundtrip.RoundOf(ctx).Number == 1 {
			if _, err := roundtrip.Memo(ctx, "m", fn); err != nil {
				return nil, err
			}
			_, err := reasonOf(ctx, "a")
			return nil, err
		}
		return say(fmt.Sprint(runs))
	})
	c.ask("a").answer("a", accepted).says("2")
}

func TestMemoOfAnotherType(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.RoundOf(ctx).Number == 1 {
			_, _ = roundtrip.Memo(ctx, "m",
				func(context.Context) (string, error) { return "text", nil })
			_, err := reasonOf(ctx, "a")
			return nil, err
		}
		_, err := roundtrip.Memo(ctx, "m", func(context.Context) (int, error) { return 1, nil })
		return nil, err
	})
	c.ask("a")
	contains(t, c.answer("a", accepted).bug(), `key "m"`, "int", "FlowVersion")
}

func TestMemoWaits(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		n, err := roundtrip.Memo(ctx, "early", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return nil, err
		}
		_, asked := reasonOf(ctx, fmt.Sprint("q", roundtrip.RoundOf(ctx).Number))
		m, err := roundtrip.Memo(ctx, "late", func(context.Context) (int, error) {
			t.Error("runs in a round that asks")
			return 1, nil
		})
		if asked == nil || !errors.Is(err, roundtrip.ErrPending) || n != 1 || m != 0 {
			t.Errorf("got %v, %v, %d, %d", asked, err, n, m)
		}
		return nil, err
	})
	c.ask("q1").answer("q1", accepted).ask("q2")
}

func TestMemosConcurrently(t *testing.T) {
	var mu sync.Mutex
	runs := 0
	inEveryMode(t, roundtrip.Options{}, nil, flow(func(ctx context.Context) string {
		var group sync.WaitGroup
		sum := 0
		for i := range 8 {
			group.Go(func() {
				n, err := roundtrip.Memo(ctx, fmt.Sprint("m", i),
					func(context.Context) (int, error) {
						mu.Lock()
						defer mu.Unlock()
						runs++
						return i, nil
					})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				sum += n
			})
		}
		group.Wait()
		must(reasonOf(ctx, "a"))
		return fmt.Sprint(sum)
	}), wants("28", 1, 2))
	if runs != 8*len(modes) {
		t.Errorf("%d runs, want 8 in each mode", runs)
	}
}

// TestIdempotencyKey: the key is the same from round one on and in every replay, but differs by
// effect, flow and caller.
func TestIdempotencyKey(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			var names []string
			handler := flow(func(ctx context.Context) string {
				for _, key := range []string{"charge", "refund"} {
					name := must(roundtrip.IdempotencyKey(ctx, key))
					names = append(names, name)
				}
				must(reasonOf(ctx, "a"))
				return "done"
			})
			j := newJourney(t, m, roundtrip.Options{}, nil, handler)
			if _, err := j.end(nil); err != nil {
				t.Fatal(err)
			}
			if m.version.Era() == protocol.Modern {
				if _, err := j.end(nil); err != nil { // the last leg again
					t.Fatal(err)
				}
			}
			charge, refund := names[0], names[1]
			for i, name := range names {
				if name != []string{charge, refund}[i%2] {
					t.Errorf("names %q", names)
				}
			}
			if raw, err := base64.RawURLEncoding.DecodeString(charge); err != nil ||
				len(raw) != 32 || charge == refund {
				t.Errorf("names %q", names)
			}
			if _, err := newJourney(t, m, roundtrip.Options{}, nil, handler).end(nil); err != nil {
				t.Fatal(err)
			}
			if last := names[len(names)-1]; last == refund || last == charge {
				t.Error("two flows share a name")
			}
		})
	}
}

// TestMemoDoesNotKeepWhatIgnoredAQuestion: a memo that swallows a question's error would hide the
// refusal from later rounds.
func TestMemoDoesNotKeepWhatIgnoredAQuestion(t *testing.T) {
	inEveryMode(t, roundtrip.Options{}, person{"sure": declined},
		flow(func(ctx context.Context) string {
			plan := must(roundtrip.Memo(ctx, "plan", func(ctx context.Context) (string, error) {
				if _, err := reasonOf(ctx, "sure"); errors.As(err, new(*roundtrip.DeclinedError)) {
					return "", err
				}
				return "delete", nil // nobody has agreed
			}))
			return plan
		}), func(t *testing.T, _ mode, _ *journey, result protocol.Result, err error) {
			if got := show(result); got != "error: declined: sure" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
}

func TestMemoPanics(t *testing.T) {
	c := serve(t, func(ctx context.Context) (protocol.Result, error) {
		try := func(fn func(context.Context) (int, error)) (n int, err error) {
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("panic: %v", v)
				}
			}()
			return roundtrip.Memo(ctx, "m", fn)
		}
		_, first := try(func(context.Context) (int, error) { panic("no") })
		n, second := try(func(context.Context) (int, error) { return 1, nil })
		return say(fmt.Sprint(first, n, second))
	})
	if got := c.done(); got != "panic: no1<nil>" && got != "panic: no 1 <nil>" {
		t.Errorf("got %q", got)
	}
}

// The usual OAuth flow asks once, in all revisions, if its nonce is kept.
func TestVisitsWithANonceAreAskedForOnce(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			var visited, used string
			p := person{"login": agreed}
			j := newJourney(t, m, roundtrip.Options{}, p, flow(func(ctx context.Context) string {
				nonce := must(roundtrip.Nonce(ctx, "login"))
				if visited == "" {
					visited = nonce
				}
				check(roundtrip.AskURL(ctx, "login", "Sign in",
					"https://id.example/authorize?state="+url.QueryEscape(nonce)))
				used = nonce
				return "signed in"
			}))
			if result, err := j.end(p); err != nil || show(result) != "signed in" {
				t.Fatalf("got %q, %v", show(result), err)
			}
			if len(used) != 32 || used != visited {
				t.Errorf("the nonce was %q and became %q", visited, used)
			}
		})
	}
}

func TestNoncesDiffer(t *testing.T) {
	seen := map[string]bool{}
	handler := flow(func(ctx context.Context) string {
		for _, name := range []string{"a", "b"} {
			nonce := must(roundtrip.Nonce(ctx, name))
			seen[nonce] = true
		}
		return "done"
	})
	for range 2 {
		serve(t, handler).done()
	}
	if len(seen) != 4 {
		t.Errorf("%d nonces are different, want 4", len(seen))
	}
}
