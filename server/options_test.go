package server_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// 0 is the default, and a negative number disables a feature.
func TestNumbersOfOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"PageSize": false, "ListTTL": false, "MaxSubscriptions": false,
	}, func(opts *server.Options) error {
		_, err := server.New(opts)
		return err
	})
}

func TestNumbersOfStreamOptions(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	servertest.CheckNumberFields(t, map[string]bool{
		"MaxLineBytes": false, "MaxInFlight": false, "Grace": false,
	}, func(opts *server.StreamOptions) error {
		return newHarness(t, nil).ServeStream(t.Context(), strings.NewReader(ping),
			io.Discard, opts)
	})
}

// A negative MaxSubscriptions limits no principal either.
func TestSubscriptionsWithoutLimit(t *testing.T) {
	listens(t, &server.Options{MaxSubscriptions: -1}, func(t *testing.T, h *harness) {
		ctx, cancel := context.WithCancel(server.WithPrincipal(t.Context(), guest))
		defer cancel()
		for i := range 10_000 + 1 {
			acknowledged := make(chan struct{})
			go func() {
				_, _ = h.Handle(ctx, &protocol.Request{ID: protocol.IntID(int64(i)),
					Method: protocol.MethodListen,
					Params: []byte("{" + goodMeta + `,"notifications":{}}`)},
					signalBack(acknowledged))
			}()
			<-acknowledged
		}
	})
}

type signalBack chan struct{}

func (b signalBack) Notify(context.Context, *protocol.Notification) error {
	close(b)
	return nil
}

type ignoresEvents struct{}

func (ignoresEvents) Observe(context.Context, event.Event) {}

func TestOneObserver(t *testing.T) {
	_, err := server.New(&server.Options{Roundtrip: roundtrip.Options{Observer: ignoresEvents{}}})
	if err == nil || !strings.Contains(err.Error(), "Roundtrip.Observer: ") {
		t.Errorf("got %v, want an error that names Roundtrip.Observer", err)
	}
}
