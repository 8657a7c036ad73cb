package natsbus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestUnsafeBucketsAreRefused holds the settings of buckets that somebody else created.
func TestUnsafeBucketsAreRefused(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	for _, test := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   string // in the error, empty: none
	}{
		{"good", func(*jetstream.StreamConfig) {}, ""},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, ""},
		{"direct", func(c *jetstream.StreamConfig) { c.AllowDirect = true }, "allow_direct"},
		{"ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "allow_msg_ttl"},
		{"history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }, "history is 2"},
		{"evicts", func(c *jetstream.StreamConfig) {
			c.Discard = jetstream.DiscardOld
		}, "discard policy"},
		{"age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max age"},
		{"queue", func(c *jetstream.StreamConfig) {
			c.Retention = jetstream.WorkQueuePolicy
		}, "retention"},
		{"interest", func(c *jetstream.StreamConfig) {
			c.Retention = jetstream.InterestPolicy
		}, "retention"},
		{"per-subject", func(c *jetstream.StreamConfig) {
			c.DiscardNewPerSubject = true
		}, "discard_new_per_subject"},
		{"async", func(c *jetstream.StreamConfig) {
			c.PersistMode = jetstream.AsyncPersistMode
		}, "before they are stored"},
		{"no-ack", func(c *jetstream.StreamConfig) { c.NoAck = true }, "does not acknowledge"},
		{"transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{
				Source: c.Subjects[0], Destination: "other.>",
			}
		}, "copies or renames"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := jetstream.StreamConfig{
				Name: "KV_" + test.name, Subjects: []string{"$KV." + test.name + ".>"},
				MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowMsgTTL: true,
				AllowRollup: true,
			}
			test.change(&config)
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			b, err := natsbus.New(t.Context(), js, &natsbus.Options{Bucket: test.name})
			if test.want == "" && err != nil ||
				test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err == nil {
				_ = b.Close()
			}
		})
	}
}

// TestStartWhileTheClusterForms waits until there are enough servers.
func TestStartWhileTheClusterForms(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	r := &natstest.Relay{}
	r.Peerless.Store(5)
	listening(t, r.Connect(t, url), nil)
	if n := r.Peerless.Load(); n > 0 {
		t.Errorf("%d refusals were not met", n)
	}
}

// TestStartWithoutLeader waits until there is one.
func TestStartWithoutLeader(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	for refusals := range int32(4) {
		r := &natstest.Relay{}
		r.Leaderless.Store(refusals)
		listening(t, r.Connect(t, url), nil)
	}
}
