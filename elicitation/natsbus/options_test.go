package natsbus_test

import (
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

func TestOptions(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	for name, test := range map[string]struct {
		opts natsbus.Options
		want string
	}{
		"lease":            {natsbus.Options{Lease: time.Second}, "Lease 1s"},
		"wildcard":         {natsbus.Options{Prefix: "rondo.*"}, "Prefix"},
		"empty word":       {natsbus.Options{Prefix: "rondo..bus"}, "Prefix"},
		"dot at the end":   {natsbus.Options{Prefix: "rondo."}, "Prefix"},
		"space":            {natsbus.Options{Prefix: "ron do"}, "Prefix"},
		"negative timeout": {natsbus.Options{Timeout: -1}, "Timeout"},
		"negative copies":  {natsbus.Options{Replicas: -1}, "Replicas"},
		"negative size":    {natsbus.Options{MaxBytes: -1}, "MaxBytes"},
		"bucket":           {natsbus.Options{Bucket: "a.b"}, "bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := natsbus.New(t.Context(), js, &test.opts)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestServerOfSmallMessages is refused: the longest message would take too many
// parts.
func TestServerOfSmallMessages(t *testing.T) {
	srv := natstest.Start(t, t.TempDir(), 0, func(o *natsserver.Options) { o.MaxPayload = 1 << 10 })
	_, err := natsbus.New(t.Context(), natstest.Connect(t, srv.ClientURL()), nil)
	if err == nil || !strings.Contains(err.Error(), "1024 bytes") {
		t.Errorf("got %v", err)
	}
}
