package serverhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// The type kept holds the data that handlers keep after they return.
type kept struct {
	mu     sync.Mutex
	ctx    []context.Context
	now    []json.RawMessage
	before [][]byte
}

func (k *kept) keep(ctx context.Context, values ...json.RawMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx = append(k.ctx, ctx)
	for _, v := range values {
		k.now, k.before = append(k.now, v), append(k.before, bytes.Clone(v))
	}
}

// The function lending returns a server whose tool ends a loan in every way: with results of any
// size, a result that cannot be encoded, an error, a panic, and notifications during the write.
func lending(t *testing.T, k *kept, background *sync.WaitGroup) *server.Server {
	srv, err := server.New(nil)
	noError(t, err)
	type input struct {
		How, Text string
		N         int
	}
	server.AddTool(srv, server.Tool{Name: "t"},
		func(ctx context.Context, call *server.ToolCall, in input) (toolOutcome, error) {
			k.keep(ctx, call.Arguments, json.RawMessage(call.Meta.Extra))
			switch in.How {
			case "broken":
				return &protocol.CallToolResult{StructuredContent: json.RawMessage(`{"a":`)}, nil
			case "error":
				return nil, protocol.Errorf(protocol.CodeInvalidParams, "%s", in.Text)
			case "panic":
				panic(in.Text)
			case "stream":
				_ = call.Notify(ctx, progress(0))
				background.Go(func() {
					for i := range 20 {
						_ = call.Notify(context.WithoutCancel(ctx), progress(i+1))
					}
				})
			}
			return server.Text(strings.Repeat(in.Text, in.N)), nil
		})
	return srv
}

// Concurrent responses do not share bytes, and data kept by handlers does not change.
func TestLend(t *testing.T) {
	var k kept
	var background, clients sync.WaitGroup
	h := servertest.NewHandler(t, lending(t, &k, &background), nil)
	ways := []string{"result", "large", "broken", "result", "error", "panic", "stream", "result"}
	for client := range 8 {
		clients.Go(func() {
			for i := range 40 {
				how, n := ways[(i+client)%len(ways)], 1+i%5
				if how == "large" {
					n = 20_000 // larger than pooled buffers
				}
				word := fmt.Sprintf("<%d.%d>", client, i)
				r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(
					body("tools/call", fmt.Sprintf(`"name":"t","arguments":{"How":%q,"Text":%q,"N":%d}`, how, word, n))))
				r.Header = headers("tools/call", "t")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				got, want := w.Body.String(), fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":%q}]`, strings.Repeat(word, n))
				switch how {
				case "broken", "panic":
					want = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"internal error"}}`
				case "error":
					want = fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":%q}}`, word)
				case "stream":
					got = got[max(0, strings.LastIndex(got, "data: ")):]
					want = "data: " + want
				}
				if !strings.HasPrefix(got, want) || strings.Count(got, `"jsonrpc"`) != 1 {
					t.Errorf("%s: got %.200s, want %.200s", how, got, want)
				}
			}
		})
	}
	clients.Wait()
	background.Wait()
	wantEqual(t, "handlers", len(k.ctx), 8*40)
	for i, now := range k.now {
		if !bytes.Equal(now, k.before[i]) {
			t.Errorf("kept by a handler: got %s, was %s", now, k.before[i])
		}
	}
	for _, ctx := range k.ctx {
		if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
			t.Errorf("context after the answer: got %v, %v, want it cancelled", ctx.Err(),
				context.Cause(ctx))
		}
	}
}

type observerFunc func(event.Event)

func (f observerFunc) Observe(_ context.Context, e event.Event) { f(e) }

// panicsOn returns an observer that panics on one type of event.
func panicsOn[T event.Event](value any) observerFunc {
	return func(e event.Event) {
		if _, ok := e.(T); ok {
			panic(value)
		}
	}
}

// A stream whose request ends in a panic, or whose goroutine ends, must send nothing more: net/http
// has reclaimed its memory, and a comment would crash the process.
func TestNoCommentAfterTheRequest(t *testing.T) {
	for _, tc := range []struct {
		name string
		tool func()
	}{
		{"panic", func() { panic("on purpose") }},
		{"end of the goroutine", func() { runtime.Goexit() }},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			srv := newServer(t, &server.Options{
				Observer: panicsOn[event.HandlerPanicked](http.ErrAbortHandler)})
			addTool(srv, "fall",
				func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
					if err := call.Notify(ctx, progress(0)); err != nil {
						t.Error(err)
					}
					tc.tool()
					return nil, nil
				})
			h := servertest.NewHandler(t, srv, serverhttp.Tune(&serverhttp.Options{},
				serverhttp.Tuning{KeepAlive: time.Second}))
			r := httptest.NewRequest("POST", "/mcp",
				strings.NewReader(body(protocol.MethodCallTool, `"name":"fall"`)))
			r.Header = headers(protocol.MethodCallTool, "fall")
			w := httptest.NewRecorder()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				h.ServeHTTP(w, r)
			}()
			<-ended
			sent := w.Body.String()
			if !strings.Contains(sent, `"progress":0`) {
				t.Fatalf("sent %q, want a notification", sent)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			wantEqual(t, "sent after the request had ended",
				strings.TrimPrefix(w.Body.String(), sent), "")
		})
	}
}
