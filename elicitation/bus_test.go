package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bustest"
	"github.com/rondo-mcp/rondo/protocol"
)

// fleet is three routers on one hub.
func fleet(t *testing.T) (rigs [3]*rig, buses [3]elicitation.Bus) {
	hub := elicitation.NewHub()
	for i := range rigs {
		buses[i] = hub.Bus()
		rigs[i] = newRig(t, elicitation.Options{Bus: buses[i]})
		t.Cleanup(func() { buses[i].Close() })
	}
	return rigs, buses
}

// A reply may arrive at any replica: the one that asked decides.
func TestReplyAtAnotherReplica(t *testing.T) {
	rigs, _ := fleet(t)
	s, offered, outcome := rigs[0].offered()
	id := offered.Request().ID
	for _, test := range []struct {
		from  elicitation.Sender
		reply string
		want  elicitation.Disposition
	}{
		{elicitation.Sender{Session: "s2", Principal: alice()}, yes, elicitation.WrongSession},
		{elicitation.Sender{Session: "s1", Principal: bob()}, yes, elicitation.WrongPrincipal},
		{s.Sender(), `{"action":"accept","content":{"ok":true,"n":9007199254740993}}`, elicitation.Accepted},
	} {
		rigs[1].complete(test.from, result(id, test.reply), test.want)
	}
	if outcome.Result == nil || string(outcome.Result.Content) != `{"ok":true,"n":9007199254740993}` {
		t.Errorf("outcome is %+v", outcome)
	}
	rigs[2].complete(s.Sender(), result(id, yes), elicitation.Unknown) // released
	rigs[0].complete(s.Sender(), result(id, yes), elicitation.Duplicate)
	rigs[2].complete(s.Sender(), result(protocol.StringID(strings.Repeat("0", 32)), yes),
		elicitation.Unknown)
	rigs[2].complete(s.Sender(), result(protocol.IntID(1), yes), elicitation.Unknown)
	rigs[0].settled()
}

func TestErrorAndProgressAtAnotherReplica(t *testing.T) {
	rigs, _ := fleet(t)
	s, offered, outcome := rigs[0].offered()
	id := offered.Request().ID
	if d, err := rigs[1].HandleProgress(t.Context(), s.Sender(),
		progress(id, 1)); d != elicitation.Accepted || err != nil {
		t.Errorf("progress is %v, %v", d, err)
	}
	if d, err := rigs[1].HandleProgress(t.Context(), s.Sender(),
		progress(protocol.IntID(3), 1)); d != elicitation.Unknown || err != nil {
		t.Errorf("progress of something else is %v, %v", d, err)
	}
	rigs[1].complete(s.Sender(), &protocol.Response{ID: id,
		Error: protocol.Errorf(-32000, "no display")}, elicitation.Accepted)
	refused(t, outcome.Err, elicitation.ReasonClientError, -32000, "no display")
}

func TestOwnerGone(t *testing.T) {
	rigs, buses := fleet(t)
	s, offered, _ := rigs[0].offered()
	buses[0].Close()
	began := time.Now()
	d, err := rigs[1].HandleReply(t.Context(), s.Sender(), result(offered.Request().ID, yes))
	if d != elicitation.Unknown || !errors.Is(err, elicitation.ErrOwnerDead) ||
		time.Since(began) > time.Second {
		t.Errorf("reply is %v, %v after %v", d, err, time.Since(began))
	}
	_, err = offered.Call().Offer(t.Context(), form("m"), nil, func(elicitation.Outcome) {})
	refused(t, err, elicitation.ReasonBus, -32603,
		"The other replicas of the gateway cannot be reached")
	offered.Cancel()
	rigs[0].settled()
}

func TestURLCompletionAtAnotherReplica(t *testing.T) {
	rigs, buses := fleet(t)
	stream := &screen{t: t}
	s := rigs[0].attach(elicitation.SessionInfo{ID: "s1", Notify: stream})
	call := rigs[0].begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(rigs[0].answers(s, `{"action":"accept"}`)), "up")
	defer call.End()
	for _, id := range []string{"1", "2", "3"} {
		if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", id),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	rigs[1].wantCompletion("up", "1", elicitation.Accepted)
	rigs[1].wantCompletion("up", "1", elicitation.Unknown)
	rigs[1].wantCompletion("other", "1", elicitation.Unknown)
	if n := len(stream.frames); n != 1 {
		t.Errorf("the session got %d frames, want 1", n)
	}
	stream.fail = errors.New("gone")
	if d, err := rigs[2].HandleURLCompletion(t.Context(), "up", "2"); d != elicitation.Expired ||
		!errors.Is(err, elicitation.ReasonDelivery) {
		t.Errorf("a delivery that fails is %v, %v", d, err)
	}
	if err := rigs[0].Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	rigs[1].wantCompletion("up", "3", elicitation.Unknown)
	if err := buses[1].Claim(t.Context(), "q.unrelated", time.Minute); err != nil {
		t.Error(err)
	}
}

// A router says no more on the bus than it must, whatever it is sent.
func TestMalformedBusMessages(t *testing.T) {
	hub := elicitation.NewHub()
	mine, theirs := hub.Bus(), hub.Bus()
	r := newRig(t, elicitation.Options{Bus: mine})
	if _, err := elicitation.New(&elicitation.Options{Bus: mine}); err == nil {
		t.Error("two routers share one end of a bus")
	}
	s, offered, _ := r.offered()
	other, err := offered.Call().Offer(t.Context(), form("m"), nil, func(elicitation.Outcome) {})
	if err != nil {
		t.Fatal(err)
	}
	id := offered.Request().ID.String()
	key := "q." + id[1:len(id)-1]
	frame := `{"jsonrpc":"2.0","id":` + other.Request().ID.String() + `,"result":` + yes + `}`
	for _, message := range []string{
		``, `null`, `[]`, `{}`, `{"do":"complete"}`, `{"do":"complete","frame":null}`, `{"do":"complete","frame":{"jsonrpc":"2.0","method":"x"}}`,
		`{"do":"progress","frame":1}`, `{"do":"visited"}`, `{"do":"stop"}`, "\xff",
		// The key of one question does not open another.
		`{"do":"complete","session":"s1","issuer":"https://id.example","subject":"alice","frame":` + frame + `}`,
	} {
		if answer, err := theirs.Send(t.Context(), key, []byte(message)); err != nil || strings.Contains(string(answer), `"disposition":1`) {
			t.Errorf("%s: %s, %v", message, answer, err)
		}
	}
	if n := r.Pending(); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
	r.complete(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted)
	other.Cancel()
	r.settled()
}

// A bus that does not answer refuses the question in bounded time.
func TestStuckBusHoldsUpAQuestionBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{Bus: stuckBus{}})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(&screen{t: t}), "up")
		defer call.End()
		began := time.Now()
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ReasonBus, -32603,
			"The other replicas of the gateway cannot be reached")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		r.wantEvents("rejected")
		r.settled()
	})
}

type stuckBus struct{ elicitation.Bus }

func (stuckBus) Listen(func(context.Context, string, []byte) []byte) error { return nil }

func (stuckBus) Release(string) {}

func (stuckBus) Claim(ctx context.Context, _ string, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestHub(t *testing.T) {
	bustest.RunBus(t, func(*testing.T) (a, b elicitation.Bus) {
		hub := elicitation.NewHub()
		return hub.Bus(), hub.Bus()
	})
}

// The owner of a key acts on messages about that key alone.
func TestBusMessageForAnotherKey(t *testing.T) {
	hub := elicitation.NewHub()
	owner, other := hub.Bus(), hub.Bus()
	r := newRig(t, elicitation.Options{Bus: owner})
	s, offered, _ := r.offered()
	_, second, _ := r.offerAnother(s)
	stream := &screen{t: t}
	s2 := r.attach(elicitation.SessionInfo{ID: "s2", Notify: stream})
	call := r.begin(elicitation.Origin{Session: s2}, elicitation.ViaFrames(r.answers(s2, `{"action":"accept"}`)), "up")
	defer call.End()
	if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"),
		nil); err != nil {
		t.Fatal(err)
	}
	key := "q." + strings.Trim(offered.Request().ID.String(), `"`)
	from := fmt.Sprintf(`"session":%q,"issuer":%q,"subject":%q`, s.ID(), s.Sender().Principal.Issuer, s.Sender().Principal.Subject)
	for _, message := range []string{
		fmt.Sprintf(`{"do":"complete",%s,"frame":{"jsonrpc":"2.0","id":%s,"result":%s}}`, from, second.Request().ID, yes),
		fmt.Sprintf(`{"do":"progress",%s,"frame":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}}`, from, second.Request().ID),
		`{"do":"visited","upstream":"up","visit":"1"}`,
	} {
		answer, err := other.Send(t.Context(), key, []byte(message))
		if err != nil || !strings.Contains(string(answer), fmt.Sprintf(`"disposition":%d`, elicitation.Invalid)) {
			t.Errorf("%s: %s, %v", message, answer, err)
		}
	}
	if n := len(stream.notifications("notifications/elicitation/complete")); n != 0 ||
		r.Pending() != 2 {
		t.Errorf("%d completions, %d pending", n, r.Pending())
	}
}
