package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The function frozen sends a state that must be refused for reason; the client only gets the
// observer's reference.
func frozen(t testing.TB, c *client, reason event.Reason) {
	t.Helper()
	runs := c.runs
	before := len(all[event.StateRejected](c.events))
	state, _ := c.call.State.Text()
	e := c.fails(protocol.CodeInvalidParams)
	if e.Message != "Invalid or expired requestState" {
		t.Errorf("message %q", e.Message)
	}
	var data map[string]string
	if err := json.Unmarshal(e.Data, &data); err != nil || len(data) != 2 ||
		data["reason"] != "invalid_request_state" {
		t.Errorf("data %s: %v", e.Data, err)
	}
	if _, err := uuid.Parse(data["reference"]); err != nil {
		t.Errorf("reference: %v", err)
	}
	list := all[event.StateRejected](c.events)
	if len(list) != before+1 {
		t.Fatalf("%d rejections reported, want 1", len(list)-before)
	}
	if got := list[before]; got.Reason != reason || got.Reference != data["reference"] ||
		got.Method != c.call.Method || got.Target != c.call.Target {
		t.Errorf("the observer is told %+v, want reason %q and reference %s", got, reason,
			data["reference"])
	}
	if opened := strings.HasPrefix(string(reason), "other_") ||
		strings.Contains(string(reason), "expired"); opened && list[before].Err != nil {
		t.Errorf("the observer is told %v of an authentic state", list[before].Err)
	}
	for _, earlier := range list[:before] {
		if earlier.Reference == data["reference"] {
			t.Errorf("reference %s is used twice", data["reference"])
		}
	}
	if c.runs != runs {
		t.Error("the handler ran")
	}
	if len(state) > 8 && strings.Contains(fmt.Sprintf("%+v %s", e, e.Data), state[:8]) {
		t.Errorf("the error shows the state: %v %s", e, e.Data)
	}
}

func TestStateIsOpaqueAndNeverTheSame(t *testing.T) {
	c := serve(t, func(context.Context) (protocol.Result, error) {
		return ask(elicit("k"), roundtrip.WithState("a secret of the author"))
	})
	c.ask("k")
	first, _ := c.call.State.Text()
	c.call.State = protocol.RequestState{}
	c.ask("k")
	if second, _ := c.call.State.Text(); first == second || strings.Contains(first, "secret") {
		t.Errorf("states %q and %q", first, second)
	}
}

func TestOversizedStateIsNotDecoded(t *testing.T) {
	sealer := &fakeSealer{open: func(string) ([]byte, error) {
		t.Error("an oversized state was opened")
		return nil, nil
	}}
	c := newClient(t, roundtrip.Options{Sealer: sealer,
		Limits: roundtrip.Limits{StateBytes: 100}}, consent)
	c.call.State = protocol.StateText(strings.Repeat("A", 101))
	frozen(t, c, words.ReasonTooLong)

	c = newClient(t, roundtrip.Options{Sealer: sealer,
		Limits: roundtrip.Limits{StateBytes: 1 << 30}}, consent)
	c.call.State = protocol.StateText(strings.Repeat("A", 64<<10+1))
	frozen(t, c, words.ReasonTooLong)
}

func TestStateOverTheCap(t *testing.T) {
	c := newClient(t, roundtrip.Options{Limits: roundtrip.Limits{StateBytes: 2000}},
		rounds(asks(elicit("essay"),
			elicit("note"), roundtrip.WithState("abc")), func(ctx context.Context) (protocol.Result, error) {
			return ask(roundtrip.ListRoots("more"))
		}))
	c.ask("essay", "note")
	long := strings.Repeat("lorem ", 500)
	c.answer("essay", `{"action":"accept","content":{"reason":"`+long+`"}}`, "note", accepted)
	bug := c.bug()
	contains(t, bug, `answer "essay" 30`, "over the limit of 2000", `answer "note"`,
		"WithState 5 bytes")
	if strings.Index(bug, "essay") > strings.Index(bug, "note") {
		t.Errorf("%q does not name the largest first", bug)
	}
	if strings.Contains(bug, "lorem") {
		t.Errorf("%q shows the answer", bug)
	}
}

func TestVisitsCarryNoContent(t *testing.T) {
	c := newClient(t, roundtrip.Options{Limits: roundtrip.Limits{StateBytes: 1000}},
		rounds(asks(roundtrip.ElicitURL("visit", "?", "https://id.example"),
			elicit("form")), func(ctx context.Context) (protocol.Result, error) {
			return ask(roundtrip.ListRoots("more"))
		}))
	c.ask("visit", "form")
	junk := strings.Repeat("x", 2000)
	c.answer("visit", `{"action":"accept","content":{"a":"`+junk+`"}}`, "form",
		`{"action":"decline","content":{"a":"`+junk+`"}}`).ask("more")
}

func timed(limits ...time.Duration) roundtrip.Handler {
	return func(ctx context.Context) (protocol.Result, error) {
		if roundtrip.RoundOf(ctx).Number > 1 {
			return say("in time")
		}
		var items []roundtrip.Item
		for i, limit := range limits {
			items = append(items, roundtrip.Elicit[Confirmation](fmt.Sprint("q", i),
				"?", roundtrip.AnswerWithin(limit)))
		}
		return ask(items...)
	}
}

func TestAnswerWithinInGuardStyle(t *testing.T) {
	for _, tc := range []struct {
		name   string
		opts   roundtrip.Options
		limits []time.Duration
		last   time.Duration // the latest answer in time
		reason event.Reason
	}{
		{"default", roundtrip.Options{}, []time.Duration{0}, time.Hour, words.ReasonExpired},
		{"option", roundtrip.Options{RoundTTL: time.Minute}, []time.Duration{0}, time.Minute,
			words.ReasonExpired},
		{"set on one", roundtrip.Options{}, []time.Duration{0, 5 * time.Minute}, 5 * time.Minute,
			words.ReasonExpired},
		{"longer than the default", roundtrip.Options{}, []time.Duration{3 * time.Hour},
			3 * time.Hour, words.ReasonExpired},
		{"shortest of those set", roundtrip.Options{},
			[]time.Duration{3 * time.Hour, 2 * time.Hour, 0}, 2 * time.Hour, words.ReasonExpired},
		{"negative is unset", roundtrip.Options{}, []time.Duration{-1}, time.Hour,
			words.ReasonExpired},
		{"cut at the flow's end", roundtrip.Options{}, []time.Duration{100 * time.Hour},
			24 * time.Hour, words.ReasonFlowExpired},
		{"a round longer than flows", roundtrip.Options{RoundTTL: 48 * time.Hour},
			[]time.Duration{0}, 48 * time.Hour, words.ReasonFlowExpired},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			c := newClient(t, tc.opts, timed(tc.limits...))
			if _, err := c.send(); err != nil {
				t.Fatal(err)
			}
			retry := c.call
			time.Sleep(tc.last - time.Millisecond)
			c.says("in time")
			c.call = retry
			time.Sleep(time.Millisecond)
			frozen(t, c, tc.reason)
		})
	}
}

func TestFlowDeadlineIsAbsolute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundtrip.Options{RoundTTL: 20 * time.Hour}, insatiable)
		c.ask("q1")
		time.Sleep(10 * time.Hour)
		c.answer("q1", accepted).ask("q2")
		time.Sleep(14 * time.Hour)
		frozen(t, c.answer("q2", accepted), words.ReasonFlowExpired)
	})
}

func TestRestartExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundtrip.Options{RestartExpired: true, Sealer: ring(t, "k1")},
			func(ctx context.Context) (protocol.Result, error) {
				if n := roundtrip.RoundOf(ctx).Number; n != 1 {
					return say(fmt.Sprint("round ", n))
				}
				if dropped := fmt.Sprint(roundtrip.DroppedAnswers(ctx)); dropped != "[]" &&
					dropped != "[{k expired}]" {
					t.Errorf("dropped %v", dropped)
				}
				if _, ok := roundtrip.State[int](ctx); ok {
					t.Error("an expired state was read")
				}
				return ask(elicit("k"), roundtrip.WithState(1))
			})
		c.ask("k")
		first := c.call
		time.Sleep(2 * time.Hour)
		c.answer("k", accepted).ask("k")
		if d := one[event.AnswersDropped](t, c.events); fmt.Sprint(d.Dropped) != "[{k expired}]" {
			t.Errorf("dropped %v", d.Dropped)
		}
		c.answer("k", accepted).says("round 2")
		time.Sleep(30 * time.Hour) // the flow has expired, too
		c.call = first
		c.ask("k")

		c.call = first
		c.call.Principal.Subject = "bob"
		frozen(t, c, words.ReasonPrincipal)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, roundtrip.Options{RestartExpired: true, Sealer: ring(t, "k1"),
			Audience: honest().Audience}, vectorHandler)
		c.call.State = protocol.StateText(seal(t, ring(t, "k1"), appended(t, honest())))
		frozen(t, c, words.ReasonFuture)
		list := all[event.StateRejected](c.events)
		if err := list[len(list)-1].Err; err == nil || !strings.Contains(err.Error(), "by 1h") {
			t.Errorf("got %v, want by how much the clock is ahead", err)
		}
	})
}

// fakeSealer may do anything.
type fakeSealer struct {
	seal func([]byte) (string, error)
	open func(string) ([]byte, error)
}

func (s *fakeSealer) Seal(_ context.Context, plaintext []byte) (string, error) {
	return s.seal(plaintext)
}

func (s *fakeSealer) Open(_ context.Context, text string) ([]byte, error) { return s.open(text) }

func TestForeignSealer(t *testing.T) {
	down := errors.New("the KMS is down")
	for _, tc := range []struct {
		name, text string
		err        error
		want       string
	}{
		{"fails", "x", down, "the KMS is down"},
		{"returns nothing", "", nil, "is empty"},
		{"returns binary", "\xff", nil, "not UTF-8"},
		{"returns too much", strings.Repeat("x", (16<<10)+1), nil, "over the limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t,
				roundtrip.Options{Sealer: &fakeSealer{seal: func([]byte) (string, error) {
					return tc.text, tc.err
				}}}, consent)
			contains(t, c.bug(), tc.want)
		})
	}
	for junk, reason := range map[string]event.Reason{
		"": words.ReasonMalformed, "\x04": words.ReasonMalformed, "\x04\x00" +
			strings.Repeat("\x00", 60): words.ReasonMalformed,
		"junk": words.ReasonVersion, "\x01": words.ReasonVersion,
		strings.Repeat("\xff", 100): words.ReasonVersion,
	} {
		c := newClient(t, roundtrip.Options{Sealer: &fakeSealer{open: func(string) ([]byte, error) {
			return []byte(junk), nil
		}}}, consent)
		c.call.State = protocol.StateText("x")
		frozen(t, c, reason)
	}
	c := newClient(t, roundtrip.Options{
		Sealer: &fakeSealer{open: func(string) ([]byte, error) { return nil, down }}}, consent)
	c.call.State = protocol.StateText("x")
	frozen(t, c, words.ReasonSealer)
	if r := one[event.StateRejected](t, c.events); !errors.Is(r.Err, down) {
		t.Errorf("the observer is told %v, want what the sealer said", r.Err)
	}
}

// TestArgumentsThatCannotBeBound have a duplicate member.
func TestArgumentsThatCannotBeBound(t *testing.T) {
	c := serve(t, consent)
	c.call.Arguments = json.RawMessage(`{"n":1,"n":2}`)
	contains(t, c.fails(protocol.CodeInvalidParams).Message, "arguments")
	if bugs := all[event.ServerBug](c.events); len(bugs) != 0 {
		t.Errorf("the client's mistake is reported as the server's: %v", bugs)
	}
}

// TestOldSealsNewOpens: earlier states are read, in both styles, with any key of the ring. When the
// layout changes, the previous release's vectors stay here.
func TestOldSealsNewOpens(t *testing.T) {
	old, guard := hexVectors(t, flowVectorFile)["flow"],
		hexVectors(t, "../internal/state/claims/testdata/claims.txt")["authenticated"]
	for _, key := range []string{"k1", "k2"} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(clock("1h30m")))
			opts := roundtrip.Options{Sealer: ring(t, "k1", "k2"), Audience: honest().Audience}
			c := newClient(t, opts, flowVectorHandler)
			c.call.State = protocol.StateText(seal(t, ring(t, key), old))
			got := c.answer("confirm", accepted, "extra", agreed).done()
			if got != flowVectorResult {
				t.Errorf("flow style, sealed with %s:\n got %s\nwant %s", key, got,
					flowVectorResult)
			}
			c = newClient(t, opts, vectorHandler)
			c.call.State = protocol.StateText(seal(t, ring(t, key), guard))
			c.answer("confirm", accepted, "extra", `{"action":"accept","content":{"n":4}}`,
				"visit", cancelled)
			if got, want := c.done(), `round 3: kept, declined, large, now, {"n":4}, cancelled`; got != want {
				t.Errorf("guard style, sealed with %s:\n got %s\nwant %s", key, got, want)
			}
			// A handler that has switched to flow style accepts earlier answers.
			c = newClient(t, opts, flow(func(ctx context.Context) string {
				_, region := reasonOf(ctx, "region")
				size := must(reasonOf(ctx, "size"))
				return fmt.Sprint(region, ", ", size)
			}))
			c.call.State = protocol.StateText(seal(t, ring(t, key), guard))
			c.answer("confirm", accepted).says("declined: region, large")
		})
	}
}
