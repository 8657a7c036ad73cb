package elicitation_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// The function many returns calls of a hundred clients, all abandoned at the same time.
func many(r *rig) (calls []*elicitation.Call) {
	for i := range 100 {
		s := r.attach(elicitation.SessionInfo{ID: fmt.Sprint("s", i)})
		calls = append(calls, r.abandon(elicitation.Origin{Session: s}, "up"))
	}
	return calls
}

func TestAbandonedCallsEndWhenTheUpstreamIsDone(t *testing.T) {
	for _, test := range []struct {
		name  string
		first func(r *rig, o elicitation.Origin) // leaves abandoned calls of alice on "up"
		want  bool                               // still counted
	}{
		{"not done", func(r *rig, o elicitation.Origin) { r.abandon(o, "up") }, true},
		{"done after the end", func(r *rig, o elicitation.Origin) {
			c := r.abandon(o, "up")
			c.ConfirmUpstreamEnd()
			c.ConfirmUpstreamEnd()
		}, false},
		{"one of two done, twice", func(r *rig, o elicitation.Origin) {
			r.abandon(o, "up")
			c := r.abandon(o, "up")
			c.ConfirmUpstreamEnd()
			c.ConfirmUpstreamEnd()
		}, true},
		{"both done", func(r *rig, o elicitation.Origin) {
			a, b := r.abandon(o, "up"), r.abandon(o, "up")
			a.ConfirmUpstreamEnd()
			b.ConfirmUpstreamEnd()
		}, false},
		{"done before the end", func(r *rig, o elicitation.Origin) {
			r.begin(o, byHand(), "up").ConfirmUpstreamEnd()
		}, false},
		{"on another connection",
			func(r *rig, o elicitation.Origin) { r.abandon(o, "other") }, false},
		{"of many clients at once", func(r *rig, _ elicitation.Origin) {
			for _, c := range many(r) {
				c.ConfirmUpstreamEnd()
			}
		}, false},
		{"of many clients, the last not done", func(r *rig, _ elicitation.Origin) {
			for _, c := range many(r)[1:] {
				c.ConfirmUpstreamEnd()
			}
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			ann := r.attach(elicitation.SessionInfo{ID: "alice", Principal: alice()})
			test.first(r, elicitation.Origin{Session: ann})
			s := r.attach(elicitation.SessionInfo{ID: "bob", Principal: bob()})
			sc := r.answers(s, yes)
			r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
			_, err := r.ElicitFrom(t.Context(), "up", form("m"))
			if !test.want {
				if err != nil || len(sc.requests()) != 1 {
					t.Errorf("bob was asked %d times, %v", len(sc.requests()), err)
				}
				return
			}
			refused(t, err, elicitation.ReasonAmbiguous, -32601, "No client session available")
			wantEqual(t, "questions to bob", len(sc.requests()), 0)
		})
	}
}

// A late report for a call whose count has expired must not admit questions of later calls.
func TestAbandonedCallsExpireTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "alice", Principal: alice()})
		isRefused := func() bool {
			call := r.begin(elicitation.Origin{Session: s},
				elicitation.ViaFrames(r.answers(s, yes)), "up")
			defer call.End()
			_, err := r.ElicitFrom(t.Context(), "up", form("m"))
			return errors.Is(err, elicitation.ReasonAmbiguous)
		}
		early := r.abandon(elicitation.Origin{Session: s}, "up")
		time.Sleep(5 * time.Minute)
		r.abandon(elicitation.Origin{Session: s}, "up")
		time.Sleep(9 * time.Minute)
		if !isRefused() {
			t.Error("the first call has expired before the last")
		}
		time.Sleep(time.Minute)
		if isRefused() {
			t.Error("abandoned calls count for longer than a question may last")
		}
		r.abandon(elicitation.Origin{Session: s}, "up")
		early.ConfirmUpstreamEnd()
		if !isRefused() {
			t.Error("the end of a call that has expired was taken for that of a later one")
		}
	})
}
