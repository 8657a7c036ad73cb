package serverhttp

import (
	"cmp"
	"context"
	"net/http"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// recoverPanic recovers panics of hooks in [Options] and of wrapped response writers. The client
// gets an internal error, or a broken connection if its response has begun.
func (h *Handler) recoverPanic(rw *responseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	p := event.HandlerPanicked{Value: v, Stack: debug.Stack()}
	reportPanicOrAbort(r.Context(), p)
	h.srv.Report(r.Context(), p)
	if rw.hasBegun() {
		panic(http.ErrAbortHandler)
	}
	rw.writeFault(&fault{status: http.StatusInternalServerError, id: rw.id,
		err: rules.InternalError()})
}

// reportPanicOrAbort is logPanic, but passes [http.ErrAbortHandler] on to net/http.
func reportPanicOrAbort(ctx context.Context, p event.HandlerPanicked) {
	if p.Value == http.ErrAbortHandler {
		panic(p.Value)
	}
	logPanic(ctx, p)
}

// logPanic logs a panic like net/http, because the observer itself may have panicked.
func logPanic(ctx context.Context, p event.HandlerPanicked) {
	hs, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	if !ok || hs.ErrorLog == nil || p.Value == http.ErrAbortHandler {
		return
	}
	hs.ErrorLog.Printf("serverhttp: panic serving %s: %v\n%s", cmp.Or(p.Method, "HTTP"), p.Value,
		p.Stack)
}
