package serverhttp

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// recoverPanic is deferred around all that is done about one HTTP request. What panics beside the
// serving of requests, which the server recovers from, is hooks of [Options] and response writers
// that others have wrapped. The request gets an internal error, unless its response has begun: half
// of one must not look like all of it.
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

// reportPanicOrAbort is told of panics on the goroutine that net/http has for a request,
// on which [http.ErrAbortHandler] is an order to break the connection.
func reportPanicOrAbort(ctx context.Context, p event.HandlerPanicked) {
	if p.Value == http.ErrAbortHandler {
		panic(p.Value)
	}
	logPanic(ctx, p)
}

// logPanic is told of panics on any goroutine and logs them where net/http
// would: it may be the observer that panics.
func logPanic(ctx context.Context, p event.HandlerPanicked) {
	hs, ok := ctx.Value(http.ServerContextKey).(*http.Server)
	if !ok || hs.ErrorLog == nil || p.Value == http.ErrAbortHandler {
		return
	}
	what := p.Method
	if what == "" {
		what = "HTTP"
	}
	hs.ErrorLog.Printf("serverhttp: panic serving %s: %v\n%s", what, p.Value, p.Stack)
}
