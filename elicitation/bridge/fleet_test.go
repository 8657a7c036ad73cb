package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
)

// A replica is a rig at one end of a bus.
type replica struct {
	*rig
	bus elicitation.Bus
}

// newFleet returns replicas that share a bus and keys.
func newFleet(t testing.TB, size int, opts bridge.Options) []replica {
	t.Helper()
	hub := elicitation.NewHub()
	fleet := make([]replica, size)
	for i := range fleet {
		bus := hub.Bus()
		t.Cleanup(func() { _ = bus.Close() })
		opts.Bus = bridge.ShareBus(bus)
		fleet[i] = replica{newRig(t, opts), bus}
	}
	return fleet
}

func TestEachRequestMayReachAnyReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 3, bridge.Options{})
		var runs atomic.Int64
		first := request(asking(&runs, "one?", "two?"))
		o := fleet[0].serve(t, first)
		o = fleet[1].serve(t, retry(first, o, accept(1)))
		if questions(o) != "two?" {
			t.Fatalf("got %+v", o)
		}
		last := retry(first, o, accept(2))
		for _, at := range []int{2, 1, 0} { // the first response was lost, and so was the second
			const want = `["accept{\"n\":1}","accept{\"n\":2}"]`
			if o := fleet[at].serve(t, last); string(o.Result) != want {
				t.Errorf("got %+v", o)
			}
		}
		_, err := fleet[2].Serve(t.Context(), retry(first, o, accept(3)))
		wantError(t, err, protocol.CodeInvalidParams, invalidState)
		stolen := retry(first, o, accept(2))
		stolen.Principal = bob()
		_, err = fleet[2].Serve(t.Context(), stolen)
		wantError(t, err, protocol.CodeInvalidParams, invalidState)
		if runs.Load() != 1 {
			t.Errorf("the upstream ran %d times", runs.Load())
		}
	})
}

// What takes the upstream longer than the replicas' own clocks arrives all the same.
func TestAnOutcomeThatTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 2, bridge.Options{})
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			got, err := asking(nil, "one?")(ctx, begin)
			time.Sleep(5 * time.Minute)
			return got, err
		})
		o := fleet[0].serve(t, first)
		if o = fleet[1].serve(t, retry(first, o, accept(1))); string(o.Result) !=
			`["accept{\"n\":1}"]` {
			t.Errorf("got %+v", o)
		}
	})
}

// A message that a bus brings twice is taken once.
func TestABusThatDeliversTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := elicitation.NewHub()
		var fleet []replica
		for range 2 {
			bus := hub.Bus()
			t.Cleanup(func() { _ = bus.Close() })
			fleet = append(fleet, replica{newRig(t, bridge.Options{
				Bus: bridge.ShareBus(twiceBus{bus})}), bus})
		}
		var runs atomic.Int64
		first := request(asking(&runs, "1", "2", "3"))
		o := fleet[0].serve(t, first)
		for o.Result == nil {
			o = fleet[1].serve(t, retry(first, o, accept(1)))
		}
		const one = `"accept{\"n\":1}"`
		if string(o.Result) != "["+one+","+one+","+one+"]" || runs.Load() != 1 {
			t.Errorf("got %s after %d runs", o.Result, runs.Load())
		}
	})
}

// A twiceBus delivers each message two times at once, and returns one of the answers.
type twiceBus struct{ elicitation.Bus }

func (b twiceBus) SendTo(ctx context.Context, name, key string, message []byte) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 2)
	for range 2 {
		go func() {
			data, err := b.Bus.SendTo(ctx, name, key, message)
			answers <- answer{data, err}
		}()
	}
	one, other := <-answers, <-answers
	if rand.IntN(2) == 0 {
		one = other
	}
	return one.data, one.err
}

func TestTheReplicaOfACallDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 2, bridge.Options{})
		first := request(asking(nil, "one?"))
		o := fleet[0].serve(t, first)
		_ = fleet[0].bus.Close()
		_, err := fleet[1].Serve(t.Context(), retry(first, o, accept(1)))
		wantError(t, err, protocol.CodeFlowEnded, "is gone")
	})
}

// A client that waits is told within seconds.
func TestTheReplicaOfACallDiesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 2, bridge.Options{})
		var ended error
		first := request(blocked(&ended, "one?"))
		o := fleet[0].serve(t, first)
		began := time.Now()
		time.AfterFunc(time.Minute, func() { _ = fleet[0].bus.Close() })
		_, err := fleet[1].Serve(t.Context(), retry(first, o, accept(1)))
		wantError(t, err, protocol.CodeFlowEnded, "is gone")
		if took := time.Since(began); took > time.Minute+5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// Progress reaches a request at another replica, a few times a second and only while it waits.
func TestProgressReachesARequestAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 2, bridge.Options{})
		first := request(func(ctx context.Context, begin bridge.BeginFunc) (
			json.RawMessage, error) {
			call, err := begin(ctx, "up/1")
			if err != nil {
				return nil, err
			}
			defer call.End()
			if _, err := call.Elicit(ctx, form("one?"), nil); err != nil {
				return nil, err
			}
			for i := range 10_000 { // ten a millisecond
				p := &protocol.Progress{Progress: float64(i), Message: "copying"}
				if err := call.RelayProgress(ctx, p); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond / 10)
			}
			return json.RawMessage(`"done"`), nil
		})
		first.Progress = func(context.Context, *protocol.Progress) {}
		o := fleet[0].serve(t, first)
		for _, wanted := range []bool{true, false} {
			var seen []float64
			ended := false
			next := retry(first, o, accept(1))
			if next.Progress = nil; wanted {
				next.Progress = func(_ context.Context, p *protocol.Progress) {
					if ended || p.Message != "copying" {
						t.Errorf("got %+v, and the request has ended: %v", p, ended)
					}
					seen = append(seen, p.Progress)
				}
			}
			if o := fleet[1].serve(t, next); string(o.Result) != `"done"` {
				t.Fatalf("got %+v", o)
			}
			ended = true
			synctest.Wait()
			if !wanted && seen != nil || wanted && (len(seen) < 8 || len(seen) > 11) ||
				!slices.IsSorted(seen) {
				t.Errorf("progress is wanted: %v, and got %v", wanted, seen)
			}
		}
	})
}

// A client that goes away at another replica is missed where its call is.
func TestAClientOfAnotherReplicaGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 2, bridge.Options{})
		var ended error
		first := request(blocked(&ended, "one?"))
		o := fleet[0].serve(t, first)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = fleet[1].Serve(ctx, retry(first, o, accept(1)))
		time.Sleep(bridge.DefaultGrace + 10*time.Second)
		synctest.Wait()
		if ended == nil {
			t.Error("the call goes on")
		}
	})
}

// Calls of many clients, each request sent several times at once to any replica: each call runs
// once, and all copies of a request get the same outcome.
func TestManyCallsOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, 3, bridge.Options{MaxPerPrincipal: 1000})
		var clients sync.WaitGroup
		var runs atomic.Int64
		const calls, rounds = 100, 3
		for i := range calls {
			clients.Go(func() {
				messages := make([]string, rounds)
				for m := range messages {
					messages[m] = fmt.Sprint(i, "/", m)
				}
				first := request(asking(&runs, messages...))
				first.Target = fmt.Sprint("tool", i)
				o, err := fleet[rand.IntN(3)].Serve(t.Context(), first)
				for round := 0; err == nil && o.Result == nil; round++ {
					if questions(o) != messages[round] {
						t.Errorf("got %q, want %q", questions(o), messages[round])
						return
					}
					o, err = serveCopies(t, fleet, retry(first, o, accept(i)))
				}
				one := fmt.Sprintf(`"accept{\"n\":%d}"`, i)
				want := "[" + one + "," + one + "," + one + "]"
				if err != nil || string(o.Result) != want {
					t.Errorf("got %+v, %v", o, err)
				}
			})
		}
		clients.Wait()
		if runs.Load() != calls {
			t.Errorf("the upstream ran %d times", runs.Load())
		}
	})
}

// serveCopies sends copies of a request, and returns the outcome of one. All must have the same.
func serveCopies(t *testing.T, fleet []replica, request *bridge.Request) (*bridge.Outcome, error) {
	outcomes := make([]*bridge.Outcome, 1+rand.IntN(5))
	var copies sync.WaitGroup
	for i := range outcomes {
		delay, at := time.Duration(rand.IntN(100))*time.Millisecond, fleet[rand.IntN(len(fleet))]
		copies.Go(func() {
			time.Sleep(delay)
			var err error
			if outcomes[i], err = at.Serve(t.Context(), request); err != nil {
				t.Error(err)
				outcomes[i] = &bridge.Outcome{}
			}
		})
	}
	copies.Wait()
	want := outcomes[0]
	for _, o := range outcomes[1:] {
		if questions(o) != questions(want) || string(o.Result) != string(want.Result) {
			t.Errorf("got %+v and %+v", o, want)
		}
	}
	return outcomes[0], nil
}

// Clients that vanish at any moment, and come back or not, leave nothing behind, and whoever gets
// a result gets that of a call that was made once with the answers that were given.
func TestClientsThatVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, perPrincipal = 300, 300
		fleet := newFleet(t, 3, bridge.Options{MaxPerPrincipal: perPrincipal, TTL: 5 * time.Minute,
			QuestionTimeout: time.Minute})
		var clients sync.WaitGroup
		var runs, results atomic.Int64
		for i := range calls {
			clients.Go(func() {
				first := request(asking(&runs, "1", "2", "3"))
				first.Target = fmt.Sprint("tool", i)
				if result := serveRestless(t, fleet, first, i); result != "" {
					results.Add(1)
					one := fmt.Sprintf(`"accept{\"n\":%d}"`, i)
					if want := "[" + one + "," + one + "," + one + "]"; result != want {
						t.Errorf("got %s, want %s", result, want)
					}
				}
			})
		}
		clients.Wait()
		if runs.Load() != calls || results.Load() < calls/10 {
			t.Errorf("%d results after %d runs", results.Load(), runs.Load())
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, r := range fleet { // all places are free again
			if n := r.metric(t, "elicitation_parked"); n != 0 {
				t.Errorf("%v calls are open", n)
			}
			for range perPrincipal {
				r.serve(t, request(asking(nil, "one?")))
			}
		}
	})
}

// serveRestless has a client make a call and give up each request now and then. It sends some
// again, and stops before the end in some cases. It returns the result, "": there is none.
func serveRestless(t *testing.T, fleet []replica, first *bridge.Request, answer int) string {
	next := first
	for {
		ctx, cancel := context.WithCancel(t.Context())
		if rand.IntN(3) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, cancel)
		}
		o, err := fleet[rand.IntN(len(fleet))].Serve(ctx, next)
		cancel()
		_, refused := protocol.AsError(err)
		switch {
		case refused: // a call that is over
			return ""
		case err != nil && next == first, err != nil && rand.IntN(4) == 0:
			return "" // nobody can come back, or does
		case err != nil:
			time.Sleep(time.Duration(rand.IntN(20)) * time.Second)
			continue // with the same request
		case o.Result != nil:
			return string(o.Result)
		case rand.IntN(20) == 0:
			return "" // the person has left
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Second) // a person thinks
		next = retry(first, o, accept(answer))
	}
}
