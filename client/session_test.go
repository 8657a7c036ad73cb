package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Requests in a legacy session have no fields of modern revisions.
func TestLegacyWire(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &legacyServer{caps: `{"tools":{"listChanged":true},"logging":{}}`}
		opts := allHandlers()
		opts.LogLevel = protocol.LevelWarning
		opts.Extensions = map[string]json.RawMessage{"com.example/x": []byte(`{}`)}
		c := s.reach(t, way, opts)
		p := &protocol.CallToolParams{Name: "greet", Arguments: json.RawMessage(`{"n":1}`)}
		p.Extra = protocol.Meta(`{"traceparent":"00-1-2-3","io.modelcontextprotocol/logLevel":"debug"}`)
		r, err := c.CallToolParams(t.Context(), p)
		wantDone(t, r, err)
		wantEqual(t, "params", s.params("tools/call"),
			`{"name":"greet","arguments":{"n":1},"_meta":{"traceparent":"00-1-2-3"}}`)
		list, err := c.ListTools(t.Context(), "")
		if err != nil || len(list.Tools) != 1 || list.Cache != (protocol.CacheHints{}) {
			t.Fatalf("got %+v, %v, want the one tool, whatever its annotations, and no hints", list,
				err)
		}
		_, err = c.ListTools(t.Context(), "")
		noError(t, err)
		d, err := c.Discover(t.Context())
		if err != nil || d.SupportedVersions[0] != protocol.V20251125 ||
			d.ServerInfo().Name != "old" ||
			d.Instructions != "be gentle" || d.Capabilities.Tools == nil {
			t.Errorf("got %+v, %v", d, err)
		}
		want := []string{
			"server/discover", "initialize", "notifications/initialized", "logging/setLevel",
			"tools/call",
			"tools/list", "tools/list",
		}
		wantEqual(t, "sent", fmt.Sprint(s.methods()), fmt.Sprint(want))
		wantEqual(t, "params", s.params("initialize"),
			`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"extensions":{"com.example/x":{}}},"clientInfo":{"name":"rondo-client","version":"0"}}`)
		wantEqual(t, "level", s.params("logging/setLevel"), `{"level":"warning"}`)
	})
}

// In a legacy session a result that looks like a round is complete, and retries cannot be sent.
func TestLegacyHasNoRounds(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &legacyServer{call: func(legacyMessage, pusher) string {
			return `{"resultType":"input_required","inputRequests":{"who":` + nameForm + `},"requestState":"s","content":[{"type":"text","text":"done"}]}`
		}}
		opts := allHandlers()
		opts.ElicitForm = func(context.Context, *client.FormQuestion) (elicited, error) {
			t.Error("somebody was asked")
			return client.Cancel(), nil
		}
		c := s.reach(t, way, opts)
		wantCall(t, c, "greet")
		p := &protocol.CallToolParams{Name: "greet"}
		p.RequestState = protocol.StateText("s")
		if _, err := c.CallToolParams(t.Context(), p); err == nil {
			t.Error("state was sent")
		}
		result, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{Name: "greet"})
		if err != nil || pending != nil {
			t.Fatalf("got %v, %v", pending, err)
		}
		wantDone(t, result.(*protocol.CallToolResult), nil)
	})
}

// The timeout excludes the time in which users answer, and counts all other time.
func TestLegacyTimeout(t *testing.T) {
	const limit = time.Second
	overEach(t, func(t *testing.T, way string) {
		synctest.Test(t, func(t *testing.T) {
			opts := &client.Options{Timeout: limit, ElicitForm: func(ctx context.Context,
				_ *client.FormQuestion) (elicited, error) {
				select {
				case <-time.After(2 * limit):
					return client.Accept(map[string]any{"name": "Ada"})
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}}
			stop := make(chan struct{})
			defer close(stop)
			s := &legacyServer{inMemory: true, call: func(m legacyMessage, push pusher) string {
				if got := push(pushed("1", "elicitation/create", nameParams)); got.Error != nil {
					t.Errorf("got %s", got.answer())
				}
				if strings.Contains(string(m.Params), "slow") {
					<-stop
				}
				return legacyDone
			}}
			c := s.reach(t, way, opts)
			wantCall(t, c, "greet")
			start := time.Now()
			_, err := c.CallTool(t.Context(), "slow", nil)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*limit {
				t.Errorf("got %v after %v, want a timeout after what the person took and the limit",
					err,
					time.Since(start))
			}
		})
	})
}

// When the caller gives up during a question, no goroutine waits for the answer.
func TestLegacyCallerGivesUp(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		ctx, cancel := context.WithCancel(t.Context())
		opts := &client.Options{ElicitForm: func(ctx context.Context,
			_ *client.FormQuestion) (elicited, error) {
			cancel()
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		s := &legacyServer{call: func(_ legacyMessage, push pusher) string {
			push(pushed("1", "elicitation/create", nameParams))
			return legacyDone
		}}
		if _, err := s.reach(t, way, opts).CallTool(ctx, "greet", nil); !errors.Is(err,
			context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestURLElicitationRequired(t *testing.T) {
	need := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, fmt.Sprintf(
				`{"mode":"url","elicitationId":%q,"url":"https://example.com/%s","message":"m"}`, id, id,
			))
		}
		return `{"code":-32042,"message":"This request requires more information.","data":{"elicitations":[` + strings.Join(list, ",") + `]}}`
	}
	always := func(n int) string { return need(fmt.Sprint(n)) }
	tests := []struct {
		name   string
		answer func(n int) string // the n-th call's result
		person string
		calls  int
		asked  int
		err    string
	}{
		{"once", func(n int) string { return []string{need("a", "b"), legacyDone}[min(n, 1)] },
			"accept",
			2, 2, ""},
		{"twice", func(n int) string {
			return []string{need("a"), need("b"), legacyDone}[min(n, 2)]
		}, "accept", 3, 2, ""},
		{"the same again", func(int) string { return need("a") }, "accept", 2, 1, "-32042"},
		{"for ever", always, "accept", 4, 3, "-32042"},
		{"declined", func(int) string { return need("a") }, "decline", 1, 1, "did not visit"},
		{"cancelled", func(int) string { return need("a") }, "cancel", 1, 1, "did not visit"},
		{"hostile URL", func(int) string {
			return strings.ReplaceAll(need("a"), "https:", "javascript:")
		}, "accept", 1, 0, "javascript"},
		{"a form", func(int) string {
			return strings.ReplaceAll(need("a"), `"url"`, `"form"`)
		}, "accept", 1, 0, "-32042"},
		{"no id", func(int) string { return need("") }, "accept", 1, 0, "elicitationId"},
		{"no data", func(int) string { return `{"code":-32042,"message":"m"}` }, "accept", 1,
			0, "-32042"},
		{"empty", func(int) string { return need() }, "accept", 1, 0, "-32042"},
	}
	overEach(t, func(t *testing.T, way string) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				calls, asked := 0, atomic.Int32{}
				s := &legacyServer{call: func(legacyMessage, pusher) string {
					calls++
					return test.answer(calls - 1)
				}}
				opts := &client.Options{MaxRounds: 3, ElicitURL: func(_ context.Context,
					q *client.URLQuestion) (elicited, error) {
					asked.Add(1)
					if q.Target != "greet" || !strings.HasSuffix(q.URL, q.Key) {
						t.Errorf("asked %+v", q)
					}
					return &protocol.ElicitResult{Action: protocol.ElicitAction(test.person)}, nil
				}}
				r, err := s.reach(t, way, opts).CallTool(t.Context(), "greet", nil)
				if test.err == "" {
					wantDone(t, r, err)
				} else if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
				if calls != test.calls || int(asked.Load()) != test.asked {
					t.Errorf("%d calls and %d questions, want %d and %d", calls, asked.Load(),
						test.calls, test.asked)
				}
			})
		}
	})
}

func TestLegacyProgressAndNotifications(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		progressed, heard := make(chan float64, 1), make(chan string, 8)
		opts := &client.Options{

			Log: func(_ context.Context, m *protocol.LogMessage) {
				heard <- "log " + string(m.Data)
			},
			Notification: func(_ context.Context, n *protocol.Notification) {
				heard <- n.Method
			},
		}
		s := &legacyServer{call: func(m legacyMessage, push pusher) string {
			var p struct {
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal(m.Params, &p)
			push(fmt.Sprintf(
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`,
				p.Meta.Token,
			))
			push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			push(
				`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"x"}}`,
			)
			for _, want := range []string{"log 1", "notifications/elicitation/complete"} {
				wantEqual(t, "heard", <-heard, want)
			}
			return legacyDone
		}}
		ctx := client.WithProgress(t.Context(),
			func(_ context.Context, p *protocol.Progress) { progressed <- p.Progress })
		_, err := s.reach(t, way, opts).CallTool(ctx, "greet", nil)
		noError(t, err)
		wantEqual(t, "progress", <-progressed, 1.0)
	})
}

// Calls that a lost session did not run (404) share a new session and are repeated once. All other
// calls are not.
func TestLegacySessionGone(t *testing.T) {
	notFound := func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }
	for name, test := range map[string]struct {
		refuse  func(w http.ResponseWriter) // answers tools/call
		lost    string                      // the refused sessions
		calls   int
		inits   int
		failure string // part of the call's error; empty: none
		text    string
	}{
		"one call":      {notFound, "s1", 1, 2, "", ""},
		"ten calls":     {notFound, "s1", 10, 2, "", ""},
		"lost again":    {notFound, "s1 s2", 1, 2, "did not run", "call again"},
		"none can open": {notFound, "s1 down", 1, 2, "no new one opens: initialize", "did not run; call again"},
		"a call that ran": {func(w http.ResponseWriter) {
			w.Header().Set("Rondo-Outcome", "unknown")
			w.WriteHeader(http.StatusNotFound)
		}, "s1", 1, 1, "session is gone", "may have run"},
		"400": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, "s1", 1, 1,
			"session is gone", "the next call opens a new session"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &legacyHTTP{legacyServer: &legacyServer{}, session: "s1", noGet: true}
			var lost atomic.Bool
			var refused, inits atomic.Int64
			arrived := make(chan bool)
			web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := r.Header.Get("Mcp-Session-Id")
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				isLost := lost.Load() && id != "" && strings.Contains(test.lost, id) &&
					len(body) > 0 && !bytes.Contains(body, []byte("notifications/"))
				if bytes.Contains(body, []byte(`"initialize"`)) && inits.Add(1) > 1 &&
					strings.Contains(test.lost, "down") {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				if isLost && bytes.Contains(body, []byte("tools/call")) {
					if refused.Add(1) == int64(test.calls) { // all calls are in flight
						close(arrived)
					}
					<-arrived
				}
				if isLost {
					test.refuse(w)
					return
				}
				s.ServeHTTP(w, r)
			})
			c := newClient(t, dialHTTP(t, web, nil), nil)
			wantCall(t, c, "t")
			lost.Store(true)
			s.session = "s2"
			var wait sync.WaitGroup
			for range test.calls {
				wait.Go(func() {
					_, err := c.CallTool(t.Context(), "t", nil)
					if test.failure == "" {
						noError(t, err)
						return
					}
					wantIs(t, "error", err, protocol.ErrSessionGone)
					wantError(t, err, test.failure, test.text)
				})
			}
			wait.Wait()
			sent := int(refused.Load())
			for _, m := range s.methods() {
				if m == "tools/call" {
					sent++
				}
			}
			want := 1 + test.calls
			if test.failure == "" || name == "lost again" {
				want += test.calls
			}
			if int(inits.Load()) != test.inits || sent != want {
				t.Errorf("%d sessions opened and %d calls sent, want %d and %d", inits.Load(), sent,
					test.inits, want)
			}
		})
	}
}
