package natskv_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natskv"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// startTwin starts what resembles a second stream of the bucket: answer gets what is written.
func startTwin(t *testing.T, url string, answer func(*nats.Msg)) {
	t.Helper()
	nc := natstest.Connect(t, url).Conn()
	if _, err := nc.Subscribe("$KV."+bucketName+".>", answer); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestOpenRefusesTwoStreams of one name, each of which may let another replica win a claim.
func TestOpenRefusesTwoStreams(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	js := natstest.Connect(t, url)
	startTwin(t, url, func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"stream":"KV_` + bucketName + `","seq":1}`))
	})
	for _, bucket := range []string{"new", "existing"} {
		if b, err := natskv.Open(t.Context(), js, options(js)); !errors.Is(err, natskv.ErrTwin) {
			t.Errorf("the %s bucket was opened: %v, %v", bucket, b, err)
		}
	}
}

// TestOpenLooksForTwinsLate, when all replicas that found no bucket have created one, and leaves
// nothing in the bucket.
func TestOpenLooksForTwinsLate(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	js := natstest.Connect(t, url)
	var looked atomic.Int64
	startTwin(t, url, func(*nats.Msg) { looked.Store(time.Now().UnixNano()) })
	b := openBucket(t, js, options(js))
	const least = 250 * time.Millisecond
	natstest.Eventually(t, "the replica looks for a twin", func() bool {
		return looked.Load() != 0
	})
	if after := time.Unix(0, looked.Load()).Sub(b.Created()); after < least {
		t.Errorf("looked for a twin %v after the creation, want %v at least", after, least)
	}
	stream, err := js.Stream(t.Context(), "KV_"+bucketName)
	if err != nil || stream.CachedInfo().State.LastSeq != 0 {
		t.Errorf("the search has stored something: %v", err)
	}
}

// TestOpenLooksForTwinsInFullBucket, which refuses all writes.
func TestOpenLooksForTwinsInFullBucket(t *testing.T) {
	t.Parallel()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_" + bucketName, Subjects: []string{"$KV." + bucketName + ".>"}, MaxMsgs: 1,
		Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "$KV."+bucketName+".key", nil); err != nil {
		t.Fatal(err)
	}
	openBucket(t, js, options(js))
}

// TestOpenHasTimeToLookForTwins even if each use of the bucket has less time than that takes.
func TestOpenHasTimeToLookForTwins(t *testing.T) {
	t.Parallel()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	opts := options(js)
	opts.Timeout = 300 * time.Millisecond
	openBucket(t, js, opts)
}

// TestOpenRefusesStreamWithoutKeys: a stream of the right name that does not take writes to keys
// answers none, which is not the one answer that is wanted.
func TestOpenRefusesStreamWithoutKeys(t *testing.T) {
	t.Parallel()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_" + bucketName, Subjects: []string{"other.>"},
	})
	if err != nil {
		t.Fatal(err)
	}
	opts := options(js)
	opts.Timeout = 100 * time.Millisecond
	// The error is that of the last attempt, which the end of the time may have interrupted.
	if b, err := natskv.Open(t.Context(), js, opts); err == nil {
		t.Errorf("opened %+v", b.Config())
	}
}

// TestOpenEndsWhileItLooksForTwins without a bucket that might have one.
func TestOpenEndsWhileItLooksForTwins(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	js := natstest.Connect(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	startTwin(t, url, func(*nats.Msg) { cancel() })
	if _, err := natskv.Open(ctx, js, options(js)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestOpenLooksForNoTwinsInCluster, whose leader creates one stream after the other.
func TestOpenLooksForNoTwinsInCluster(t *testing.T) {
	t.Parallel()
	url := natstest.StartCluster(t, 3)[0].ClientURL()
	startTwin(t, url, func(*nats.Msg) { t.Error("a cluster is searched for a twin") })
	js := natstest.Connect(t, url)
	openBucket(t, js, options(js))
}

// A firstLook is JetStream that lets a test act when the bucket is found for the first time.
type firstLook struct {
	jetstream.JetStream
	act  func(jetstream.Stream)
	once sync.Once
}

func (l *firstLook) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := l.JetStream.Stream(ctx, name)
	if err == nil {
		l.once.Do(func() { l.act(stream) })
	}
	return stream, err
}

// TestOpenChecksSettledBucket, and not one that was replaced meanwhile.
func TestOpenChecksSettledBucket(t *testing.T) {
	t.Parallel()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	other := jetstream.KeyValueConfig{Bucket: bucketName, Description: "of another"}
	look := &firstLook{JetStream: js, act: func(jetstream.Stream) {
		if err := js.DeleteKeyValue(t.Context(), bucketName); err != nil {
			t.Error(err)
		}
		if _, err := js.CreateKeyValue(t.Context(), other); err != nil {
			t.Error(err)
		}
	}}
	if got := openBucket(t, look, options(js)).Config().Description; got != other.Description {
		t.Errorf("opened the bucket %q", got)
	}
}

// TestOpenAfterClockWasSetBack waits no longer than for a bucket that is new.
func TestOpenAfterClockWasSetBack(t *testing.T) {
	t.Parallel()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	look := &firstLook{JetStream: js, act: func(stream jetstream.Stream) {
		info := stream.CachedInfo()
		info.TimeStamp = info.Created.Add(-time.Hour)
	}}
	openBucket(t, look, options(js))
}
