package natsguard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A removeWatcher calls removed when the server has removed a key, before the caller of
// PublishMsg knows.
type removeWatcher struct {
	jetstream.JetStream
	removed func()
}

func (w *removeWatcher) PublishMsg(
	ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt,
) (*jetstream.PubAck, error) {
	ack, err := w.JetStream.PublishMsg(ctx, m, opts...)
	if err == nil && len(m.Data) > 1 && m.Data[1] == 4 { // a released claim
		w.removed()
	}
	return ack, err
}

// TestClaimDuringRelease can be committed: the release that frees the state is not about the
// claim that comes next.
func TestClaimDuringRelease(t *testing.T) {
	ctx := t.Context()
	w := &removeWatcher{
		JetStream: natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL()),
	}
	g := newGuard(t, w, nil)
	w.removed = func() {
		if err := g.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
			t.Error(err)
		}
	}
	if err := g.Claim(ctx, "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := g.Release(ctx, "id"); err != nil {
		t.Fatal(err)
	}
	if err := g.Commit(ctx, "id", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	if got := spent(t, g.Claim(ctx, "id", "", print1, inAnHour())); string(got) != "outcome" {
		t.Errorf("outcome %q", got)
	}
}

// A crampedServer refuses values that are longer than most, while most is positive.
type crampedServer struct {
	jetstream.JetStream
	most int
}

func (s *crampedServer) PublishMsg(
	ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt,
) (*jetstream.PubAck, error) {
	if s.most > 0 && len(m.Data) > s.most {
		return nil, &jetstream.APIError{
			Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded",
		}
	}
	return s.JetStream.PublishMsg(ctx, m, opts...)
}

// TestUnrecordedOutcomesUseNoShare: outcomes for which there was no room do not keep later
// ones from being recorded.
func TestUnrecordedOutcomesUseNoShare(t *testing.T) {
	ctx := t.Context()
	js := &crampedServer{
		JetStream: natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL()),
	}
	g := newGuard(t, js, small())
	outcome := make([]byte, 1<<10)
	js.most = len(outcome) / 2
	for i := range 70 { // 70 units of the 128 that outcomes may use, and 140 for the outcomes
		id := fmt.Sprint("id", i)
		if i == 69 {
			js.most = 0
		}
		if err := g.Claim(ctx, id, "ann", print1, inAnHour()); err != nil {
			t.Fatal(err)
		}
		if err := g.Commit(ctx, id, outcome); err != nil {
			t.Fatal(err)
		}
		got := spent(t, g.Claim(ctx, id, "ann", print1, inAnHour()))
		if wasRecorded := got != nil; wasRecorded != (i == 69) {
			t.Errorf("the outcome of %s is recorded: %t", id, wasRecorded)
		}
	}
}

// TestClaimOfADeadReplica counts as running for two minutes and is spent after that.
func TestClaimOfADeadReplica(t *testing.T) {
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	relay := &natstest.Relay{}
	dead := newGuard(t, natstest.Connect(t, url), nil)
	g := newGuard(t, relay.Connect(t, url), nil)
	if err := dead.Claim(t.Context(), "id", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		age     time.Duration
		running bool
	}{{0, true}, {time.Minute, true}, {2 * time.Minute, false}} {
		relay.Aged.Store(int64(test.age))
		err := g.Claim(t.Context(), "id", "", print1, inAnHour())
		if spent(t, err) != nil || isRunning(err) != test.running {
			t.Errorf("after %v: %v, running %t", test.age, err, isRunning(err))
		}
	}
}

// smallBucket creates a bucket that keeps a number of messages, and returns how to change the
// number.
func smallBucket(t *testing.T, js jetstream.JetStream, messages int64) (resize func(int64)) {
	t.Helper()
	config := jetstream.StreamConfig{
		Name:     "KV_" + natsguard.DefaultBucket,
		Subjects: []string{"$KV." + natsguard.DefaultBucket + ".>"}, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowRollup: true,
		MaxBytes: 512 << 10, MaxMsgs: messages,
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return func(messages int64) {
		config.MaxMsgs = messages
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusedClaimsUseNoShare: who tries again while the bucket is full has the whole share
// when there is room.
func TestRefusedClaimsUseNoShare(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	resize := smallBucket(t, js, 2) // the count of ann and one claim
	g := newGuard(t, js, nil)
	n := 0
	claim := func() error {
		n++
		return g.Claim(t.Context(), fmt.Sprint("id", n), "ann", print1, inAnHour())
	}
	if err := claim(); err != nil {
		t.Fatal(err)
	}
	for range 2 * smallShare {
		exceeded(t, claim(), "guard", "server")
	}
	resize(10)
	if err := claim(); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

// TestRefusedStatesUseNoShare is the same for states.
func TestRefusedStatesUseNoShare(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	resize := smallBucket(t, js, 2)
	s, err := natsguard.NewStateStore(t.Context(), js,
		&natsguard.Options{Bucket: natsguard.DefaultBucket})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	put := func() error {
		n++
		return s.Put(t.Context(), fmt.Sprint("id", n), "ann", []byte("state"), inAnHour())
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	for range 2 * smallShare {
		exceeded(t, put(), "store", "server")
	}
	resize(10)
	if err := put(); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

// TestPartOfAStateUsesItsShare: of a state that does not fit, the parts that were stored
// count.
func TestPartOfAStateUsesItsShare(t *testing.T) {
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	stream := "KV_" + natsguard.DefaultBucket
	config := jetstream.StreamConfig{
		Name: stream, Subjects: []string{"$KV." + natsguard.DefaultBucket + ".>"},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowMsgTTL: true,
		AllowRollup: true, MaxBytes: 512 << 10, MaxMsgs: 2, MaxMsgSize: 4 << 10,
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s, err := natsguard.NewStateStore(t.Context(), js,
		&natsguard.Options{Bucket: natsguard.DefaultBucket, Share: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	state, ctx := make([]byte, 8<<10), t.Context() // 16 units and some for its parts, of 32
	exceeded(t, s.Put(ctx, "id1", "ann", state, inAnHour()), "store", "server")
	exceeded(t, s.Put(ctx, "id2", "ann", state, inAnHour()), "store", "principal")
}

// TestClaimForEver is remembered longer than a moment: the time to live does not overflow.
func TestClaimForEver(t *testing.T) {
	const longest = 1<<63 - 1
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	g := newGuard(t, js, &natsguard.Options{Longest: longest})
	until := time.Now().Add(longest)
	if err := g.Claim(t.Context(), "id", "", print1, until); err != nil {
		t.Fatal(err)
	}
	// The server counts the time to live in real seconds, so no fake clock helps.
	const poll = 50 * time.Millisecond
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-time.After(poll) {
		err := g.Claim(t.Context(), "id", "", print1, until)
		if _, ok := errors.AsType[*store.SpentError](err); !ok {
			t.Fatalf("claimed again: %v", err)
		}
	}
}
