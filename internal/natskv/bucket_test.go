package natskv_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natskv"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

const bucketName = "fleet"

// acceptAll is a check that refuses nothing.
func acceptAll(jetstream.StreamConfig) error { return nil }

// options say how the tests create a bucket that is not there.
func options(js jetstream.JetStream) natskv.Options {
	return natskv.Options{
		Bucket: bucketName, Timeout: natstest.Patience, Check: acceptAll,
		Create: func(ctx context.Context) error {
			_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
				Bucket: bucketName, History: 1, LimitMarkerTTL: natskv.MarkerTTL,
			})
			return err
		},
	}
}

func openBucket(t testing.TB, js jetstream.JetStream, opts natskv.Options) *natskv.Bucket {
	t.Helper()
	b, err := natskv.Open(t.Context(), js, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newBucket returns a bucket on a server of its own.
func newBucket(t testing.TB) (b *natskv.Bucket, url string) {
	t.Helper()
	url = natstest.Start(t, t.TempDir(), 0).ClientURL()
	js := natstest.Connect(t, url)
	return openBucket(t, js, options(js)), url
}

func put(t testing.TB, b *natskv.Bucket, key, value string) (revision uint64) {
	t.Helper()
	revision, err := b.Put(t.Context(), key, []byte(value), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestOpenCreatesBucketOnce(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	created, opts := 0, options(js)
	create := opts.Create
	opts.Create = func(ctx context.Context) error {
		created++
		return create(ctx)
	}
	for range 2 {
		if b := openBucket(t, js, opts); !b.Config().AllowMsgTTL {
			t.Errorf("the bucket was opened with %+v", b.Config())
		}
	}
	if created != 1 {
		t.Errorf("the bucket was created %d times, want once", created)
	}
}

// TestOpenAcceptsBucketOfAnother has another replica create the bucket, with
// other settings, after this one has found none.
func TestOpenAcceptsBucketOfAnother(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	other := jetstream.KeyValueConfig{Bucket: bucketName, Description: "of another"}
	opts := options(js)
	create := opts.Create
	opts.Create = func(ctx context.Context) error {
		if _, err := js.CreateKeyValue(ctx, other); err != nil {
			t.Error(err)
		}
		return create(ctx)
	}
	if got := openBucket(t, js, opts).Config().Description; got != other.Description {
		t.Errorf("opened the bucket %q", got)
	}
}

// A hastyPeer is JetStream at the start of a fleet: after this replica has found no bucket another
// one creates it.
type hastyPeer struct {
	jetstream.JetStream
	create func(ctx context.Context) error
	once   sync.Once
}

func (p *hastyPeer) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := p.JetStream.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		p.once.Do(func() { err = errors.Join(err, p.create(ctx)) })
	}
	return stream, err
}

// TestOpenLooksAgain before it creates a bucket: a single server that is asked by two replicas at
// the same time may make two streams of it.
func TestOpenLooksAgain(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	opts := options(js)
	peer := &hastyPeer{JetStream: js, create: opts.Create}
	opts.Create = func(context.Context) error {
		t.Error("the bucket is created, which another replica has created")
		return nil
	}
	openBucket(t, peer, opts)
}

func TestOpenRefuses(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	refusal := errors.New("refused by the test")
	for _, test := range []struct {
		name   string
		change func(*natskv.Options)
		want   error
	}{
		{"no name", func(o *natskv.Options) { o.Bucket = "" }, jetstream.ErrInvalidBucketName},
		{"dot", func(o *natskv.Options) { o.Bucket = "a.b" }, jetstream.ErrInvalidBucketName},
		{"quote", func(o *natskv.Options) { o.Bucket = `a"b` }, jetstream.ErrInvalidBucketName},
		{"umlaut", func(o *natskv.Options) { o.Bucket = "ä" }, jetstream.ErrInvalidBucketName},
		{"failed creation", func(o *natskv.Options) {
			o.Create = func(context.Context) error { return refusal }
		}, refusal},
		{"failed check", func(o *natskv.Options) {
			o.Check = func(jetstream.StreamConfig) error { return refusal }
		}, refusal},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := options(js)
			test.change(&opts)
			_, err := natskv.Open(t.Context(), js, opts)
			if !errors.Is(err, test.want) || !strings.HasPrefix(err.Error(), "bucket ") {
				t.Errorf("got %v, want %v and the name of the bucket", err, test.want)
			}
		})
	}
}

func TestOpenWaitsForALeader(t *testing.T) {
	_, url := newBucket(t)
	r := &natstest.Relay{}
	r.Leaderless.Store(3)
	js := r.Connect(t, url)
	openBucket(t, js, options(js))
	if n := r.Leaderless.Load(); n != 0 {
		t.Errorf("%d requests have not been refused", n)
	}
}

func TestConditionalWrites(t *testing.T) {
	b, _ := newBucket(t)
	ctx := t.Context()
	putAfter := func(value string, previous uint64) (uint64, error) {
		return b.PutAfter(ctx, "key", []byte(value), previous, time.Hour)
	}
	first, err := putAfter("first", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := putAfter("other", 0); !natskv.IsConflict(err) || natskv.IsTransient(err) {
		t.Errorf("a key is created twice: %v", err)
	}
	second, err := putAfter("second", first)
	if err != nil || second <= first {
		t.Fatalf("revision %d after %d, %v", second, first, err)
	}
	if _, err := putAfter("late", first); !natskv.IsConflict(err) {
		t.Errorf("a former revision is succeeded again: %v", err)
	}
	if err := b.Remove(ctx, "key", first); !natskv.IsConflict(err) {
		t.Errorf("a former revision is removed: %v", err)
	}
	found, err := b.Get(ctx, "key")
	if err != nil || found.Revision != second || string(found.Value) != "second" || found.Gone ||
		found.Stored.IsZero() {
		t.Errorf("got %+v, %v", found, err)
	}
	if err := b.Remove(ctx, "key", second); err != nil {
		t.Fatal(err)
	}
	marker, err := b.Get(ctx, "key")
	if err != nil || !marker.Gone || marker.Revision <= second {
		t.Errorf("after the removal: %+v, %v", marker, err)
	}
	if _, err := putAfter("again", marker.Revision); err != nil {
		t.Errorf("a key that was removed: %v", err)
	}
	if err := b.Remove(ctx, "key", 0); err != nil {
		t.Errorf("removing whatever there is: %v", err)
	}
}

func TestGetOfKeyNeverStored(t *testing.T) {
	b, _ := newBucket(t)
	if found, err := b.Get(t.Context(), "none"); err != nil || !found.Gone || found.Revision != 0 {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestUpdateKeepsTimeToLive, which the key-value interface of nats.go does not.
func TestUpdateKeepsTimeToLive(t *testing.T) {
	t.Parallel()
	b, _ := newBucket(t)
	revision := put(t, b, "key", "value")
	if _, err := b.PutAfter(t.Context(), "key", nil, revision, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the key expires", func() bool {
		found, err := b.Get(t.Context(), "key")
		return err == nil && found.Gone
	})
}

// TestFindBehindDeposedLeader reads through a server that has not noticed yet
// that another leads, and steps down after some answers.
func TestFindBehindDeposedLeader(t *testing.T) {
	b, url := newBucket(t)
	put(t, b, "key", "value")
	mark := func(ctx context.Context) (uint64, error) {
		return b.Put(ctx, "mark", nil, time.Hour)
	}
	for _, marker := range []uint64{0, 1} {
		r := &natstest.Relay{Marker: marker}
		js := r.Connect(t, url)
		behind := openBucket(t, js, options(js))
		for answers := range int32(5) {
			r.Behind.Store(answers)
			found, err := behind.Find(t.Context(), "key", mark)
			if err != nil || found.Gone || string(found.Value) != "value" {
				t.Errorf("stepping down after %d answers: %+v, %v", answers, found, err)
			}
		}
		r.Behind.Store(2)
		if found, err := behind.Find(t.Context(), "none", mark); err != nil || !found.Gone {
			t.Errorf("a key that is not there: %+v, %v", found, err)
		}
		r.Behind.Store(math.MaxInt32)
		ctx, cancel := context.WithTimeout(t.Context(), 10*natskv.RetryInterval)
		if found, err := behind.Find(ctx, "key", mark); err == nil {
			t.Errorf("a server that never steps down: %+v", found)
		}
		cancel()
		r.Behind.Store(0)
	}
}

// TestFindWithoutMark returns the error of the mark, and not that the key is gone.
func TestFindWithoutMark(t *testing.T) {
	b, _ := newBucket(t)
	unmarked := errors.New("no mark")
	mark := func(context.Context) (uint64, error) { return 0, unmarked }
	if found, err := b.Find(t.Context(), "none", mark); !errors.Is(err, unmarked) {
		t.Errorf("got %+v, %v", found, err)
	}
	put(t, b, "key", "value")
	if found, err := b.Find(t.Context(), "key", mark); err != nil || found.Gone {
		t.Errorf("a key that is there needs no mark: %+v, %v", found, err)
	}
}

func TestRetry(t *testing.T) {
	b, _ := newBucket(t)
	permanent := errors.New("permanent")
	for _, test := range []struct {
		name string
		errs []error // of the attempts, the last one decides
	}{
		{"success", []error{nil}},
		{"permanent error", []error{permanent}},
		{"reader behind", []error{natskv.ErrBehind, natskv.ErrChanged, nil}},
		{"lost message", []error{nats.ErrTimeout, context.DeadlineExceeded, permanent}},
		{"no leader", []error{nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
			&jetstream.APIError{ErrorCode: 10009}, nil}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := 0
			err := b.Retry(t.Context(), func() error { n++; return test.errs[n-1] })
			if want := test.errs[len(test.errs)-1]; n != len(test.errs) || err != want {
				t.Errorf("got %v after %d attempts, want %v after %d", err, n, want, len(test.errs))
			}
		})
	}
	t.Run("context that ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := b.Retry(ctx, func() error { cancel(); return natskv.ErrBehind })
		if !errors.Is(err, natskv.ErrBehind) {
			t.Errorf("got %v, want the error of the last attempt", err)
		}
	})
}

// TestRetryWithoutConnection does not attempt anything: nats.go would send it
// when the connection is back.
func TestRetryWithoutConnection(t *testing.T) {
	srv := natstest.Start(t, t.TempDir(), 0)
	js := natstest.Connect(t, srv.ClientURL())
	b := openBucket(t, js, options(js))
	attempt := func() error { t.Error("an attempt is made"); return nil }
	natstest.Stop(srv)
	disconnected := func() bool { return !js.Conn().IsConnected() }
	natstest.Eventually(t, "the connection is lost", disconnected)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Retry(ctx, attempt); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("without a connection: %v", err)
	}
	js.Conn().Close()
	if err := b.Retry(t.Context(), attempt); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
}

func TestReplicas(t *testing.T) {
	single := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	cluster := natstest.Connect(t, natstest.StartCluster(t, 3)[0].ClientURL())
	for _, test := range []struct {
		name   string
		js     jetstream.JetStream
		option int
		want   int
	}{
		{"one server", single, 0, 1},
		{"a cluster", cluster, 0, 3},
		{"as many as wanted", cluster, 2, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := natskv.Replicas(test.js, test.option); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
