package gosdk_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/callctx"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A mistake that the adapter finds before the funnel runs reaches the test kit, as those do that
// the funnel finds, whatever the observer is.
func TestMistakesOfTheInstallationReachTheTestKit(t *testing.T) {
	server, said := askTwice(), make(chan string, 10)
	a := newAdapter(t, &gosdk.Options{Options: roundtrip.Options{Observer: event.Discard}})
	if err := a.Install(server); err != nil {
		t.Fatal(err)
	}
	behind := httptest.NewUnstartedServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true}))
	behind.Config.BaseContext = func(net.Listener) context.Context {
		return callctx.With(context.Background(), func(err error) { said <- err.Error() })
	}
	behind.Start()
	t.Cleanup(behind.Close)
	_, err := dialSDK(t, sure(t), false, modern,
		&mcp.StreamableClientTransport{Endpoint: behind.URL}).do(within(t), "t")
	if err == nil {
		t.Error("the call was served")
	}
	select {
	case reason := <-said:
		if !strings.Contains(reason, "Handler") {
			t.Errorf("got %q", reason)
		}
	default:
		t.Error("the kit was told nothing")
	}
}
