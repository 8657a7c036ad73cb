package natsguard_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// A leader that was deposed during a partition answers reads after it, when the
// writes reach the new leader already. What it has not seen is not gone.

// impatient is for operations that must fail, after all of their time.
func impatient() *natsguard.Options { return &natsguard.Options{Timeout: time.Second} }

func TestDeposedLeaderReadsState(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	opts := &natsguard.Options{Timeout: natstest.Patience}
	owner, err := natsguard.NewStateStore(t.Context(), natstest.Connect(t, url), opts)
	if err != nil {
		t.Fatal(err)
	}
	state := bytes.Repeat([]byte("state"), natsguard.MaxState/5) // of more than one part
	if err := owner.Put(t.Context(), "id", "owner", state, inAnHour()); err != nil {
		t.Fatal(err)
	}
	for name, hidden := range map[string]string{"all": "", "a part": `.1"`} {
		t.Run(name, func(t *testing.T) {
			r := &natstest.Relay{Hidden: hidden}
			js := r.Connect(t, url)
			s, err := natsguard.NewStateStore(t.Context(), js, opts)
			if err != nil {
				t.Fatal(err)
			}
			hasty, err := natsguard.NewStateStore(t.Context(), js, impatient())
			if err != nil {
				t.Fatal(err)
			}
			for answers := range int32(6) {
				r.Behind.Store(answers)
				if got, err := s.Get(t.Context(), "id"); err != nil || !bytes.Equal(got, state) {
					t.Errorf("%s: stepping down after %d answers: got %d bytes, %v", name, answers,
						len(got), err)
				}
			}
			r.Behind.Store(math.MaxInt32)
			if _, err := hasty.Get(t.Context(), "id"); err == nil || errorsIsGone(err) {
				t.Errorf("%s: not stepping down: got %v, "+
					"want an error that leaves open whether there is a state", name, err)
			}
			r.Behind.Store(2)
			if _, err := s.Get(t.Context(), "none"); !errorsIsGone(err) {
				t.Errorf("%s: a state that there is not: %v", name, err)
			}
		})
	}
}

// TestDeposedLeaderReadsClaim never makes a claim free, however long it answers.
func TestDeposedLeaderReadsClaim(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	owner := newGuard(t, natstest.Connect(t, url), nil)
	if err := owner.Claim(ctx, "running", "", print1, inAnHour()); err != nil {
		t.Fatal(err)
	}
	if err := owner.Release(ctx, "running"); err != nil {
		t.Fatal(err)
	}
	const released = 2 // the revision of the marker
	for _, id := range []string{"running", "committed"} {
		if err := owner.Claim(ctx, id, "", print1, inAnHour()); err != nil {
			t.Fatal(err)
		}
	}
	if err := owner.Commit(ctx, "committed", []byte("outcome")); err != nil {
		t.Fatal(err)
	}
	for name, marker := range map[string]uint64{"unseen": 0, "released before": released} {
		t.Run(name, func(t *testing.T) {
			r := &natstest.Relay{Marker: marker}
			js := r.Connect(t, url)
			g := newGuard(t, js, &natsguard.Options{Timeout: natstest.Patience})
			hasty := newGuard(t, js, impatient())
			for answers := range int32(6) {
				r.Behind.Store(answers)
				spent(t, g.Claim(ctx, "running", "", print1, inAnHour()))
				r.Behind.Store(answers)
				if got := spent(t, g.Claim(ctx, "committed", "", print1,
					inAnHour())); string(got) != "outcome" {
					t.Errorf("%s: stepping down after %d answers: outcome %q", name, answers, got)
				}
			}
			r.Behind.Store(math.MaxInt32)
			unspent(t, hasty.Claim(ctx, "running", "", print1, inAnHour()))
			r.Behind.Store(2)
			if err := g.Claim(ctx, name, "", print1, inAnHour()); err != nil {
				t.Errorf("%s: a state that nobody claimed: %v", name, err)
			}
		})
	}
}

// TestDeposedLeaderRefusesCommit does not keep an outcome from being recorded.
func TestDeposedLeaderRefusesCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := natstest.Start(t, t.TempDir(), 0).ClientURL()
	other := newGuard(t, natstest.Connect(t, url), nil)
	for _, stored := range []bool{false, true} {
		r := &natstest.Relay{StoreRefused: stored}
		g := newGuard(t, r.Connect(t, url), &natsguard.Options{Timeout: natstest.Patience})
		for answers := range int32(6) {
			id := fmt.Sprint(stored, answers)
			if err := g.Claim(ctx, id, "", print1, inAnHour()); err != nil {
				t.Fatal(err)
			}
			r.Refused.Store(1 + answers/3)
			r.Behind.Store(answers)
			if err := g.Commit(ctx, id, []byte("outcome")); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			if got := spent(t, other.Claim(ctx, id, "", print1,
				inAnHour())); string(got) != "outcome" {
				t.Errorf("%s: outcome %q", id, got)
			}
			r.Refused.Store(0)
		}
	}
}
