package middleware_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// 0 is the default, and a negative number disables a feature.
func TestNumbersOfOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"Calls": false, "CallsPerPrincipal": false, "ArgumentBytes": false, "ResultBytes": false,
		"Timeout": false,
	}, func(opts *middleware.Options) error {
		observer, chain, err := middleware.Production(nil, nil, opts)
		if err != nil || observer == nil {
			return err
		}
		wrapped := func(next server.Handler) server.Handler {
			for _, m := range slices.Backward(chain) {
				next = m(next)
			}
			return next
		}
		_, err = run(wrapped, toolCall(), returns(server.Text("result"), nil))
		return err
	})
}

// 0 is the default, and a negative limit disables the timeout. Streams have no timeout.
func TestTimeoutCanBeOff(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		limit        time.Duration
		ends         bool
	}{
		{"default", protocol.MethodPing, 0, true}, {"off", protocol.MethodPing, -1, false},
		{"listen", protocol.MethodListen, time.Second, false},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			_, err := run(middleware.Timeout(tt.limit),
				incoming(tt.method, protocol.LocalPrincipal()),
				func(ctx context.Context, _ *server.Request) (protocol.Result, error) {
					time.Sleep(2 * time.Minute)
					wantEqual(t, "the context has ended", ctx.Err() != nil, tt.ends)
					return &protocol.EmptyResult{}, nil
				})
			noError(t, err)
		})
	}
}
