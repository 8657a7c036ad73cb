package natsbus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natskv"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestStartBeforeTheConnectionStands waits for it: nothing is known of the server before.
func TestStartBeforeTheConnectionStands(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	wire := natstest.NewWire(t, strings.TrimPrefix(url, "nats://"))
	wire.Cut()
	js := natstest.Connect(t, "nats://"+wire.Address(), nats.RetryOnFailedConnect(true))
	brief := &natsbus.Options{Timeout: 50 * time.Millisecond}
	if _, err := natsbus.New(t.Context(), js, brief); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("without a connection: %v, want %v", err, nats.ErrDisconnected)
	}
	wire.Mend()
	b, err := natsbus.New(t.Context(), js, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestNewDirectoryWithTwin is reported when the directory was lost and replicas have created it
// twice.
func TestNewDirectoryWithTwin(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	js := natstest.Connect(t, url)
	twins := make(chan error, 1)
	listening(t, js, &natsbus.Options{
		Lease: natsbus.MinLease, Timeout: time.Second,
		Failed: func(err error) {
			if errors.Is(err, natskv.ErrTwin) {
				select {
				case twins <- err:
				default:
				}
			}
		},
	})
	stream := "KV_" + natsbus.DefaultBucket
	nc := natstest.Connect(t, url).Conn()
	_, err := nc.Subscribe("$KV."+natsbus.DefaultBucket+".>", func(m *nats.Msg) {
		if m.Header.Get("Nats-Expected-Stream") != stream {
			_ = m.Respond([]byte("{}"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	select {
	case <-twins:
	case <-time.After(natstest.Patience):
		t.Error("nobody has heard of the second stream")
	}
}
