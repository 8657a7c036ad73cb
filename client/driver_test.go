package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestThreeRoundsFourKinds(t *testing.T) {
	peer := script(
		ask(`"inputRequests":{"who":`+nameForm+`,"in":`+visitURL+`},"requestState":"s1"`),
		ask(`"inputRequests":{"say":`+sampling+`}`),
		ask(`"inputRequests":{"dirs":`+listRoots+`},"requestState":""`),
		done)
	var rounds [5]atomic.Int32
	opts := &client.Options{
		ElicitForm: func(ctx context.Context, q *client.FormQuestion) (elicited, error) {
			rounds[q.Round].Add(1)
			want := client.QuestionOrigin{
				Key: "who", Method: "tools/call", Target: "greet", Round: 1,
			}
			if q.QuestionOrigin != want || q.Message != "Who?" ||
				!strings.Contains(string(q.Schema), "minLength") {
				t.Errorf("got question %+v, want origin %+v", q, want)
			}
			return acceptName(ctx, q)
		},
		ElicitURL: func(_ context.Context, q *client.URLQuestion) (elicited, error) {
			rounds[q.Round].Add(1)
			wantEqual(t, "got URL", q.URL, "https://example.com/in")
			// An answer in URL mode has no content, so this must not be sent.
			return client.Accept(map[string]any{"secret": "x"})
		},
		CreateMessage: func(_ context.Context,
			q *client.SamplingQuestion) (*protocol.CreateMessageResult, error) {
			rounds[q.Round].Add(1)
			return &protocol.CreateMessageResult{
				Role: protocol.Assistant, Model: "m", Content: q.Request.Messages[0].Content,
			}, nil
		},
		ListRoots: func(_ context.Context, q *client.RootsQuestion) ([]protocol.Root, error) {
			rounds[q.Round].Add(1)
			return []protocol.Root{{URI: "file:///src"}}, nil
		},
	}
	wantOnce(t, peer, opts)
	for i, want := range []int32{0, 2, 1, 1, 0} {
		wantEqual(t, fmt.Sprintf("round %d: questions", i), rounds[i].Load(), want)
	}
	checkLegs(t, peer)
}

func checkLegs(t *testing.T, peer *fakePeer) {
	t.Helper()
	want := []struct{ answers, state string }{
		{"", ""},
		{
			`{"who":{"action":"accept","content":{"name":"Ada","size":3}},"in":{"action":"accept"}}`, `"s1"`,
		},
		{`{"say":{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}}`, ""},
		{`{"dirs":{"roots":[{"uri":"file:///src"}]}}`, `""`},
	}
	ids := map[protocol.ID]bool{}
	for i, req := range peer.requests() {
		wantEqual(t, fmt.Sprintf("leg %d: got answers", i), member(t, req, "inputResponses"),
			want[i].answers)
		wantEqual(t, fmt.Sprintf("leg %d: got state", i), member(t, req, "requestState"),
			want[i].state)
		for _, key := range []string{"name", "arguments", "_meta"} {
			if got, want := member(t, req, key), member(t, peer.requests()[0], key); got != want ||
				got == "" {
				t.Errorf("leg %d: got %s %s, want %s", i, key, got, want)
			}
		}
		if ids[req.ID] {
			t.Errorf("leg %d: id %s was used before", i, req.ID)
		}
		ids[req.ID] = true
		if req.Mirror.Name != "greet" || req.Mirror.Version != protocol.V20260728 {
			t.Errorf("leg %d: got mirror %+v", i, req.Mirror)
		}
	}
	wantEqual(t, "requests", len(ids), len(want))
}

func TestPromptAndResourceRounds(t *testing.T) {
	question := ask(`"inputRequests":{"who":` + nameForm + `}`)
	opts := &client.Options{ElicitForm: acceptName}
	t.Run("prompt", func(t *testing.T) {
		peer := script(question, `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`)
		r, err := newClient(t, peer, opts).GetPrompt(t.Context(), "p", map[string]string{"a": "b"})
		if err != nil || len(r.Messages) != 1 || len(peer.requests()) != 2 {
			t.Errorf("got %+v, %v after %d requests", r, err, len(peer.requests()))
		}
	})
	t.Run("resource", func(t *testing.T) {
		peer := script(question, `{"contents":[{"uri":"u:1","text":"x"}],"ttlMs":0}`)
		r, err := newClient(t, peer, opts).ReadResource(t.Context(), "u:1")
		if err != nil || len(r.Contents) != 1 || len(peer.requests()) != 2 ||
			peer.requests()[1].Mirror.Name != "u:1" {
			t.Errorf("got %+v, %v after %d requests", r, err, len(peer.requests()))
		}
	})
}

func TestRefusalsGoOutWithoutContent(t *testing.T) {
	for _, action := range []protocol.ElicitAction{protocol.ActionDecline, protocol.ActionCancel} {
		t.Run(string(action), func(t *testing.T) {
			peer := script(ask(`"inputRequests":{"who":`+nameForm+`}`), done)
			wantOnce(t, peer, &client.Options{ElicitForm: func(context.Context,
				*client.FormQuestion) (elicited, error) {
				return &protocol.ElicitResult{Action: action,
					Content: json.RawMessage(`{"name":"Ada"}`)}, nil
			}})
			wantEqual(t, "sent", member(t, peer.requests()[1], "inputResponses"),
				`{"who":{"action":"`+string(action)+`"}}`)
		})
	}
}

func TestRoundLimitIsCheckedBeforePrompting(t *testing.T) {
	for name, limit := range map[string]int{"default": 0, "one": 1, "never": -1} {
		t.Run(name, func(t *testing.T) {
			var prompts atomic.Int32
			opts := countingForm(&prompts)
			opts.MaxRounds = limit
			want := map[int]int{0: 10, 1: 1, -1: 0}[limit]
			peer := script(ask(`"inputRequests":{"who":` + nameForm + `},"requestState":"s"`))
			_, err := callOnce(t, peer, opts)
			wantError(t, err, fmt.Sprintf("after %d rounds", want), "Options.MaxRounds")
			// Every prompt's answer was sent.
			if int(prompts.Load()) != want || len(peer.requests()) != want+1 {
				t.Errorf("got %d prompts and %d requests, want %d and %d", prompts.Load(),
					len(peer.requests()), want, want+1)
			}
		})
	}
}

func TestPauseGrowsWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		peer := script(ask(`"requestState":"wait"`))
		inner := peer.handle
		peer.handle = func(ctx context.Context, req *protocol.Request,
			back protocol.Back) (response, error) {
			at = append(at, time.Now())
			return inner(ctx, req, back)
		}
		_, err := callOnce(t, peer, nil)
		wantError(t, err, "after 10 rounds", "Options.MaxRounds")
		if len(at) != 11 {
			t.Fatalf("got %d requests, want 11", len(at))
		}
		bounds := [][2]int{{50, 100}, {100, 200}, {125, 250}}
		same := true
		for i := 1; i < len(at); i++ {
			b := bounds[min(i-1, 2)]
			gap := at[i].Sub(at[i-1])
			if gap < time.Duration(b[0])*time.Millisecond ||
				gap > time.Duration(b[1])*time.Millisecond {
				t.Errorf("pause %d: got %v, want within %v ms", i, gap, b)
			}
			same = same && (i <= 3 || gap == at[3].Sub(at[2]))
		}
		if same {
			t.Error("all pauses are equal: no jitter")
		}
	})
}

func TestCallerParamsAreNotChanged(t *testing.T) {
	peer := &fakePeer{handle: func(_ context.Context, req *protocol.Request,
		_ protocol.Back) (response, error) {
		p, err := protocol.DecodeParams(req.Method, req.Params)
		if err != nil {
			return nil, err
		}
		call := p.(*protocol.CallToolParams)
		switch state, _ := call.RequestState.Text(); {
		case call.InputResponses == nil:
			again := ask(`"inputRequests":{"who":` + nameForm + `},"requestState":` +
				fmt.Sprintf("%q", req.ID))
			return reply(req, again)
		case state == "":
			return nil, errors.New("the state got lost")
		}
		return reply(req, done)
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
	wantEqual(t, "params afterwards", fmt.Sprintf("%+v", *params), before)
	for _, req := range peer.requests() {
		meta := metaOf(t, req)
		trace, _ := meta.Extra.Get(protocol.MetaTraceParent)
		if meta.ProgressToken != protocol.StringID("mine") || string(trace) != `"00-1"` {
			t.Errorf("got meta %s", meta.Extra)
		}
	}
}

func TestCloseEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		peer := script(ask(`"inputRequests":{"who":` + nameForm + `}`))
		c, err := client.New(peer, &client.Options{ElicitForm: func(ctx context.Context,
			_ *client.FormQuestion) (elicited, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		noError(t, err)
		failed := make(chan error)
		go func() {
			_, err := c.CallTool(context.Background(), "greet", nil)
			failed <- err
		}()
		<-asked
		if err := c.Close(); err != nil || !peer.closed {
			t.Errorf("close: %v, peer closed: %v", err, peer.closed)
		}
		wantIs(t, "running call", <-failed, client.ErrClosed)
		sent := len(peer.requests())
		if _, err := c.CallTool(context.Background(), "greet", nil); !errors.Is(err,
			client.ErrClosed) ||
			len(peer.requests()) != sent {
			t.Errorf("later call: got %v, want ErrClosed and nothing sent", err)
		}
	})
}

func busy(n int, data string) *fakePeer {
	return answering(func(req *protocol.Request) (response, error) {
		if n--; n >= 0 {
			e := protocol.Errorf(protocol.CodeBusy, "too many requests at once")
			e.Data = json.RawMessage(data)
			return refuse(req, e)
		}
		return reply(req, done)
	})
}

// A call is repeated when a busy server says so, unless the wait would be too long.
func TestBusyServerIsAskedAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		refuses int
		data    string
		opts    *client.Options
		limit   time.Duration // of the caller
		sent    int
		ok      bool
		atLeast time.Duration
	}{
		{"once", 1, `{"retryAfterMs":1000}`, nil, 0, 2, true, time.Second},
		{"three times", 3, `{"retryAfterMs":1000,"limit":"principal"}`, nil, 0, 4, true, 3 * time.Second},
		{"four times", 4, `{"retryAfterMs":1000}`, nil, 0, 4, false, 3 * time.Second},
		{"switched off", 1, `{"retryAfterMs":1000}`, &client.Options{NoBusyRetry: true}, 0,
			1, false, 0},
		{"as long as may be", 1, `{"retryAfterMs":30000}`, nil, 0, 2, true, 30 * time.Second},
		{"longer", 1, `{"retryAfterMs":30001}`, nil, 0, 1, false, 0},
		{"for ever", 1, `{"retryAfterMs":9223372036854775807}`, nil, 0, 1, false, 0},
		{"no data", 1, ``, nil, 0, 1, false, 0},
		{"zero", 1, `{"retryAfterMs":0}`, nil, 0, 1, false, 0},
		{"text", 1, `{"retryAfterMs":"1000"}`, nil, 0, 1, false, 0},
		{"garbage", 1, `{"retryAfterMs":1000,`, nil, 0, 1, false, 0},
		{"after the caller's deadline", 1, `{"retryAfterMs":5000}`, nil, 5 * time.Second,
			1, false, 0},
		{"within the caller's deadline", 1, `{"retryAfterMs":4999}`, nil, 5 * time.Second, 2, true,
			4999 * time.Millisecond},
		{"after the timeout", 1, `{"retryAfterMs":2000}`,
			&client.Options{Timeout: 2 * time.Second}, 0, 1,
			false, 0},
		{"without a timeout", 1, `{"retryAfterMs":2000}`, &client.Options{Timeout: -1}, 0, 2, true,
			2 * time.Second},
	} {
		inBubble(t, test.name, func(t *testing.T) {
			ctx := t.Context()
			if test.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.limit)
				defer cancel()
			}
			peer := busy(test.refuses, test.data)
			start := time.Now()
			_, err := newClient(t, peer, test.opts).CallTool(ctx, "greet", nil)
			took := time.Since(start)
			if sent := len(peer.requests()); (err == nil) != test.ok || sent != test.sent {
				t.Errorf("got %v after %d requests, want ok %v after %d", err, sent, test.ok,
					test.sent)
			}
			if said, ok := protocol.AsError(err); !test.ok &&
				(!ok || said.Code != protocol.CodeBusy) {
				t.Errorf("got %v, want what the server said", err)
			}
			if took < test.atLeast || took > test.atLeast+test.atLeast/4 {
				t.Errorf("took %v, want at least %v and a quarter more at most", took, test.atLeast)
			}
		})
	}
}

// The pause before the next round, and the wait for a busy server, end with the call.
func TestWaitsEndWithTheCall(t *testing.T) {
	for name, peer := range map[string]func() *fakePeer{
		"pause": func() *fakePeer { return script(ask(`"requestState":"wait"`)) },
		"busy":  func() *fakePeer { return busy(1, `{"retryAfterMs":20000}`) },
	} {
		inBubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			start := time.Now()
			_, err := newClient(t, peer(), nil).CallTool(ctx, "greet", nil)
			if !errors.Is(err, context.Canceled) || time.Since(start) != 20*time.Millisecond {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
		})
	}
}

// A retry to a busy server repeats the answers, and the handler is not called again.
func TestBusyServerGetsTheAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, asked := 0, 0
		peer := answering(func(req *protocol.Request) (response, error) {
			switch n++; n {
			case 1:
				again := ask(`"inputRequests":{"who":` + nameForm + `},"requestState":"s"`)
				return reply(req, again)
			case 2:
				busy := protocol.Errorf(protocol.CodeBusy, "m")
				return refuse(req, busy.WithData(map[string]any{"retryAfterMs": 10}))
			}
			return reply(req, done)
		})
		c := newClient(t, peer, &client.Options{ElicitForm: func(ctx context.Context,
			q *client.FormQuestion) (elicited, error) {
			asked++
			return acceptName(ctx, q)
		}})
		wantCall(t, c, "greet")
		sent := peer.requests()
		if asked != 1 || len(sent) != 3 {
			t.Fatalf("asked %d times, sent %d requests", asked, len(sent))
		}
		for _, name := range []string{"inputResponses", "requestState"} {
			if a, b := member(t, sent[1], name), member(t, sent[2], name); a != b || a == "" {
				t.Errorf("%s: got %s and %s", name, a, b)
			}
		}
	})
}

// A busy server never seems to be of the other era: over HTTP, in both eras, for every request.
func TestBusyOverHTTP(t *testing.T) {
	const full = `"error":{"code":23223,"message":"full","data":{"retryAfterMs":5}}`
	for _, status := range []int{200, 429, 503} {
		for _, first := range []string{"server/discover", "initialize", "tools/call"} {
			for _, modern := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %d modern %v", first, status, modern), func(t *testing.T) {
					s := &legacyHTTP{legacyServer: &legacyServer{}, session: "s", noGet: true}
					if modern {
						s.refuse = saysJSON(200, bothEras)
					}
					refused := 0
					web := func(w http.ResponseWriter, r *http.Request) {
						m := peek(t, r)
						if m.Method == first && refused < 2 {
							refused++
							saysJSON(status, full)(w, m)
							return
						}
						s.ServeHTTP(w, r)
					}
					c := newClient(t, dialHTTP(t, http.HandlerFunc(web), nil), nil)
					wantCall(t, c, "t")
					want := protocol.V20260728
					if !modern {
						want = protocol.V20251125
					}
					wantEqual(t, "negotiated", c.Negotiated(), want)
					if wanted := first != "initialize" || !modern; wanted && refused != 2 {
						t.Errorf("refused %d times", refused)
					}
				})
			}
		}
	}
}
