package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// busy answers the first n requests with what a busy server says.
func busy(n int, data string) *fakePeer {
	return answering(func(req *protocol.Request) (*protocol.Response, error) {
		if n--; n >= 0 {
			e := protocol.Errorf(protocol.CodeBusy, "too many requests at once")
			e.Data = json.RawMessage(data)
			return &protocol.Response{ID: req.ID, Error: e}, nil
		}
		return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
	})
}

// A call comes back to a busy server when that says so, and not sooner; not
// when it does not say, asks for too much, or there is no time.
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
		{"switched off", 1, `{"retryAfterMs":1000}`, &client.Options{NoBusyRetry: true}, 0, 1, false, 0},
		{"as long as may be", 1, `{"retryAfterMs":30000}`, nil, 0, 2, true, 30 * time.Second},
		{"longer", 1, `{"retryAfterMs":30001}`, nil, 0, 1, false, 0},
		{"for ever", 1, `{"retryAfterMs":9223372036854775807}`, nil, 0, 1, false, 0},
		{"does not say", 1, `{}`, nil, 0, 1, false, 0},
		{"no data", 1, ``, nil, 0, 1, false, 0},
		{"zero", 1, `{"retryAfterMs":0}`, nil, 0, 1, false, 0},
		{"negative", 1, `{"retryAfterMs":-5}`, nil, 0, 1, false, 0},
		{"text", 1, `{"retryAfterMs":"1000"}`, nil, 0, 1, false, 0},
		{"fraction", 1, `{"retryAfterMs":1000.5}`, nil, 0, 1, false, 0},
		{"garbage", 1, `{"retryAfterMs":1000,`, nil, 0, 1, false, 0},
		{"after the caller's deadline", 1, `{"retryAfterMs":5000}`, nil, 5 * time.Second, 1, false, 0},
		{"within the caller's deadline", 1, `{"retryAfterMs":4999}`, nil, 5 * time.Second, 2, true, 4999 * time.Millisecond},
		{"after the timeout", 1, `{"retryAfterMs":2000}`, &client.Options{Timeout: 2 * time.Second}, 0, 1, false, 0},
		{"without a timeout", 1, `{"retryAfterMs":2000}`, &client.Options{Timeout: -1}, 0, 2, true, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
					t.Errorf("got %v after %d requests, want ok %v after %d", err, sent, test.ok, test.sent)
				}
				if said, ok := protocol.AsError(err); !test.ok && (!ok || said.Code != protocol.CodeBusy) {
					t.Errorf("got %v, want what the server said", err)
				}
				if took < test.atLeast || took > test.atLeast+test.atLeast/4 {
					t.Errorf("took %v, want at least %v and a quarter more at most", took, test.atLeast)
				}
			})
		})
	}
}

// The wait ends with the call.
func TestBusyWaitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := newClient(t, busy(1, `{"retryAfterMs":20000}`), nil).CallTool(ctx, "greet", nil)
		if !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

// A retry to a busy server carries the answers once more: nobody is asked again.
func TestBusyServerGetsTheAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, asked := 0, 0
		peer := answering(func(req *protocol.Request) (*protocol.Response, error) {
			switch n++; n {
			case 1:
				return &protocol.Response{ID: req.ID, Result: json.RawMessage(ask(`"inputRequests":{"who":` + nameForm + `},"requestState":"s"`))}, nil
			case 2:
				return &protocol.Response{ID: req.ID, Error: protocol.Errorf(protocol.CodeBusy, "m").WithData(map[string]any{"retryAfterMs": 10})}, nil
			}
			return &protocol.Response{ID: req.ID, Result: json.RawMessage(done)}, nil
		})
		c := newClient(t, peer, &client.Options{ElicitForm: func(ctx context.Context, q *client.FormQuestion) (*protocol.ElicitResult, error) {
			asked++
			return acceptName(ctx, q)
		}})
		r, err := c.CallTool(t.Context(), "greet", nil)
		wantDone(t, r, err)
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

// Over HTTP and in both eras, to the first question of all as well: a busy
// server is not taken for one of another era.
func TestBusyOverHTTP(t *testing.T) {
	const full = `"error":{"code":23223,"message":"full","data":{"retryAfterMs":5}}`
	for _, status := range []int{200, 429, 503} {
		for _, first := range []string{"server/discover", "initialize", "tools/call"} {
			for _, modern := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %d modern %v", first, status, modern), func(t *testing.T) {
					s := &oldHTTP{oldServer: &oldServer{}, session: "s", noGet: true}
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
					if _, err := c.CallTool(t.Context(), "t", nil); err != nil {
						t.Error(err)
					}
					want := protocol.V20260728
					if !modern {
						want = protocol.V20251125
					}
					if got := c.Negotiated(); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
					if wanted := first != "initialize" || !modern; wanted && refused != 2 {
						t.Errorf("refused %d times", refused)
					}
				})
			}
		}
	}
}
