package natsbus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestPartition cuts one server, and the replica on it, off from the other two.
// No answer gets lost in silence, none is taken twice, nothing waits longer
// than it may, and when the network is whole again so is the bus.
func TestPartition(t *testing.T) {
	t.Parallel()
	c := natstest.StartWiredCluster(t, 3)
	opts := &natsbus.Options{Lease: natsbus.MinLease, Timeout: 2 * time.Second}
	// The bucket is made with patience, and used without.
	patient := &natsbus.Options{Timeout: natstest.Patience}
	open(t, natstest.Connect(t, c.Servers[0].ClientURL()), patient)
	var rs []*replica
	for i, name := range []string{"ada", "bob", "eve"} {
		// which stays with its server
		rs = append(rs, newReplica(t, name, c.Servers[i:i+1], 0, opts))
	}
	near, far := rs[0].ask(t), rs[2].ask(t)

	c.Isolate(2)
	alone := func() bool { return c.Routed(2) == 0 && c.Routed(0) == 1 }
	natstest.Eventually(t, "the server is alone", alone)

	// Nobody can tell whether the other side lives, so nobody says that it is gone, also
	// when its lease has ended.
	for end := time.Now().Add(2 * natsbus.MinLease); time.Now().Before(end); {
		for q, r := range map[*question]*replica{far: rs[1], near: rs[2]} {
			bounded(t, "a reply to the other side", func() {
				d, err := r.answerWithin(time.Second, q, "over there")
				if d != elicitation.Unknown || err == nil ||
					errors.Is(err, elicitation.ErrOwnerDead) {
					t.Errorf("the reply is %v, %v; want an error that leaves it open", d, err)
				}
			})
		}
	}
	bounded(t, "a question on the far side", func() {
		rs[2].accepted(t, rs[2].ask(t), "there")
	})
	if !near.pending() || !far.pending() {
		t.Error("a question ended")
	}
	// On its own side each question can be answered.
	rs[1].acceptedAtLast(t, "the majority works", near, "here")

	c.Rejoin(2)
	rs[0].acceptedAtLast(t, "the far question is answered from the near side", far, "at last")
	natstest.Eventually(t, "the far side asks again", func() bool {
		q, call, err := rs[2].try()
		if err != nil {
			return false
		}
		defer call.End()
		d, err := rs[1].answerWithin(attemptTime, q, "again")
		return d == elicitation.Accepted && err == nil
	})
}

// bounded wants f to end soon.
func bounded(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > natstest.Patience/2 {
		t.Errorf("%s took %v", what, took)
	}
}
