package natsbus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
		"bucket":           {natsbus.Options{Bucket: "a.b"}, "bucket"},
	} {
		if _, err := natsbus.New(t.Context(), js, &test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	small := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0, func(o *natsserver.Options) { o.MaxPayload = 1 << 10 }).ClientURL())
	if _, err := natsbus.New(t.Context(), small, nil); err == nil || !strings.Contains(err.Error(), "1024 bytes") {
		t.Errorf("small messages: %v", err)
	}
}

// TestBucketsThatWillNotDo are refused.
func TestBucketsThatWillNotDo(t *testing.T) {
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
		{"evicts", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "discard policy"},
		{"age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max age"},
		{"transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: c.Subjects[0], Destination: "other.>"}
		}, "copies or renames"},
	} {
		config := jetstream.StreamConfig{
			Name: "KV_" + test.name, Subjects: []string{"$KV." + test.name + ".>"},
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowRollup: true,
		}
		test.change(&config)
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		b, err := natsbus.New(t.Context(), js, &natsbus.Options{Bucket: test.name})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
		if err == nil {
			_ = b.Close()
		}
	}
}

// TestDocumentedPermissions has two replicas work with the permissions that the
// package comment lists, and no others.
func TestDocumentedPermissions(t *testing.T) {
	const bucket, prefix = natsbus.DefaultBucket, natsbus.DefaultPrefix
	use := []string{prefix + ".>", "$KV." + bucket + ".>", "$JS.API.STREAM.INFO.KV_" + bucket, "$JS.API.STREAM.MSG.GET.KV_" + bucket}
	user := func(name string, publish ...string) *natsserver.User {
		return &natsserver.User{Username: name, Password: "x", Permissions: &natsserver.Permissions{
			Publish:   &natsserver.SubjectPermission{Allow: publish},
			Subscribe: &natsserver.SubjectPermission{Allow: []string{"_INBOX.>", prefix + ".>"}},
		}}
	}
	url := natstest.Start(t, t.TempDir(), 0, func(o *natsserver.Options) {
		o.Users = []*natsserver.User{user("creator", append(use, "$JS.API.STREAM.CREATE.KV_"+bucket)...), user("replica", use...), user("stranger", prefix+".>")}
	}).ClientURL()
	as := func(name string, report func(error)) jetstream.JetStream {
		return natstest.Connect(t, url, nats.UserInfo(name, "x"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { report(err) }))
	}
	fail := func(err error) { t.Error(err) }
	opts := &natsbus.Options{Failed: fail}
	a, b := listening(t, as("creator", fail), opts), listening(t, as("replica", fail), opts)
	for _, end := range [][2]mortal{{a, b}, {b, a}} {
		if err := end[0].Claim(t.Context(), key, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got, err := end[1].Send(t.Context(), key, []byte("hello")); err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
		end[0].Release(key)
		natstest.Eventually(t, "the claim is released", func() bool {
			_, err := end[1].Send(t.Context(), key, nil)
			return err != nil
		})
	}
	denied := func(err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
	if _, err := natsbus.New(t.Context(), as("stranger", denied), &natsbus.Options{Timeout: natstest.Patience / 100}); err == nil {
		t.Error("a stranger is let on the bus")
	}
}
