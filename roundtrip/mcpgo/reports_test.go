package mcpgo_test

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/wire/callctx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A mistake that the adapter finds before the funnel runs reaches the test kit, as those do that
// the funnel finds, whatever the observer is.
func TestMistakesOfTheInstallationReachTheTestKit(t *testing.T) {
	a, _ := newAdapter(t)
	s, said := newHostServer(), make(chan string, 10)
	addDelete(s)
	if err := a.Install(s); err != nil {
		t.Fatal(err)
	}
	behind := httptest.NewUnstartedServer(server.NewStreamableHTTPServer(s, quiet()))
	behind.Config.BaseContext = func(net.Listener) context.Context {
		return callctx.With(context.Background(), func(err error) { said <- err.Error() })
	}
	behind.Start()
	t.Cleanup(behind.Close)
	got := post(t, behind.URL)(request{method: protocol.MethodCallTool,
		target: "delete"}.message())
	if got.Error.Code == 0 {
		t.Errorf("the call was served: %s", got.body)
	}
	select {
	case reason := <-said:
		if !strings.Contains(reason, "Adapter.Handler") {
			t.Errorf("got %q", reason)
		}
	default:
		t.Error("the kit was told nothing")
	}
}
