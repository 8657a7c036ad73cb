package roundtrip_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The variable askers has the ways to ask a legacy client one question and wait for the answer.
var askers = []struct {
	name string
	ask  func(f *roundtrip.Funnel, call roundtrip.Call) roundtrip.Handler
}{
	{"returned", func(*roundtrip.Funnel, roundtrip.Call) roundtrip.Handler {
		return func(ctx context.Context) (protocol.Result, error) {
			if reply := replyTo(ctx, "q"); reply.Outcome == roundtrip.Accepted {
				return say("done")
			}
			return ask(roundtrip.Elicit[Confirmation]("q", "Why?"))
		}
	}},
	{"asked in place", func(*roundtrip.Funnel, roundtrip.Call) roundtrip.Handler {
		return flow(func(ctx context.Context) string {
			must(roundtrip.Ask[Confirmation](ctx, "q", "Why?"))
			return "done"
		})
	}},
	{"pushed", func(*roundtrip.Funnel, roundtrip.Call) roundtrip.Handler {
		return flow(func(ctx context.Context) string {
			must(roundtrip.PushRequest(ctx, question()))
			return "done"
		})
	}},
}

func question() protocol.InputRequest {
	return &protocol.ElicitForm{Message: "Why?", Schema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`)}
}

// A waiter is a funnel whose clients answer on the test's command.
type waiter struct {
	testing.TB
	funnel *roundtrip.Funnel
	events *events
	asked  chan struct{} // one item per question
	answer chan struct{}
	calls  sync.WaitGroup
}

func newWaiter(t testing.TB, opts roundtrip.Options) *waiter {
	t.Helper()
	w := &waiter{TB: t, events: &events{}, asked: make(chan struct{}, 20_000),
		answer: make(chan struct{})}
	opts.Observer = w.events
	var err error
	if w.funnel, err = roundtrip.NewFunnel(&opts); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *waiter) Push(ctx context.Context, _ protocol.InputRequest,
	_, _ func()) (json.RawMessage, error) {
	w.asked <- struct{}{}
	select {
	case <-w.answer:
		return json.RawMessage(accepted), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (w *waiter) call(who protocol.Principal, session any) roundtrip.Call {
	call := toolCall()
	call.Version, call.Principal, call.Push = protocol.V20251125, who, w
	call.Session = session
	return call
}

// leave makes a call that waits until the test answers.
func (w *waiter) leave(call roundtrip.Call, handler roundtrip.Handler) {
	w.Helper()
	result := make(chan error, 1)
	w.calls.Go(func() {
		_, err := w.funnel.Do(context.Background(), call, handler)
		result <- err
	})
	select {
	case <-w.asked:
	case err := <-result:
		w.Fatalf("the call does not wait: %v", err)
	}
}

func (w *waiter) empty() {
	w.Helper()
	close(w.answer)
	w.calls.Wait()
	w.wantRoom(0, 0, 0)
}

func (w *waiter) wantRoom(calls, bytes, sessions int64) {
	w.Helper()
	if c, b, s := roundtrip.Waiting(w.funnel); c != calls || b != bytes || s != sessions {
		w.Errorf("%d calls wait with %d bytes in sessions of %d, want %d, %d, %d", c, b, s, calls,
			bytes, sessions)
	}
}

var ann, bob = protocol.Principal{Issuer: "https://id.example",
	Subject: "ann"}, protocol.Principal{Issuer: "https://id.example", Subject: "bob"}

// wantBusy checks the refusal of a call that may not wait.
func wantBusy(t testing.TB, err error, limit string) {
	t.Helper()
	e, ok := protocol.AsError(err)
	want := fmt.Sprintf(`{"retryAfterMs":5000,"limit":%q}`, limit)
	if !ok || e.Code != protocol.CodeBusy || string(e.Data) != want {
		t.Errorf("got %v, want busy with data %s", err, want)
	}
}

func TestCallsThatWaitHaveBounds(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  roundtrip.Options
		there []roundtrip.Call // calls that wait already
		next  roundtrip.Call
		limit string
	}{
		{"in all", roundtrip.Options{Limits: roundtrip.Limits{Waiting: 2}},
			[]roundtrip.Call{{Principal: ann}, {Principal: bob}}, roundtrip.Call{}, "server"},
		{"of one principal", roundtrip.Options{Limits: roundtrip.Limits{WaitingPerPrincipal: 1}},
			[]roundtrip.Call{{Principal: ann, Session: 1}},
			roundtrip.Call{Principal: ann, Session: 2}, "principal"},
		{"of one session", roundtrip.Options{},
			append(slices.Repeat([]roundtrip.Call{{Session: 1}}, 64), roundtrip.Call{Session: 2}),
			roundtrip.Call{Session: 1}, "session"},
		{"of one session of a gateway",
			roundtrip.Options{Limits: roundtrip.Limits{WaitingPerPrincipal: 400}},
			slices.Repeat([]roundtrip.Call{{Principal: ann, Session: 1}}, 100),
			roundtrip.Call{Principal: ann, Session: 1}, "session"},
		{"of anonymous callers where others authenticate", roundtrip.Options{Limits: roundtrip.Limits{Waiting: 4}},
			[]roundtrip.Call{{Principal: ann}, {}, {}}, roundtrip.Call{}, "server"},
		{"in bytes", roundtrip.Options{}, []roundtrip.Call{{KeptBytes: 256<<20 - 40,
			Arguments: json.RawMessage(`{"a":"12345678901234567890123"}`)}},
			roundtrip.Call{Arguments: json.RawMessage(`{"a":"123456"}`)}, "server"},
		{"in bytes that the host keeps", roundtrip.Options{},
			[]roundtrip.Call{{KeptBytes: 256<<20 - 9}}, roundtrip.Call{KeptBytes: 10}, "server"},
		{"in bytes of one principal", roundtrip.Options{},
			[]roundtrip.Call{{Principal: ann, KeptBytes: 64<<20 - 9}},
			roundtrip.Call{Principal: ann, KeptBytes: 10}, "principal"},
		{"of anonymous callers where others could authenticate", roundtrip.Options{Limits: roundtrip.Limits{Waiting: 4}},
			[]roundtrip.Call{{Authenticates: true}, {Authenticates: true}, {Authenticates: true}},
			roundtrip.Call{Authenticates: true}, "principal"},
	} {
		if c.name == "of anonymous callers where others authenticate" {
			c.there, c.limit = append(c.there, roundtrip.Call{}), "principal"
		}
		for _, way := range askers {
			for _, method := range families {
				t.Run(c.name+"/"+way.name+"/"+method, func(t *testing.T) {
					w := newWaiter(t, c.opts)
					defer w.empty()
					make := func(like roundtrip.Call) (roundtrip.Call, roundtrip.Handler) {
						call := w.call(like.Principal, nil)
						call.Session = like.Session
						call.Method, call.Arguments = method, like.Arguments
						call.Authenticates, call.KeptBytes = like.Authenticates, like.KeptBytes
						inner := way.ask(w.funnel, call)
						return call, func(ctx context.Context) (protocol.Result, error) {
							result, err := inner(ctx)
							if _, done := result.(*protocol.CallToolResult); done {
								return completes(method)
							}
							return result, err
						}
					}
					for _, like := range c.there {
						w.leave(make(like))
					}
					call, handler := make(c.next)
					_, err := w.funnel.Do(t.Context(), call, handler)
					wantBusy(t, err, c.limit)
					refused := all[event.QuotaExceeded](w.events)
					if len(refused) != 1 || refused[0].Resource != "waiting" ||
						refused[0].Limit != c.limit || refused[0].RetryAfter != 5*time.Second {
						t.Errorf("observed %+v, want the refusal of a wait", refused)
					}
					if len(w.asked) > 0 {
						t.Error("the question went out all the same")
					}
					if n := len(all[event.InputRequested](w.events)); n > len(c.there) {
						t.Errorf("%d calls are recorded as having asked, and only %d have", n,
							len(c.there))
					}
				})
			}
		}
	}
}

func TestBoundsOfWaitingCallsCanBeTurnedOff(t *testing.T) {
	w := newWaiter(t, roundtrip.Options{Limits: roundtrip.Limits{Waiting: -1,
		WaitingPerPrincipal: -1}})
	defer w.empty()
	for range 256 + 1 {
		call := w.call(ann, 1)
		w.leave(call, askers[0].ask(w.funnel, call))
	}
}

// Opening sessions does not give a principal more room.
func TestOnePrincipalOpensManyWaitsFromManySessions(t *testing.T) {
	w := newWaiter(t, roundtrip.Options{})
	defer w.empty()
	waits, refused := 0, 0
	for i := range 10_000 {
		call := w.call(ann, i%100)
		if waits < 256 {
			w.leave(call, askers[2].ask(w.funnel, call))
			waits++
			continue
		}
		_, err := w.funnel.Do(t.Context(), call, askers[i%len(askers)].ask(w.funnel, call))
		wantBusy(t, err, "principal")
		refused++
	}
	if waits != 256 || waits+refused != 10_000 {
		t.Errorf("%d calls wait and %d were refused, want %d of 10000", waits, refused, 256)
	}
	other := w.call(bob, "b")
	w.leave(other, askers[0].ask(w.funnel, other))
}

// A call keeps its room until it ends: a second question is not refused because of other calls.
func TestACallThatAsksAgainIsNotRefused(t *testing.T) {
	w := newWaiter(t, roundtrip.Options{Limits: roundtrip.Limits{Waiting: 1}})
	defer w.empty()
	between := make(chan struct{})
	call := w.call(ann, 1)
	w.leave(call, func(ctx context.Context) (protocol.Result, error) {
		_, first := roundtrip.Ask[Confirmation](ctx, "first", "Why?")
		between <- struct{}{}
		<-between
		_, second := roundtrip.Ask[Confirmation](ctx, "second", "Why?")
		return say(fmt.Sprint(first, second))
	})
	w.answer <- struct{}{}
	<-between
	other := w.call(bob, 2)
	_, err := w.funnel.Do(t.Context(), other, askers[0].ask(w.funnel, other))
	wantBusy(t, err, "server")
	between <- struct{}{}
	<-w.asked
}

func TestRoomComesBackWhateverAHandlerDoes(t *testing.T) {
	for name, handler := range map[string]func(w *waiter, ctx context.Context) (protocol.Result,
		error){
		"panics while a goroutine of its waits": func(w *waiter,
			ctx context.Context) (protocol.Result, error) {
			go func() { _, _ = roundtrip.Ask[Confirmation](ctx, "q", "Why?") }()
			<-w.asked
			panic("oh no")
		},
		"returns while a goroutine of its waits": func(w *waiter,
			ctx context.Context) (protocol.Result, error) {
			go func() { _, _ = roundtrip.Ask[Confirmation](ctx, "q", "Why?") }()
			<-w.asked
			return say("done")
		},
		"withdraws its question": func(w *waiter, ctx context.Context) (protocol.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-w.asked; cancel() }()
			_, err := roundtrip.Ask[Confirmation](ctx, "q", "Why?")
			return nil, err
		},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWaiter(t, roundtrip.Options{})
			told := 0
			ctx := roundtrip.WatchWaiting(t.Context(), func(waits bool) {
				if told++; waits != (told%2 == 1) {
					t.Errorf("told %v at %d", waits, told)
				}
			})
			_, _ = w.funnel.Do(ctx, w.call(ann, 1),
				func(ctx context.Context) (protocol.Result, error) { return handler(w, ctx) })
			w.wantRoom(0, 0, 0)
			synctest.Wait()
			if told != 2 {
				t.Errorf("told %d times, want that it waits and that it does not", told)
			}
		})
	}
}

func TestWatchersHearWhenACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiter(t, roundtrip.Options{})
		var told []string
		started := time.Now()
		ctx := roundtrip.WatchWaiting(t.Context(), func(waits bool) {
			told = append(told, fmt.Sprint(waits, " ", time.Since(started)))
		})
		handler := func(ctx context.Context) (protocol.Result, error) {
			time.Sleep(time.Second)
			var asking sync.WaitGroup
			for i := range 3 { // answered after 1, 2 and 3 s
				asking.Go(func() { _, _ = roundtrip.Ask[Confirmation](ctx, fmt.Sprint(i), "Why?") })
			}
			asking.Wait()
			time.Sleep(time.Second)
			if reply := replyTo(ctx, "returned"); reply.Outcome != roundtrip.Accepted {
				return ask(roundtrip.Elicit[Confirmation]("returned", "And?"))
			}
			return say("done")
		}
		go func() {
			time.Sleep(500 * time.Millisecond)
			for range 4 {
				time.Sleep(time.Second)
				<-w.asked
				w.answer <- struct{}{}
			}
		}()
		if _, err := w.funnel.Do(ctx, w.call(ann, 1), handler); err != nil {
			t.Fatal(err)
		}
		for i, line := range told {
			if !strings.HasPrefix(line, fmt.Sprint(i%2 == 0)) {
				t.Fatalf("told %v, want true and false by turns", told)
			}
		}
		// Questions at 1.5, 2.5 and 3.5 s, then the returned one, a second later.
		if want := "true 1s false 3.5s"; strings.Join(told[:2], " ") != want || len(told) != 4 {
			t.Errorf("told %v, want %s and the wait for the returned question", told, want)
		}
		began, ended := all[event.WaitBegan](w.events), all[event.WaitEnded](w.events)
		if len(began) != 2 || len(ended) != 2 || ended[0].Waited != 2500*time.Millisecond ||
			began[0].Method != protocol.MethodCallTool || ended[1].Target != "deploy" {
			t.Errorf("observed %+v and %+v, want two waits, the first of 2.5 s", began, ended)
		}
	})
}

func TestHeartbeatsWhileACallWaits(t *testing.T) {
	for _, way := range askers {
		bubble(t, way.name, func(t *testing.T) {
			w := newWaiter(t, roundtrip.Options{})
			started := time.Now()
			var at []time.Duration
			call := w.call(ann, 1)
			call.Heartbeat = func(ctx context.Context) {
				if at = append(at, time.Since(started)); ctx.Err() != nil {
					t.Error("the context of a heartbeat has ended")
				}
				if len(at) == 1 {
					panic("of the host")
				}
			}
			w.leave(call, way.ask(w.funnel, call))
			time.Sleep(33 * time.Second)
			synctest.Wait()
			w.empty()
			time.Sleep(time.Hour)
			want := []time.Duration{2 * time.Second, 17 * time.Second, 32 * time.Second}
			if !slices.Equal(at, want) {
				t.Errorf("heartbeats after %v, want %v", at, want)
			}
			if panics := len(all[event.HandlerPanicked](w.events)); panics != 1 {
				t.Errorf("%d panics were reported", panics)
			}
		})
	}
}

func TestRoomComesBackWhenAWatcherPanics(t *testing.T) {
	for _, when := range []bool{true, false} {
		t.Run(fmt.Sprint(when), func(t *testing.T) {
			w := newWaiter(t, roundtrip.Options{})
			close(w.answer)
			ctx := roundtrip.WatchWaiting(t.Context(), func(waiting bool) {
				if waiting == when {
					panic("of the author")
				}
			})
			_, err := w.funnel.Do(ctx, w.call(ann, 1),
				func(ctx context.Context) (protocol.Result, error) {
					_, err := roundtrip.PushRequest(ctx, question())
					return nil, err
				})
			if err == nil {
				t.Error("no panic")
			}
			w.wantRoom(0, 0, 0)
		})
	}
}

func TestHeartbeatsGoOnWhileAnyQuestionIsOpen(t *testing.T) {
	type asker = func(ctx context.Context, key string) error
	for name, ask := range map[string]asker{
		"asked in place": func(ctx context.Context, key string) error {
			_, err := roundtrip.Ask[Confirmation](ctx, key, "Why?")
			return err
		},
		"pushed": func(ctx context.Context, _ string) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel() // like a caller with its own timeout
			_, err := roundtrip.PushRequest(ctx, question())
			return err
		},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWaiter(t, roundtrip.Options{})
			call, beats := w.call(ann, 1), atomic.Int32{}
			call.Heartbeat = func(context.Context) { beats.Add(1) }
			w.leave(call, func(ctx context.Context) (protocol.Result, error) {
				var questions sync.WaitGroup
				for i := range 2 {
					questions.Go(func() {
						time.Sleep(time.Duration(i) * time.Second)
						if err := ask(ctx, fmt.Sprint("q", i)); err != nil {
							t.Error(err)
						}
					})
				}
				questions.Wait()
				return say("done")
			})
			time.Sleep(5 * time.Second)
			w.answer <- struct{}{} // one of the two
			time.Sleep(2*time.Minute - 5*time.Second)
			if got := beats.Load(); got != 8 { // after 2 s, 17 s, 32 s …
				t.Errorf("%d heartbeats in two minutes, want 8", got)
			}
			w.empty()
		})
	}
}

func TestAClosingServerEndsWaitsAndSaysSo(t *testing.T) {
	for _, way := range askers {
		for _, method := range families {
			for _, when := range []string{"while it waits", "before it waits"} {
				bubble(t, way.name+"/"+method+"/"+when, func(t *testing.T) {
					w := newWaiter(t, roundtrip.Options{})
					var watch waiting.Watch
					ctx := watch.Attach(t.Context(), nil)
					call := w.call(ann, 1)
					call.Method = method
					if when == "before it waits" {
						watch.End(waiting.ErrClosing)
					} else {
						go func() { <-w.asked; watch.End(waiting.ErrClosing) }()
					}
					result, err := w.funnel.Do(ctx, call, way.ask(w.funnel, call))
					text := show(result)
					if err != nil {
						text = err.Error()
					}
					contains(t, text, "the server is closing, call again")
					e, failed := protocol.AsError(err)
					if method == protocol.MethodCallTool && failed {
						t.Errorf("got the error %v, after which clients call a tool again by "+
							"themselves", err)
					}
					if method != protocol.MethodCallTool && way.name != "pushed by the host" &&
						(!failed || e.Code != protocol.CodeBusy ||
							e.Message != waiting.ErrClosing.Error() ||
							string(e.Data) != `{"retryAfterMs":1000}`) {
						t.Errorf("got %v, want busy and when to call again", err)
					}
					if ctx.Err() != nil {
						t.Error("the call was cancelled, not the wait")
					}
					w.wantRoom(0, 0, 0)
				})
			}
		}
	}
}

// An answer that arrives before the wait's end counts, and the handler works on.
func TestAClosingServerLetsACallWork(t *testing.T) {
	w := newWaiter(t, roundtrip.Options{})
	var watch waiting.Watch
	close(w.answer)
	_, err := w.funnel.Do(watch.Attach(t.Context(), nil), w.call(ann, 1),
		func(ctx context.Context) (protocol.Result, error) {
			_, err := roundtrip.Ask[Confirmation](ctx, "q", "Why?")
			watch.End(waiting.ErrClosing)
			if err := errors.Join(err, ctx.Err()); err != nil {
				t.Error(err)
			}
			return say("done")
		})
	if err != nil {
		t.Error(err)
	}
}
