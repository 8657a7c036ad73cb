package natsguard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestUnsafeBucketsAreRefused: those that could forget an entry too early, and those
// that never forget one.
func TestUnsafeBucketsAreRefused(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	for _, test := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   string // in the error, empty: none
	}{
		{"good", func(*jetstream.StreamConfig) {}, ""},
		{"max age", func(c *jetstream.StreamConfig) {
			c.AllowMsgTTL = false
			c.MaxAge = 25 * time.Hour
		}, ""},
		{"both", func(c *jetstream.StreamConfig) { c.MaxAge = 100 * time.Hour }, ""},
		{"full", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, ""},
		{"short", func(c *jetstream.StreamConfig) { c.MaxAge = 24 * time.Hour },
			"forgets after 24h"},
		{"endless", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "grow for ever"},
		{"evicts", func(c *jetstream.StreamConfig) {
			c.Discard = jetstream.DiscardOld
			c.MaxBytes = 1 << 20
		}, "discard policy"},
		{"per subject", func(c *jetstream.StreamConfig) {
			c.DiscardNewPerSubject = true
		}, "discard_new_per_subject"},
		{"history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "history is 5"},
		{"no history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 },
			"history is -1"},
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
			"in memory"},
		{"async", func(c *jetstream.StreamConfig) {
			c.PersistMode = jetstream.AsyncPersistMode
		}, "before they are stored"},
		{"no ack", func(c *jetstream.StreamConfig) { c.NoAck = true }, "does not acknowledge"},
		{"queue", func(c *jetstream.StreamConfig) {
			c.Retention = jetstream.WorkQueuePolicy
		}, "retention"},
		{"transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{
				Source: c.Subjects[0], Destination: "other.>",
			}
		}, "copies or renames"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bucket := strings.ReplaceAll(test.name, " ", "_")
			config := jetstream.StreamConfig{
				Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"},
				MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
				AllowMsgTTL: true, AllowRollup: true, AllowDirect: true,
			}
			test.change(&config)
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"guard", "store"} {
				err := tryOpen(t, js, kind, bucket)
				if test.want == "" && err != nil ||
					test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%s: got %v, want %q", kind, err, test.want)
				}
				if err != nil && !strings.Contains(err.Error(), `bucket "`+bucket+`"`) {
					t.Errorf("%s: %v does not name the bucket", kind, err)
				}
			}
		})
	}
}

func tryOpen(t *testing.T, js jetstream.JetStream, kind, bucket string) error {
	opts := &natsguard.Options{Bucket: bucket}
	if kind == "guard" {
		_, err := natsguard.New(t.Context(), js, opts)
		return err
	}
	_, err := natsguard.NewStateStore(t.Context(), js, opts)
	return err
}

// TestMirrorsAreRefused: a claim that is read there is decided elsewhere.
func TestMirrorsAreRefused(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	newGuard(t, js, nil)
	for bucket, config := range map[string]jetstream.KeyValueConfig{
		"mirror":  {Mirror: &jetstream.StreamSource{Name: natsguard.DefaultBucket}},
		"sources": {Sources: []*jetstream.StreamSource{{Name: natsguard.DefaultBucket}}},
	} {
		config.Bucket, config.TTL = bucket, 100*time.Hour
		if _, err := js.CreateKeyValue(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		err := tryOpen(t, js, "guard", bucket)
		if err == nil || !strings.Contains(err.Error(), "copies") {
			t.Errorf("%s: got %v", bucket, err)
		}
	}
}

// TestCreatedBucket is bounded, kept in files, and forgets key by key.
func TestCreatedBucket(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	newGuard(t, js, &natsguard.Options{Bucket: "mine", MaxBytes: 12345678})
	stream, err := js.Stream(t.Context(), "KV_mine")
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.MaxBytes != 12345678 || c.Storage != jetstream.FileStorage || !c.AllowMsgTTL ||
		c.Discard != jetstream.DiscardNew || c.Replicas != 1 {
		t.Errorf("created with %+v", c)
	}
}

// TestFullBucket refuses new claims and keeps the old ones.
func TestFullBucket(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	g := newGuard(t, js, &natsguard.Options{MaxBytes: 8 << 10, Share: -1})
	ids := "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
	made := 0
	for i := range ids {
		err := g.Claim(t.Context(), ids[:i+1], "", print1, inAnHour())
		if err != nil {
			exceeded(t, err, "guard", "server")
			break
		}
		made++
	}
	if made == 0 || made == len(ids) {
		t.Fatalf("%d of %d claims fit into 8 KiB", made, len(ids))
	}
	for i := range made {
		spent(t, g.Claim(t.Context(), ids[:i+1], "", print1, inAnHour()))
	}
}

func TestInvalidBucketNamesAreRefused(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	for _, name := range []string{"a.b", "a b", "a*", "a>", "a\"b", "ä"} {
		if err := tryOpen(t, js, "guard", name); err == nil {
			t.Errorf("bucket %q is accepted", name)
		}
	}
}

// TestStartWithoutLeader waits until there is one.
func TestStartWithoutLeader(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	for refusals := range int32(4) {
		r := &natstest.Relay{}
		r.Leaderless.Store(refusals)
		newGuard(t, r.Connect(t, url), nil)
	}
}
