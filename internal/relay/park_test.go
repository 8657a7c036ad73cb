package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A parking is a server whose tool "deploy" asks twice in a call that runs once, and a client.
type parking struct {
	*client.Client
	park   *relay.Park
	end    context.CancelFunc // ends all parked calls
	starts atomic.Int32
	ended  chan error          // why each call was cancelled; nil if it has returned
	asked  func(*parked) error // between the questions, may be nil
}

type parked = relay.Parked

const form = `{"type":"object","properties":{"text":{"type":"string"}}}`

func startParking(t *testing.T, limits relay.Limits) *parking {
	t.Helper()
	life, end := context.WithCancel(context.Background())
	p := &parking{park: relay.NewPark(limits), end: end, ended: make(chan error, 1000)}
	srv, err := server.New(&server.Options{Middleware: []server.Middleware{
		func(next server.Handler) server.Handler {
			return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
				return p.park.WatchRequest(ctx, req, next)
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "deploy"}, func(
		ctx context.Context, call *server.ToolCall, _ struct{},
	) (protocol.CallToolOutcome, error) {
		result, err := p.answer(ctx, life, &call.Call)
		if err != nil {
			return nil, err
		}
		return result.(protocol.CallToolOutcome), nil
	})
	p.Client, err = client.New(srv, &client.Options{NoBusyRetry: true,
		Manual: &protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		<-p.park.Drain()
		if err := errors.Join(p.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// answer is one leg of a call.
func (p *parking) answer(
	ctx, life context.Context, call *server.Call,
) (protocol.Result, error) {
	state, resumed := roundtrip.State[relay.State](ctx)
	if resumed {
		return p.park.Resume(ctx, call, &state)
	}
	if err := p.park.Reserve(call.Principal); err != nil {
		return nil, err
	}
	return p.park.Run(ctx, life, call, p.deploy,
		func(result protocol.Result, err error) (protocol.Result, error) {
			p.ended <- err
			return result, err
		})
}

func (p *parking) deploy(ctx context.Context, call *parked) (protocol.Result, error) {
	p.starts.Add(1)
	where, err := ask(ctx, call, "Where?")
	if err != nil {
		return nil, err
	}
	if p.asked != nil {
		if err := p.asked(call); err != nil {
			return nil, err
		}
	}
	sure, err := ask(ctx, call, "To "+where+"?")
	if err != nil {
		return nil, err
	}
	return server.Text(where + " " + sure), nil
}

func ask(ctx context.Context, call *parked, message string) (string, error) {
	a, err := call.Ask(ctx, &protocol.ElicitForm{Message: message, Schema: []byte(form)}, nil)
	if err != nil {
		return "", err
	}
	var content struct{ Text string }
	raw, _ := a.Result.(json.RawMessage)
	err = json.Unmarshal(raw, &content)
	return content.Text, err
}

func (p *parking) begin(t *testing.T) *client.Pending {
	t.Helper()
	_, pending, err := p.Begin(t.Context(), &protocol.CallToolParams{Name: "deploy"})
	if err != nil || pending == nil {
		t.Fatalf("got %v, %v, want a question", pending, err)
	}
	return pending
}

// resume sends an answer and returns the next question, or the text of the result.
func (p *parking) resume(
	ctx context.Context, pending *client.Pending, text string,
) (*client.Pending, string, error) {
	data, err := json.Marshal(pending)
	if err != nil {
		return nil, "", err
	}
	var own client.Pending // the caller may answer once more
	if err := json.Unmarshal(data, &own); err != nil {
		return nil, "", err
	}
	accept, err := client.Accept(map[string]any{"text": text})
	if err != nil {
		return nil, "", err
	}
	if err := own.Answer(own.Questions()[0].Key, accept); err != nil {
		return nil, "", err
	}
	result, next, err := p.Resume(ctx, &own)
	if err != nil || next != nil {
		return next, "", err
	}
	return nil, result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text, nil
}

func message(p *client.Pending) string {
	return p.Questions()[0].Request.(*protocol.ElicitForm).Message
}

func TestCopiesOfALegGetOneOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParking(t, relay.Limits{})
		first := p.begin(t)
		second, _, err := p.resume(t.Context(), first, "production")
		if err != nil {
			t.Fatal(err)
		}
		// The response was lost: a retry gets the same question.
		again, _, err := p.resume(t.Context(), first, "production")
		if err != nil || again.Questions()[0].Key != second.Questions()[0].Key {
			t.Fatalf("got %v, %v", again, err)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, got, err := p.resume(t.Context(), second, "yes")
				if got != "production yes" || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		wg.Wait()
		if n := p.starts.Load(); n != 1 {
			t.Errorf("the call ran %d times", n)
		}
	})
}

func TestLegsThatDoNotContinueTheCallAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcomes []string
		p := startParking(t, relay.Limits{
			Resumed: func(outcome string) { outcomes = append(outcomes, outcome) },
		})
		first := p.begin(t)
		second, _, err := p.resume(t.Context(), first, "production")
		if err != nil {
			t.Fatal(err)
		}
		refuse := func(name string, pending *client.Pending, text string) {
			t.Helper()
			_, _, err := p.resume(t.Context(), pending, text)
			if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeInvalidParams {
				t.Errorf("%s: got %v", name, err)
			}
		}
		refuse("other answers to the round before", first, "staging")
		if _, got, err := p.resume(t.Context(), second, "yes"); got != "production yes" {
			t.Fatalf("got %q, %v", got, err)
		}
		refuse("an older round", first, "production")
		refuse("other answers at the end", second, "no")
		time.Sleep(time.Minute) // of the bubble: the result is kept for half of it
		refuse("a call that is forgotten", second, "yes")
		if got, want := fmt.Sprint(outcomes),
			"[asked refused done refused refused unknown]"; got != want {
			t.Errorf("outcomes %s, want %s", got, want)
		}
	})
}

func TestQuestionsOfOneMomentAreShownTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParking(t, relay.Limits{})
		p.asked = func(call *parked) error {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { _, _ = ask(t.Context(), call, "Which?") })
			}
			wg.Wait()
			return nil
		}
		second, _, err := p.resume(t.Context(), p.begin(t), "production")
		if err != nil || len(second.Questions()) != 3 {
			t.Errorf("got %v, %v, want three questions", second, err)
		}
	})
}

func TestACallThatTakesTooLongIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParking(t, relay.Limits{Time: time.Minute})
		first := p.begin(t)
		began := time.Now()
		if err := <-p.ended; !errors.Is(err, relay.ErrExpired) || time.Since(began) > time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if _, got, err := p.resume(t.Context(), first, "late"); got != relay.ErrExpired.Error() {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// A lost first request leaves no state; a request with answers may be retried.
func TestACallIsCancelledWhenItsClientHasLeft(t *testing.T) {
	for name, wait := range map[string]time.Duration{"begins": 0, "resumes": 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := startParking(t, relay.Limits{})
			hold := make(chan struct{})
			p.asked = func(*parked) error { <-hold; return nil }
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			if wait == 0 {
				// The first question would be shown 15 ms later.
				go func() {
					defer close(left)
					_, _, _ = p.Begin(ctx, &protocol.CallToolParams{Name: "deploy"})
				}()
			} else {
				first := p.begin(t)
				go func() { defer close(left); _, _, _ = p.resume(ctx, first, "a") }()
			}
			synctest.Wait()
			leave()
			<-left
			began := time.Now()
			time.AfterFunc(wait, func() { close(hold) })
			if err := <-p.ended; !errors.Is(err, relay.ErrClientLeft) ||
				time.Since(began) != wait {
				t.Errorf("%s: got %v after %v, want %v", name, err, time.Since(began), wait)
			}
		})
	}
}

func TestAClientThatComesBackInTimeFindsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParking(t, relay.Limits{})
		hold := make(chan struct{})
		p.asked = func(*parked) error { <-hold; return nil }
		first := p.begin(t)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, _, err := p.resume(ctx, first, "a"); err == nil {
			t.Fatal("the request was not given up")
		}
		time.Sleep(20 * time.Second)
		time.AfterFunc(20*time.Second, func() { close(hold) })
		second, _, err := p.resume(t.Context(), first, "a")
		if err != nil || message(second) != "To a?" {
			t.Fatalf("got %v, %v", second, err)
		}
	})
}

func TestAParkThatIsDrainedEndsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startParking(t, relay.Limits{Place: "server"})
		second, _, err := p.resume(t.Context(), p.begin(t), "a")
		if err != nil {
			t.Fatal(err)
		}
		drained := p.park.Drain()
		_, _, err = p.Begin(t.Context(), &protocol.CallToolParams{Name: "deploy"})
		if said, ok := protocol.AsError(err); !ok || said.Code != protocol.CodeBusy ||
			!p.park.IsClosed() {
			t.Errorf("got %v", err)
		}
		select {
		case <-drained:
			t.Error("drained with a call open")
		default:
		}
		if _, got, err := p.resume(t.Context(), second, "b"); got != "a b" {
			t.Errorf("got %q, %v", got, err)
		}
		<-drained
	})
}
