package roundtrip_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// charge is a handler whose effect must not be repeated.
func charge(charges *int) roundtrip.Handler {
	return func(ctx context.Context) (protocol.Result, error) {
		if !consents(ctx, "k") {
			return ask(roundtrip.Elicit[Confirmation]("k", "?", roundtrip.AskAgain()))
		}
		*charges++
		return say(fmt.Sprint("charge ", *charges))
	}
}

func TestGuardReplay(t *testing.T) {
	charges := 0
	c := guarded(t, charge(&charges))
	c.ask("k")
	c.answer("k", accepted).says("charge 1")
	runs := c.runs

	// The same answers, spelled differently, get the recorded outcome.
	for _, again := range []string{accepted, ` {"content" : {"reason":"\u006eow"},"action":"accept"} `} {
		c.answer("k", again).says("charge 1")
	}
	if c.runs != runs || charges != 1 {
		t.Errorf("the handler ran for a replay: %d charges", charges)
	}
	for _, end := range all[event.FlowEnded](c.events)[1:] {
		if end.How != words.EndReplayed || end.Legs != 2 {
			t.Errorf("end %+v", end)
		}
	}

	for _, other := range []string{declined, form("else")} {
		frozen(t, c.answer("k", other), words.ReasonReplayed)
	}
	frozen(t, c.answer(), words.ReasonReplayed)
	frozen(t, c.answer("k", accepted, "more", `1`), words.ReasonReplayed)
}

// TestReplaysNameTheirFlow: events about a replay have the flow and round of the first request.
func TestReplaysNameTheirFlow(t *testing.T) {
	var c *client
	c = guarded(t, func(ctx context.Context) (protocol.Result, error) {
		if !consents(ctx, "k") {
			return ask(elicit("k"))
		}
		call := c.call // a copy of the request in flight
		if _, err := c.funnel.Do(ctx, call, c.handler); err == nil {
			t.Error("the copy is served")
		}
		return say("done")
	})
	c.ask("k")
	c.answer("k", accepted).done()
	c.answer("k", accepted).done()
	frozen(t, c.answer("k", declined), words.ReasonReplayed)

	flow := one[event.Resumed](t, c.events).Flow
	told := map[string]event.Where{
		"a copy of a request that runs": one[event.LegRunning](t, c.events).Where,
		"an exact replay":               all[event.FlowEnded](c.events)[1].Where,
		"other answers":                 one[event.StateRejected](t, c.events).Where,
	}
	for name, where := range told {
		if flow == "" || where.Flow != flow || where.Round != 2 {
			t.Errorf("%s: flow %q, round %d, want %q, 2", name, where.Flow, where.Round, flow)
		}
	}
}

func TestGuardReplaysQuestions(t *testing.T) {
	charges := 0
	c := guarded(t, charge(&charges))
	retry := c.ask("k").call
	first := c.answer("k", declined).ask("k").asked
	c.call = retry
	if second := c.answer("k", declined).ask("k").asked; second.RequestState != first.RequestState {
		t.Error("a replay got another state")
	}
	c.answer("k", accepted).says("charge 1")
}

func TestWithoutAGuard(t *testing.T) {
	charges := 0
	c := serve(t, charge(&charges))
	c.ask("k")
	for range 2 {
		c.answer("k", accepted).done()
	}
	if charges != 2 {
		t.Errorf("%d charges, want 2", charges)
	}
}

// TestGuardOneWinner: many clients present one state at the same time.
func TestGuardOneWinner(t *testing.T) {
	var runs, done, refused atomic.Int32
	c := guarded(t, nil)
	c.handler = rounds(asks(elicit("k")), func(context.Context) (protocol.Result, error) {
		runs.Add(1)
		return say("done")
	})
	c.ask("k").answer("k", accepted)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := c.funnel.Do(t.Context(), c.call, c.handler); err != nil {
				refused.Add(1)
			} else {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if runs.Load() != 1 || done.Load() < 1 || done.Load()+refused.Load() != 50 {
		t.Errorf("the handler ran %d times; %d done, %d refused", runs.Load(), done.Load(),
			refused.Load())
	}
}

// A spy is a guard that records calls, and may act differently.
type spy struct {
	store.Guard
	claim  func(print [32]byte) error // before the claim
	renew  func(context.Context) error
	commit error
	log    []string
	until  time.Time
}

func newSpy() *spy { return &spy{Guard: store.NewMemoryGuard(0)} }

func (s *spy) Claim(ctx context.Context, id, owner string, print [32]byte, until time.Time) (
	store.Claim, error) {
	s.log, s.until = append(s.log, "claim"), until
	if s.claim != nil {
		if err := s.claim(print); err != nil {
			return nil, err
		}
	}
	claim, err := s.Guard.Claim(ctx, id, owner, print, until)
	return spied{claim, s}, err
}

type spied struct {
	store.Claim
	by *spy
}

func (c spied) Renew(ctx context.Context) error {
	c.by.log = append(c.by.log, "renew")
	if c.by.renew != nil {
		return c.by.renew(ctx)
	}
	return c.Claim.Renew(ctx)
}

func (c spied) Commit(ctx context.Context, outcome []byte) error {
	c.by.log = append(c.by.log, fmt.Sprintf("commit %s %v", outcome, ctx.Err()))
	if c.by.commit != nil {
		return c.by.commit
	}
	return c.Claim.Commit(ctx, outcome)
}

func (c spied) Release(ctx context.Context) error {
	c.by.log = append(c.by.log, "release")
	return c.Claim.Release(ctx)
}

func guarded(t testing.TB, handler roundtrip.Handler) *client {
	t.Helper()
	return newClient(t, roundtrip.Options{Guard: store.NewMemoryGuard(0)}, handler)
}

// TestGuardThatCannotBeAsked: an unreachable guard admits nothing.
func TestGuardThatCannotBeAsked(t *testing.T) {
	charges := 0
	guard := newSpy()
	guard.claim = func([32]byte) error { return errors.New("the store is down") }
	c := newClient(t, roundtrip.Options{Guard: guard}, charge(&charges))
	c.ask("k")
	busy := c.answer("k", accepted).fails(protocol.CodeBusy)
	if string(busy.Data) != `{"retryAfterMs":5000}` || strings.Contains(busy.Message, "down") {
		t.Errorf("the client learns %q, %s", busy.Message, busy.Data)
	}
	if e := one[event.StoreFailed](t, c.events); e.Resource != "guard" || e.Operation != "claim" ||
		len(all[event.ServerBug](c.events)) != 0 {
		t.Errorf("reported %+v", e)
	}
	if charges != 0 || fmt.Sprint(guard.log) != "[claim]" {
		t.Errorf("%d charges, %v", charges, guard.log)
	}
}

// TestGuardIsTakenAfterVerification: junk costs the guard nothing.
func TestGuardIsTakenAfterVerification(t *testing.T) {
	guard := newSpy()
	c := newClient(t, roundtrip.Options{Guard: guard}, consent)
	c.ask("k")
	c.call.Target = "other"
	frozen(t, c, words.ReasonTarget)
	c.call.State = protocol.StateText("%%%")
	frozen(t, c, words.ReasonMalformed)
	if len(guard.log) != 0 {
		t.Errorf("the guard was asked: %v", guard.log)
	}
}

func TestGuardCommit(t *testing.T) {
	guard := newSpy()
	guard.commit = errors.New("the disk is full")
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, roundtrip.Options{Guard: guard},
		rounds(asks(elicit("k")), func(ctx context.Context) (protocol.Result, error) {
			cancel() // the client disconnects
			return say("done")
		}))
	c.ask("k")
	result, err := c.funnel.Do(ctx, c.answer("k", accepted).call, c.handler)
	if err != nil || show(result) != "done" {
		t.Fatalf("got %v, %v", show(result), err)
	}
	want := `[claim commit {"resultType":"complete","content":[{"type":"text","text":"done"}]} <nil>]`
	if got := fmt.Sprint(guard.log); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if e := one[event.StoreFailed](t, c.events); e.Resource != "guard" || e.Operation != "commit" {
		t.Errorf("reported %+v", e)
	}
}

// TestClaimsAreRenewed while the handler runs, and not afterwards, whatever the guard answers. A
// panic is reported; a renewal that hangs ends with its timeout or the claim, without error.
func TestClaimsAreRenewed(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		takes    time.Duration
		renew    func(context.Context) error
		renewals int
		wrong    int // wrong ones
		words    string
	}{
		"a short run": {store.Lease/3 - 2*time.Second, nil, 0, 0, ""},
		"a long run":  {store.Lease - time.Second, nil, 2, 0, ""},
		"a guard that is down": {store.Lease - time.Second,
			func(context.Context) error { return errors.New("is down") }, 2, 2, "is down"},
		"panics":               {store.Lease / 2, func(context.Context) error { panic("no") }, 1, 1, "panic: no"},
		"hangs to its end":     {store.Lease * 5 / 6, hang, 2, 1, "deadline exceeded"},
		"hangs to the claim's": {store.Lease / 2, hang, 1, 0, ""},
	} {
		bubble(t, name, func(t *testing.T) {
			guard := newSpy()
			guard.renew = c.renew
			client := newClient(t, roundtrip.Options{Guard: guard},
				rounds(asks(elicit("k")), func(context.Context) (protocol.Result, error) {
					time.Sleep(c.takes)
					return say("done")
				}))
			client.ask("k").answer("k", accepted).says("done")
			time.Sleep(store.Lease)
			log := strings.Join(guard.log, " ")
			if got := strings.Count(log, "renew"); got != c.renewals || !strings.Contains(log, "commit") {
				t.Errorf("the guard was asked %s, want %d renewals", log, c.renewals)
			}
			failed := all[event.StoreFailed](client.events)
			if len(failed) != c.wrong {
				t.Errorf("reported %+v, want %d", failed, c.wrong)
			}
			for _, f := range failed {
				if f.Operation != "renew" || !strings.Contains(f.Err.Error(), c.words) {
					t.Errorf("reported %+v, want %q", f, c.words)
				}
			}
		})
	}
}

// TestCopiesOfALongRun: copies are told that it runs, then get its outcome.
func TestCopiesOfALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *client
		c = guarded(t, rounds(asks(elicit("k")), func(ctx context.Context) (protocol.Result, error) {
			call := c.call
			for range 3 {
				time.Sleep(store.Lease)
				_, err := c.funnel.Do(t.Context(), call, c.handler)
				if wire, ok := protocol.AsError(err); !ok || wire.Code != protocol.CodeBusy {
					t.Errorf("a copy got %v", err)
				}
			}
			return say("done")
		}))
		c.ask("k")
		c.answer("k", accepted).done()
		c.answer("k", accepted).says("done")
	})
}

// TestGuardAfterScopesLack releases the claim: the client retries with a larger grant.
func TestGuardAfterScopesLack(t *testing.T) {
	scopes := 0
	c := guarded(t, func(ctx context.Context) (protocol.Result, error) {
		if !consents(ctx, "k") {
			return ask(elicit("k"))
		}
		if scopes++; scopes == 1 {
			return nil, fmt.Errorf("wrapped: %w",
				protocol.Errorf(protocol.CodeInsufficientScope, "more"))
		}
		return say("done")
	})
	c.ask("k")
	c.answer("k", accepted).fails(protocol.CodeInsufficientScope)
	c.answer("k", accepted).says("done")
}

func TestGuardAfterAFailure(t *testing.T) {
	for name, fail := range map[string]roundtrip.Handler{
		"panic":          func(context.Context) (protocol.Result, error) { panic("half done") },
		"protocol error": returns(nil, protocol.Errorf(1, "half done")),
		"nil result":     returns(nil, nil),
	} {
		t.Run(name, func(t *testing.T) {
			c := guarded(t, rounds(asks(elicit("k")), fail)).ask("k").answer("k", accepted)
			if _, err := c.send(); err == nil {
				t.Fatal("no error")
			}
			frozen(t, c.answer("k", declined), words.ReasonReplayed)
			contains(t, c.answer("k", accepted).done(), "the outcome is not known")
		})
	}
}

// TestGuardRelease: a claim is released if the handler never started, here because an observer
// panics.
func TestGuardRelease(t *testing.T) {
	for _, early := range []bool{true, false} {
		guard := newSpy()
		boom := observeFunc(func(_ context.Context, e event.Event) {
			if _, resumed := e.(event.Resumed); resumed && early {
				panic("observer")
			}
		})
		c := newClient(t, roundtrip.Options{Guard: guard, Observer: boom},
			rounds(asks(elicit("k")), func(ctx context.Context) (protocol.Result, error) {
				panic("handler")
			}))
		c.ask("k")
		func() {
			defer func() { _ = recover() }()
			c.answer("k", accepted).fails(protocol.CodeInternalError)
		}()
		want := map[bool]string{true: "[claim release]", false: "[claim commit  <nil>]"}[early]
		if got := fmt.Sprint(guard.log); got != want {
			t.Errorf("panic before the handler %v: %s, want %s", early, got, want)
		}
	}
}

// TestGuardRemembersForTheSlowestClock: a claim lasts longer than its state.
func TestGuardRemembersForTheSlowestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newSpy()
		c := newClient(t, roundtrip.Options{Guard: guard}, consent)
		c.ask("k").answer("k", accepted).done()
		if want := time.Now().Add(time.Hour + 2*time.Minute); !guard.until.Equal(want) {
			t.Errorf("claimed until %v, want %v", guard.until, want)
		}
		c = newClient(t, roundtrip.Options{Guard: guard, RoundTTL: 20 * time.Hour}, insatiable)
		start := time.Now()
		c.ask("q1")
		time.Sleep(10 * time.Hour)
		c.answer("q1", accepted).ask("q2").answer("q2", accepted).ask("q3")
		if want := start.Add(24*time.Hour + 2*time.Minute); !guard.until.Equal(want) {
			t.Errorf("claimed until %v, want %v", guard.until, want)
		}
	})
}

// TestCopiesOfARunningLeg: a copy with the same answers is told when to retry, then gets the
// outcome.
func TestCopiesOfARunningLeg(t *testing.T) {
	entered, leave, over := make(chan bool), make(chan bool), make(chan error)
	c := guarded(t, nil)
	c.handler = rounds(asks(elicit("k")), func(context.Context) (protocol.Result, error) {
		entered <- true
		<-leave
		return say("done")
	})
	c.ask("k").answer("k", accepted)
	call := c.call
	go func() {
		_, err := c.funnel.Do(t.Context(), call, c.handler)
		over <- err
	}()
	<-entered
	if e := c.fails(protocol.CodeBusy); string(e.Data) != `{"retryAfterMs":1000}` {
		t.Errorf("a copy: %v, data %s", e, e.Data)
	}
	one[event.LegRunning](t, c.events)
	for name, change := range map[string]func(*roundtrip.Call){
		"other answers":   func(c *roundtrip.Call) { c.Responses = answers("k", declined) },
		"other caller":    func(c *roundtrip.Call) { c.Principal = protocol.LocalPrincipal() },
		"other target":    func(c *roundtrip.Call) { c.Target = "other" },
		"other arguments": func(c *roundtrip.Call) { c.Arguments = []byte(`{"other":1}`) },
		"tampered state": func(c *roundtrip.Call) {
			text, _ := c.State.Text()
			c.State = protocol.StateText(flip(text, len(text)/2))
		},
	} {
		c.call = call
		change(&c.call)
		if e := c.fails(protocol.CodeInvalidParams); e.Message != "Invalid or expired requestState" {
			t.Errorf("%s: %v", name, e)
		}
	}
	close(leave)
	noError(t, <-over)
	c.call = call
	c.says("done")
	one[event.LegRunning](t, c.events)
}

// A lenient Sealer ignores spaces after a token, like a lenient base64 decoder.
type lenient struct{ *keys.Keyring }

func (l lenient) Open(ctx context.Context, text string) ([]byte, error) {
	return l.Keyring.Open(ctx, strings.TrimRight(text, " "))
}

func TestOtherSpellingOfSpentState(t *testing.T) {
	opts := roundtrip.Options{Sealer: lenient{keys.EphemeralKeyring()},
		Guard: store.NewMemoryGuard(0)}
	paid := 0
	c := newClient(t, opts, func(ctx context.Context) (protocol.Result, error) {
		if !consents(ctx, "pay") {
			return ask(roundtrip.Elicit[Confirmation]("pay", "Pay?"))
		}
		paid++
		return say("paid")
	})
	c.ask("pay")
	state, _ := c.call.State.Text()
	c.answer("pay", accepted).done()
	for _, spelling := range []string{state, state + " ", state + "  "} {
		c.call.State = protocol.StateText(spelling)
		c.answer("pay", form("again")).fails(protocol.CodeInvalidParams)
	}
	if paid != 1 {
		t.Errorf("the handler paid %d times, want once", paid)
	}
}
