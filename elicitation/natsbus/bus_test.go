package natsbus_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bustest"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// mortal is a bus that can be killed: its connection closes, and nothing else
// is done.
type mortal struct {
	*natsbus.Bus
	nc *nats.Conn
}

func (m mortal) Kill() { m.nc.Close() }

func open(t testing.TB, js jetstream.JetStream, opts *natsbus.Options) mortal {
	t.Helper()
	b, err := natsbus.New(t.Context(), js, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return mortal{b, js.Conn()}
}

func TestBus(t *testing.T) {
	bustest.RunBus(t, func(t *testing.T) (a, b elicitation.Bus) {
		url := natstest.Start(t, t.TempDir(), 0).ClientURL()
		opts := &natsbus.Options{Lease: natsbus.MinLease}
		return open(t, natstest.Connect(t, url), opts), open(t, natstest.Connect(t, url), opts)
	})
}
