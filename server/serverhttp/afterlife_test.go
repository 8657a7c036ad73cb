package serverhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// observerFunc is an observer.
type observerFunc func(roundtrip.Event)

func (f observerFunc) Observe(_ context.Context, event roundtrip.Event) { f(event) }

// TestNoCommentAfterTheRequest: a stream whose request ends in a panic that
// is passed on, here an observer's, or with its goroutine, sends nothing more. Net/http has taken its memory back by then, and a comment would bring
// the process down.
func TestNoCommentAfterTheRequest(t *testing.T) {
	for _, tc := range []struct {
		name string
		tool func()
	}{
		{"panic", func() { panic("on purpose") }},
		{"end of the goroutine", func() { runtime.Goexit() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, err := server.New(&server.Options{Observer: observerFunc(func(event roundtrip.Event) {
					if _, ok := event.(roundtrip.HandlerPanicked); ok {
						panic(http.ErrAbortHandler)
					}
				})})
				if err != nil {
					t.Fatal(err)
				}
				server.AddRawTool(srv, server.Tool{Name: "fall"}, func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
					if err := call.Notify(ctx, progress(0)); err != nil {
						t.Error(err)
					}
					tc.tool()
					return nil, nil
				})
				h := serverhttp.New(srv, &serverhttp.Options{KeepAlive: time.Second})
				r := httptest.NewRequest("POST", "/mcp", strings.NewReader(body(protocol.MethodCallTool, `"name":"fall"`)))
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
				if late := strings.TrimPrefix(w.Body.String(), sent); late != "" {
					t.Errorf("sent %q after the request had ended", late)
				}
			})
		})
	}
}
