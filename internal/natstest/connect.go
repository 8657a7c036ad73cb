package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Connect returns JetStream over a connection of its own, which closes at the
// end of the test. It reconnects quickly and for ever, and is silent about
// errors that happen aside; opts may change that.
func Connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	opts = append([]nats.Option{nats.ReconnectWait(20 * time.Millisecond), nats.MaxReconnects(-1), silent}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
