package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// The function late returns a handler that waits for the end of its context and then returns.
func late(result protocol.Result, err error) server.Handler {
	return func(ctx context.Context, _ *server.Request) (protocol.Result, error) {
		<-ctx.Done()
		return result, err
	}
}

func TestTimeout(t *testing.T) {
	asks := &protocol.InputRequiredResult{RequestState: protocol.StateText("s")}
	tests := []struct {
		name   string
		result protocol.Result
		err    error
		want   string
	}{
		{"result", server.Text("done"), nil, "done"},
		{"question", asks, nil, "*protocol.InputRequiredResult"},
		{"tool error", server.ErrorText("query: deadline"), nil,
			"isError timed out after 5s query: deadline"},
		{"handler error", nil, protocol.Errorf(protocol.CodeHandlerError, "query failed"),
			`23224 timed out after 5s {"timeoutMs":5000,"error":"query failed"}`},
		{"context error", nil, fmt.Errorf("query: %w", context.DeadlineExceeded), `23224 timed out after 5s {"timeoutMs":5000}`},
		{"other plain error", nil, errors.New("disk full"), "disk full"},
		{"protocol error", nil, protocol.Errorf(protocol.CodeInvalidParams, "no such row"),
			"-32602 no such row "},
		{"nil tool result", (*protocol.CallToolResult)(nil), nil, "nil"},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			started := time.Now()
			result, err := run(middleware.Timeout(5*time.Second), toolCall(),
				late(tt.result, tt.err))
			wantEqual(t, "took", time.Since(started), 5*time.Second)
			wantEqual(t, "the result", spell(result, err), tt.want)
		})
	}
}

func spell(result protocol.Result, err error) string {
	if e, ok := protocol.AsError(err); ok {
		return fmt.Sprintf("%d %s %s", e.Code, e.Message, string(e.Data))
	}
	if err != nil {
		return err.Error()
	}
	r, ok := result.(*protocol.CallToolResult)
	if !ok {
		return fmt.Sprintf("%T", result)
	}
	if r == nil {
		return "nil"
	}
	text := ""
	if r.IsError {
		text = "isError"
	}
	for _, c := range r.Content {
		if text != "" {
			text += " "
		}
		text += c.(*protocol.TextContent).Text
	}
	return text
}

func TestTimeoutLeavesResultsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := server.ErrorText("shared")
		_, err := run(middleware.Timeout(time.Second), toolCall(), late(shared, nil))
		noError(t, err)
		wantEqual(t, "the handler's own result became", spell(shared, nil), "isError shared")
	})
}

func TestTimeoutInTime(t *testing.T) {
	want := server.ErrorText("at once")
	got, err := run(middleware.Timeout(time.Hour), toolCall(), returns(want, nil))
	if got != protocol.Result(want) || err != nil {
		t.Errorf("got %v, %v, want the handler's result", got, err)
	}
}

func TestTimeoutIsNotTheCallers(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h := middleware.Timeout(time.Hour)(late(nil, context.Canceled))
	if _, err := h(ctx, toolCall()); err != context.Canceled {
		t.Errorf("a caller that left got %v", err)
	}
}

func TestTimeoutIsAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, middleware.Timeout(time.Second))
		addTool(r.Server, "slow", func(ctx context.Context, _ input) (toolOutcome, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if response := r.call("slow", ""); response.Error != nil {
			t.Fatalf("a tool's timeout is %v, want an error result", response.Error)
		}
		r.wantValue(1, "rondo_requests_total", "method", "tools/call", "outcome", "timeout")
		wantFields(t, r.entry("mcp.request"), map[string]any{"outcome": "timeout"})
	})
}

func TestCancelledIsAnOutcome(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.raw(ctx, protocol.MethodCallTool, params(allCapabilities, `"name":"fail"`))
	r.raw(ctx, protocol.MethodCallTool, params(allCapabilities, `"name":"echo"`))
	r.wantValue(1, "rondo_requests_total", "outcome", "cancelled")
	r.wantValue(1, "rondo_requests_total", "outcome", "complete")
}

// A handler that polls its context sees the limit, and so does one that waits late.
func TestTimeoutIsSeenWithoutWaiting(t *testing.T) {
	tests := []struct {
		name  string
		ended func(ctx context.Context) bool
	}{
		{"Err", func(ctx context.Context) bool {
			return errors.Is(ctx.Err(), context.DeadlineExceeded)
		}},
		{"Cause", func(ctx context.Context) bool {
			return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
		}},
		{"Done", func(ctx context.Context) bool {
			synctest.Wait()
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		}},
		{"derived", func(ctx context.Context) bool {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			synctest.Wait()
			return derived.Err() != nil &&
				errors.Is(context.Cause(derived), context.DeadlineExceeded)
		}},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			result, err := run(middleware.Timeout(5*time.Second), toolCall(),
				func(ctx context.Context, _ *server.Request) (protocol.Result, error) {
					for _, want := range []bool{false, false, true} {
						wantEqual(t, fmt.Sprintf("at %v: ended", time.Now()),
							tt.ended(ctx), want)
						time.Sleep(2500 * time.Millisecond)
					}
					return server.ErrorText("query: late"), nil
				})
			const want = "isError timed out after 5s query: late"
			wantEqual(t, "the result", spell(result, err), want)
		})
	}
	bubble(t, "never", func(t *testing.T) {
		result, err := run(middleware.Timeout(5*time.Second), toolCall(),
			func(context.Context, *server.Request) (protocol.Result, error) {
				time.Sleep(6 * time.Second)
				return server.ErrorText("late"), nil
			})
		wantEqual(t, "the result", spell(result, err), "isError timed out after 5s late")
	})
}
