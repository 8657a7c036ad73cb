package natsguard_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func errorsIsGone(err error) bool { return errors.Is(err, store.ErrStateGone) }

func isSpent(err error) bool {
	_, ok := errors.AsType[*store.SpentError](err)
	return ok
}

// stores returns two replicas on one server that takes messages of 64 KiB.
func stores(t *testing.T, opts *natsguard.Options) (a, b *natsguard.StateStore) {
	t.Helper()
	srv := natstest.Start(t, t.TempDir(), 0,
		func(o *natsserver.Options) { o.MaxPayload = 64 << 10 })
	for _, s := range []**natsguard.StateStore{&a, &b} {
		var err error
		js := natstest.Connect(t, srv.ClientURL())
		if *s, err = natsguard.NewStateStore(t.Context(), js, opts); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func TestStateStore(t *testing.T) {
	ctx := t.Context()
	a, b := stores(t, nil)
	const payload = 64 << 10 // of the server
	for _, n := range []int{
		0, 1, 1000, payload - 1, payload, payload + 1, 126 << 10, 1 << 20, natsguard.MaxState,
	} {
		id := strings.Repeat(fmt.Sprintf("%08x", n), 8)
		state := bytes.Repeat([]byte{byte(n), 1, 2}, n/3+1)[:n]
		if _, err := b.Get(ctx, id); !errorsIsGone(err) {
			t.Errorf("%d bytes: before: %v", n, err)
		}
		if err := a.Put(ctx, id, "owner", state, inAnHour()); err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		got, err := b.Get(ctx, id)
		if err != nil || !bytes.Equal(got, state) {
			t.Errorf("%d bytes: %d come back, %v", n, len(got), err)
		}
		if err := b.Put(ctx, id, "owner", []byte("other"), inAnHour()); err == nil {
			t.Errorf("%d bytes: overwritten", n)
		}
	}
	if err := a.Put(ctx, "long", "owner", make([]byte, natsguard.MaxState+1),
		inAnHour()); err == nil {
		t.Error("too long a state is taken")
	}
	if err := a.Put(ctx, "late", "owner", nil, time.Now().Add(26*time.Hour)); err == nil {
		t.Error("a state is taken that the bucket may forget")
	}
}

func TestStateExpires(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b := stores(t, nil)
	until := time.Now().Add(1500 * time.Millisecond)
	if err := a.Put(ctx, "id", "owner", make([]byte, 100<<10), until); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the state expires", func() bool {
		_, err := b.Get(ctx, "id")
		if err != nil && time.Now().Before(until) {
			t.Fatalf("before its time: %v", err)
		}
		return errorsIsGone(err)
	})
}

// TestForgedStates are errors: none is returned, and none counts as gone.
func TestForgedStates(t *testing.T) {
	ctx := t.Context()
	js := natstest.Connect(t, natstest.Start(t, t.TempDir(), 0).ClientURL())
	s, err := natsguard.NewStateStore(ctx, js, nil)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(ctx, natsguard.DefaultStateBucket)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("rondo natsguard state v1\x00id"))
	first := hex.EncodeToString(sum[:])
	for _, test := range []struct{ name, first, second string }{
		{"format", "\x02\x00\x00\x00\x01x", ""},
		{"cut", "\x01\x00\x00\x00", ""},
		{"shorter than it says", "\x01\x00\x00\x00\x02x", ""},
		{"longer than it says", "\x01\x00\x00\x00\x02xyz", ""},
		{"second part too long", "\x01\x00\x00\x00\x02x", "yz"},
		{"endless", "\x01\xff\xff\xff\xffx", "y"},
	} {
		for key, value := range map[string]string{first: test.first, first + ".1": test.second} {
			if _, err := kv.Put(ctx, key, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Get(ctx, "id"); err == nil || errorsIsGone(err) {
			t.Errorf("%s: got %q, %v", test.name, got, err)
		}
	}
	if _, err := kv.Put(ctx, first, []byte("\x01\x00\x00\x00\x02x")); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(ctx, first+".1", []byte("y")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(ctx, "id"); string(got) != "xy" || err != nil {
		t.Errorf("a good one: %q, %v", got, err)
	}
}
