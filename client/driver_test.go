package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestOneRound(t *testing.T) {
	peer := script(ask(`"inputRequests":{"who":`+nameForm+`},"requestState":"s1"`), done)
	var got *client.FormQuestion
	r, err := callOnce(t, peer, &client.Options{ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
		got = q
		return client.Accept(map[string]any{"name": "Ada"})
	}})
	wantDone(t, r, err)
	want := client.Origin{Key: "who", Method: "tools/call", Target: "greet", Round: 1}
	if got.Origin != want || got.Message != "Who?" || !strings.Contains(string(got.Schema), "minLength") {
		t.Errorf("got question %+v, want origin %+v", got, want)
	}
	sent := peer.requests()
	if len(sent) != 2 {
		t.Fatalf("got %d requests, want 2", len(sent))
	}
	if got, want := member(t, sent[1], "inputResponses"), `{"who":{"action":"accept","content":{"name":"Ada","size":3}}}`; got != want {
		t.Errorf("got answers %s, want %s (default filled in)", got, want)
	}
	if got, want := member(t, sent[1], "requestState"), `"s1"`; got != want {
		t.Errorf("got state %s, want %s", got, want)
	}
	for _, key := range []string{"name", "arguments", "_meta"} {
		if a, b := member(t, sent[0], key), member(t, sent[1], key); a != b || a == "" {
			t.Errorf("%s: got %s on retry, want %s", key, b, a)
		}
	}
}

func TestThreeRoundsFourKinds(t *testing.T) {
	peer := script(
		ask(`"inputRequests":{"who":`+nameForm+`,"in":`+visitURL+`},"requestState":"s1"`),
		ask(`"inputRequests":{"say":`+sampling+`}`),
		ask(`"inputRequests":{"dirs":`+listRoots+`},"requestState":"s3"`),
		done)
	var rounds [5]atomic.Int32
	opts := &client.Options{
		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
			rounds[q.Round].Add(1)
			return acceptName(ctx, q)
		},
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (*protocol.ElicitResult, error) {
			rounds[q.Round].Add(1)
			if q.URL != "https://example.com/in" {
				t.Errorf("got URL %s", q.URL)
			}
			// Content has no place in URL mode and must not go out.
			return client.Accept(map[string]any{"secret": "x"})
		},
		CreateMessage: func(_ context.Context, q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			rounds[q.Round].Add(1)
			return &protocol.CreateMessageResult{Role: protocol.Assistant, Model: "m", Content: q.Request.Messages[0].Content}, nil
		},
		ListRoots: func(_ context.Context, q *client.RootsQuestion) ([]protocol.Root, error) {
			rounds[q.Round].Add(1)
			return []protocol.Root{{URI: "file:///src"}}, nil
		},
	}
	r, err := callOnce(t, peer, opts)
	wantDone(t, r, err)
	for i, want := range []int32{0, 2, 1, 1, 0} {
		if got := rounds[i].Load(); got != want {
			t.Errorf("round %d: got %d questions, want %d", i, got, want)
		}
	}
	want := []struct{ answers, state string }{
		{"", ""},
		{`{"who":{"action":"accept","content":{"name":"Ada","size":3}},"in":{"action":"accept"}}`, `"s1"`},
		{`{"say":{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}}`, ""},
		{`{"dirs":{"roots":[{"uri":"file:///src"}]}}`, `"s3"`},
	}
	ids := map[protocol.ID]bool{}
	for i, req := range peer.requests() {
		if got := member(t, req, "inputResponses"); got != want[i].answers {
			t.Errorf("leg %d: got answers %s, want %s", i, got, want[i].answers)
		}
		if got := member(t, req, "requestState"); got != want[i].state {
			t.Errorf("leg %d: got state %s, want %q", i, got, want[i].state)
		}
		if ids[req.ID] {
			t.Errorf("leg %d: id %s was used before", i, req.ID)
		}
		ids[req.ID] = true
		if req.Mirror.Name != "greet" || req.Mirror.Version != protocol.V20260728 {
			t.Errorf("leg %d: got mirror %+v", i, req.Mirror)
		}
	}
}

func TestPromptAndResourceRounds(t *testing.T) {
	question := ask(`"inputRequests":{"who":` + nameForm + `}`)
	opts := &client.Options{ElicitForm: acceptName}
	t.Run("prompt", func(t *testing.T) {
		peer := script(question, `{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`)
		r, err := newClient(t, peer, opts).GetPrompt(t.Context(), "p", map[string]string{"a": "b"})
		if err != nil || len(r.Messages) != 1 || len(peer.requests()) != 2 {
			t.Errorf("got %+v, %v after %d requests", r, err, len(peer.requests()))
		}
	})
	t.Run("resource", func(t *testing.T) {
		peer := script(question, `{"resultType":"complete","contents":[{"uri":"u:1","text":"x"}],"ttlMs":0,"cacheScope":"private"}`)
		r, err := newClient(t, peer, opts).ReadResource(t.Context(), "u:1")
		if err != nil || len(r.Contents) != 1 || len(peer.requests()) != 2 || peer.requests()[1].Mirror.Name != "u:1" {
			t.Errorf("got %+v, %v after %d requests", r, err, len(peer.requests()))
		}
	})
}

func TestRefusalsGoOutWithoutContent(t *testing.T) {
	for _, action := range []protocol.ElicitAction{protocol.ActionDecline, protocol.ActionCancel} {
		t.Run(string(action), func(t *testing.T) {
			peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
			r, err := callOnce(t, peer, &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
				return &protocol.ElicitResult{Action: action, Content: json.RawMessage(`{"name":"Ada"}`)}, nil
			}})
			wantDone(t, r, err)
			if got, want := member(t, peer.requests()[1], "inputResponses"), `{"who":{"action":"`+string(action)+`"}}`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestStateIsEchoedExactly(t *testing.T) {
	for name, state := range map[string]string{
		"plain": `"a.b-c"`, "empty": `""`, "escapes": `"\u00e9\n\"\\ \ud83d\ude00"`, "spaces": `"  x  "`,
	} {
		t.Run(name, func(t *testing.T) {
			peer := script(ask(`"inputRequests":{"who":`+nameForm+`},"requestState":`+state), done)
			r, err := callOnce(t, peer, &client.Options{ElicitForm: acceptName})
			wantDone(t, r, err)
			var got, want string
			raw := member(t, peer.requests()[1], "requestState")
			if err := json.Unmarshal([]byte(raw), &got); err != nil {
				t.Fatalf("state %q: %v", raw, err)
			}
			if _ = json.Unmarshal([]byte(state), &want); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestPauseGrowsWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		peer := script(ask(`"requestState":"wait"`))
		inner := peer.handle
		peer.handle = func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
			at = append(at, time.Now())
			return inner(ctx, req, back)
		}
		_, err := callOnce(t, peer, nil)
		exceeded, ok := errors.AsType[*client.RoundsExceededError](err)
		if !ok || exceeded.Rounds != 10 || len(at) != 11 {
			t.Fatalf("got %v after %d requests, want 10 rounds exceeded after 11", err, len(at))
		}
		if state, ok := exceeded.Last.RequestState.Text(); state != "wait" || !ok {
			t.Errorf("got last state %q, %v", state, ok)
		}
		bounds := [][2]int{{50, 100}, {100, 200}, {125, 250}}
		same := true
		for i := 1; i < len(at); i++ {
			b := bounds[min(i-1, 2)]
			gap := at[i].Sub(at[i-1])
			if gap < time.Duration(b[0])*time.Millisecond || gap > time.Duration(b[1])*time.Millisecond {
				t.Errorf("pause %d: got %v, want within %v ms", i, gap, b)
			}
			same = same && i > 3 && gap == at[3].Sub(at[2])
		}
		if same {
			t.Error("all pauses are equal: no jitter")
		}
	})
}

// A question in between shows that the server is not overloaded any more: the
// pauses start small again.
func TestPauseStartsAgainAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := ask(`"requestState":"wait"`)
		var at []time.Time
		peer := script(busy, busy, busy, ask(`"inputRequests":{"who":`+nameForm+`}`), busy, done)
		inner := peer.handle
		peer.handle = func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
			at = append(at, time.Now())
			return inner(ctx, req, back)
		}
		r, err := callOnce(t, peer, &client.Options{ElicitForm: acceptName})
		wantDone(t, r, err)
		if gap := at[4].Sub(at[3]); gap != 0 {
			t.Errorf("waited %v with answers in hand", gap)
		}
		if gap := at[5].Sub(at[4]); gap > 100*time.Millisecond {
			t.Errorf("waited %v, want at most 100ms", gap)
		}
	})
}

func TestPauseHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := newClient(t, script(ask(`"requestState":"wait"`)), nil).CallTool(ctx, "greet", nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 20*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestTimeoutLeavesOutPeople(t *testing.T) {
	slow := func(d time.Duration) *fakePeer {
		peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
		inner := peer.handle
		peer.handle = func(ctx context.Context, req *protocol.Request, back protocol.Back) (*protocol.Response, error) {
			select {
			case <-time.After(d):
				return inner(ctx, req, back)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return peer
	}
	opts := &client.Options{
		Timeout: time.Minute,
		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
			time.Sleep(time.Hour) // of fake time: a person at lunch
			if _, ok := ctx.Deadline(); ok {
				t.Error("the handler has a deadline")
			}
			return acceptName(ctx, q)
		},
	}
	t.Run("within", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, err := callOnce(t, slow(29*time.Second), opts)
			wantDone(t, r, err)
		})
	})
	t.Run("legs add up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := callOnce(t, slow(31*time.Second), opts)
			if timeout, ok := errors.AsType[*client.TimeoutError](err); !ok || timeout.Limit != time.Minute || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a timeout", err)
			}
			if got, want := time.Since(start), time.Hour+time.Minute; got != want {
				t.Errorf("took %v, want %v", got, want)
			}
		})
	})
}

func TestCallerParamsAreNotChanged(t *testing.T) {
	peer := &fakePeer{handle: func(_ context.Context, req *protocol.Request, _ protocol.Back) (*protocol.Response, error) {
		p, err := protocol.DecodeParams(req.Method, req.Params)
		if err != nil {
			return nil, err
		}
		call := p.(*protocol.CallToolParams)
		switch state, _ := call.RequestState.Text(); {
		case call.InputResponses == nil:
			return &protocol.Response{ID: req.ID, Result: json.RawMessage(ask(`"inputRequests":{"who":` + nameForm + `},"requestState":` + fmt.Sprintf("%q", req.ID)))}, nil
		case state == "":
			return nil, errors.New("the state got lost")
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	}}
	c := newClient(t, peer, &client.Options{ElicitForm: acceptName})
	params := &protocol.CallToolParams{Name: "greet", Arguments: json.RawMessage(`{"a":1}`)}
	params.ProgressToken = protocol.StringID("mine")
	params.Extra = protocol.Meta(`{"traceparent":"00-1"}`)
	before := fmt.Sprintf("%+v", *params)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := c.CallToolParams(t.Context(), params); err != nil {
				t.Errorf("call: %v", err)
			}
		})
	}
	wait.Wait()
	if after := fmt.Sprintf("%+v", *params); after != before {
		t.Errorf("params changed from %s to %s", before, after)
	}
	for _, req := range peer.requests() {
		meta := metaOf(t, req)
		if trace, _ := meta.Extra.Get(protocol.MetaTraceParent); meta.ProgressToken != protocol.StringID("mine") || string(trace) != `"00-1"` {
			t.Errorf("got meta %s", meta.Extra)
		}
	}
}

func TestCloseEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		peer := script(ask(`"inputRequests":{"who":` + nameForm + `}`))
		c := client.New(peer, &client.Options{ElicitForm: func(ctx context.Context, _ *client.FormQuestion) (*protocol.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		failed := make(chan error)
		go func() {
			_, err := c.CallTool(context.Background(), "greet", nil)
			failed <- err
		}()
		<-asked
		if err := c.Close(); err != nil || !peer.closed {
			t.Errorf("close: %v, peer closed: %v", err, peer.closed)
		}
		if err := <-failed; !errors.Is(err, client.ErrClosed) {
			t.Errorf("running call: got %v, want ErrClosed", err)
		}
		sent := len(peer.requests())
		if _, err := c.CallTool(context.Background(), "greet", nil); !errors.Is(err, client.ErrClosed) || len(peer.requests()) != sent {
			t.Errorf("later call: got %v, want ErrClosed and nothing sent", err)
		}
	})
}
