package gosdk

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// serveSingleLeg serves a request that cannot have rounds, or a notification. The SDK calls
// handlers of completion, of subscriptions and of notifications for them, on goroutines that
// recover no panic, and dereferences what they return.
func (a *Adapter) serveSingleLeg(ctx context.Context, method string, req mcp.Request,
	next mcp.MethodHandler) (mcp.Result, error) {
	result, err := next(ctx, method, req)
	if err != nil {
		return nil, err
	}
	if isNilResult(result) {
		if strings.HasPrefix(method, "notifications/") {
			return nil, nil
		}
		a.reportEvent(ctx, event.ServerBug{Where: event.Where{Method: method},
			Err: fmt.Errorf("%s: the handler returned neither a result nor an error", method)})
		if _, ok := result.(*mcp.CompleteResult); ok && isLegacySession(req) {
			return result, nil // sent as null there
		}
		return nil, encodeError(nil)
	}
	if !a.opts.ExactWire {
		return result, nil
	}
	if hinted, ok := result.(mcp.CacheableResult); ok && isLegacySession(req) {
		return withoutCacheHints(hinted)
	}
	return result, nil
}

// reportPanic reports a panic, from within the deferred function that has recovered it.
func (a *Adapter) reportPanic(ctx context.Context, method string, v any) {
	a.reportEvent(ctx, event.HandlerPanicked{Where: event.Where{Method: method}, Value: v,
		Stack: debug.Stack()})
}

// isNilResult reports whether a result is nil, or a nil pointer.
func isNilResult(result mcp.Result) bool {
	if result == nil {
		return true
	}
	v := reflect.ValueOf(result)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
