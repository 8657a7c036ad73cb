package natstest_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/internal/leaktest"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// soon is how long a test waits for what must not happen.
const soon = 100 * time.Millisecond

// TestWire delivers while it is whole, delays while it is blocked, and disconnects
// while it is cut.
func TestWire(t *testing.T) {
	srv := natstest.Start(t, t.TempDir(), 0)
	wire := natstest.NewWire(t, srv.Addr().String())
	far := natstest.Connect(t, "nats://"+wire.Address()).Conn()
	near := natstest.Connect(t, srv.ClientURL()).Conn()
	sub, err := near.SubscribeSync("word")
	if err != nil {
		t.Fatal(err)
	}
	if err := near.Flush(); err != nil {
		t.Fatal(err)
	}
	send := func(word string) {
		t.Helper()
		if err := far.Publish("word", []byte(word)); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(want string) {
		t.Helper()
		if m, err := sub.NextMsg(natstest.Patience); err != nil || string(m.Data) != want {
			t.Fatalf("received %v, %v; want %q", m, err, want)
		}
	}

	send("whole")
	receive("whole")
	wire.Block()
	send("blocked")
	if m, err := sub.NextMsg(soon); err == nil {
		t.Errorf("received %q over a blocked wire", m.Data)
	}
	if !far.IsConnected() {
		t.Error("a blocked wire closes connections")
	}
	wire.Mend()
	receive("blocked")

	wire.Cut()
	natstest.Eventually(t, "the connection is closed", func() bool { return !far.IsConnected() })
	if nc, err := nats.Connect("nats://"+wire.Address(), nats.Timeout(soon)); err == nil {
		nc.Close()
		t.Error("a wire that is cut accepts a connection")
	}
	wire.Mend()
	natstest.Eventually(t, "the connection is back", far.IsConnected)
	send("mended")
	receive("mended")
}

// TestWiredCluster takes servers away from a cluster and brings them back.
func TestWiredCluster(t *testing.T) {
	c := natstest.StartWiredCluster(t, 3)
	c.AwaitConnected(t)

	c.Isolate(2)
	natstest.Eventually(t, "one is alone", func() bool {
		return c.Routed(2) == 0 && c.Routed(0) == 1 && c.Routed(1) == 1
	})
	c.Rejoin(2)
	c.AwaitConnected(t)

	url := c.Servers[1].ClientURL()
	natstest.Stop(c.Servers[1])
	missing := func() bool { return c.Routed(0) == 1 && c.Routed(2) == 1 }
	natstest.Eventually(t, "one is missing", missing)
	c.Restart(t, 1)
	if got := c.Servers[1].ClientURL(); got != url {
		t.Errorf("the server comes back at %s, was at %s", got, url)
	}
	c.AwaitConnected(t)
}

func TestForExample(t *testing.T) {
	url, stop := natstest.ForExample()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	stop()
	if nc, err := nats.Connect(url, nats.Timeout(soon)); err == nil {
		nc.Close()
		t.Error("the server does not stop")
	}
}

func TestSoakTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": time.Minute, "90s": 90 * time.Second, "8m": 8 * time.Minute,
	} {
		t.Run("RONDO_SOAK="+text, func(t *testing.T) {
			t.Setenv("RONDO_SOAK", text)
			if got := natstest.SoakTime(t); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
