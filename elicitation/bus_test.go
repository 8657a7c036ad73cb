package elicitation_test

import (
	"cmp"
	"context"
	"encoding/json"
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
	if outcome.Result == nil ||
		string(outcome.Result.Content) != `{"ok":true,"n":9007199254740993}` {
		t.Errorf("outcome is %+v", outcome)
	}
	rigs[2].complete(s.Sender(), result(id, yes), elicitation.Duplicate)
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
	// It goes on to ask: replies that arrive here need no bus.
	other, err := offered.Call().Offer(t.Context(), form("m"), nil, func(elicitation.Outcome) {})
	if err != nil {
		t.Fatal(err)
	}
	rigs[0].complete(s.Sender(), result(other.Request().ID, yes), elicitation.Accepted)
	offered.Cancel()
	rigs[0].settled()
}

func TestURLCompletionAtAnotherReplica(t *testing.T) {
	rigs, buses := fleet(t)
	stream := &screen{t: t}
	s := rigs[0].attach(elicitation.SessionInfo{ID: "s1", Notify: stream})
	call := rigs[0].begin(elicitation.Origin{Session: s},
		elicitation.ViaFrames(rigs[0].answers(s, `{"action":"accept"}`)), "up")
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
	id := other.Request().ID.String()
	frame := `{"jsonrpc":"2.0","id":` + id + `,"result":` + yes + `}`
	for _, message := range []string{
		``, `null`, `[]`, `{}`, `{"do":"complete"}`, `{"do":"complete","frame":null}`,
		`{"do":"complete","frame":{"jsonrpc":"2.0","method":"x"}}`,
		`{"do":"progress","frame":1}`, `{"do":"visited"}`, `{"do":"stop"}`, "\xff",
		`{"do":"complete","session":"s2","issuer":"https://id.example","subject":"alice","frame":` +
			frame + `}`,
	} {
		answer, err := theirs.SendTo(t.Context(), mine.Name(), "q", []byte(message))
		if err != nil || strings.Contains(string(answer), `"disposition":1`) {
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

// A bus that does not answer holds up no question.
func TestStuckBusRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{Bus: stuckBus{}})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		ask := func(params json.RawMessage, limit time.Duration) {
			t.Helper()
			call := r.begin(elicitation.Origin{Session: s},
				elicitation.ViaFrames(r.answers(s, `{"action":"accept"}`)), "up")
			defer call.End()
			began := time.Now()
			if _, err := call.Elicit(t.Context(), params, nil); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > limit {
				t.Errorf("it took %v", took)
			}
		}
		ask(form("m"), 0)
		ask(urlQuestion("m", "https://id.example/", "1"), 100*time.Millisecond)
		s.Detach()
		r.settled()
	})
}

type stuckBus struct{ elicitation.Bus }

func (stuckBus) Name() string { return "stuck" }

func (stuckBus) Listen(func(context.Context, string, []byte) []byte) error { return nil }

func (stuckBus) Release(string) {}

func (stuckBus) Claim(ctx context.Context, _ string, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// A flakyBus loses messages, or the answers to them.
type flakyBus struct {
	elicitation.Bus
	lost     int // messages that do not arrive
	unheard  int // messages whose answer does not
	messages int
}

func (b *flakyBus) SendTo(ctx context.Context, name, key string, message []byte) ([]byte, error) {
	b.messages++
	if b.lost > 0 {
		b.lost--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	answer, err := b.Bus.SendTo(ctx, name, key, message)
	if b.unheard > 0 {
		b.unheard--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return answer, err
}

// A reply is sent until it is answered, and counts once.
func TestReplyIsSentAgain(t *testing.T) {
	for name, bus := range map[string]flakyBus{
		"lost":    {lost: 3},
		"unheard": {unheard: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := elicitation.NewHub()
				bus.Bus = hub.Bus()
				owner := newRig(t, elicitation.Options{Bus: hub.Bus()})
				other := newRig(t, elicitation.Options{Bus: &bus})
				s, offered, outcome := owner.offered()
				id := offered.Request().ID
				other.complete(s.Sender(), result(id, yes), elicitation.Accepted)
				if outcome.Result == nil || bus.messages != 4 {
					t.Errorf("outcome is %+v after %d messages", outcome, bus.messages)
				}
				other.complete(s.Sender(), result(id, yes), elicitation.Duplicate)
				owner.settled()
			})
		})
	}
}

// HandleReply ends with the context of the host, and after a while without one.
func TestReplyToSilentOwnerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := elicitation.NewHub()
		owner := newRig(t, elicitation.Options{Bus: hub.Bus()})
		other := newRig(t, elicitation.Options{Bus: &flakyBus{Bus: hub.Bus(), lost: 1000}})
		s, offered, _ := owner.offered()
		short, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		for _, test := range []struct {
			ctx  context.Context
			want time.Duration
		}{{short, 7 * time.Second}, {t.Context(), 30 * time.Second}} {
			began := time.Now()
			d, err := other.HandleReply(test.ctx, s.Sender(), result(offered.Request().ID, yes))
			if d != elicitation.Unknown || err == nil || errors.Is(err, elicitation.ErrOwnerDead) {
				t.Errorf("reply is %v, %v", d, err)
			}
			if took := time.Since(began); took != test.want {
				t.Errorf("it took %v, want %v", took, test.want)
			}
		}
		offered.Cancel()
		owner.settled()
	})
}

// Only ids that the keys of the fleet have sealed cause a message.
func TestForeignIDsCauseNoMessage(t *testing.T) {
	hub := elicitation.NewHub()
	counted := &flakyBus{Bus: hub.Bus()}
	owner := newRig(t, elicitation.Options{Bus: hub.Bus()})
	other := newRig(t, elicitation.Options{Bus: counted})
	foreign := newRig(t, elicitation.Options{
		Bus: elicitation.NewHub().Bus(), Keys: fleetKeys(t, "elsewhere")})
	s, offered, _ := owner.offered()
	_, elsewhere, _ := foreign.offered()
	good := strings.Trim(offered.Request().ID.String(), `"`)
	flip := map[byte]string{'A': "B"}
	changed := good[:40] + cmp.Or(flip[good[40]], "A") + good[41:]
	session, err := fleetKeys(t, "k1").Seal(t.Context(), []byte("\x02"+strings.Repeat("a", 48)))
	if err != nil {
		t.Fatal(err)
	}
	wildcard, err := fleetKeys(t, "k1").Seal(t.Context(), []byte("\x01>"+strings.Repeat("a", 16)))
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]protocol.ID{
		"another fleet": elsewhere.Request().ID,
		"changed":       protocol.StringID(changed),
		"cut":           protocol.StringID(good[:len(good)-4]),
		"extended":      protocol.StringID(good + "AAAA"),
		"wildcard":      protocol.StringID("rondo.bus.q.>"),
		"sealed":        protocol.StringID(wildcard),
		"another kind":  protocol.StringID(session),
		"former format": protocol.StringID(strings.Repeat("0", 32)),
		"number":        protocol.IntID(1),
		"empty":         protocol.StringID(""),
		"escapes":       protocol.StringID("\"\x00\n"),
		"very long":     protocol.StringID(strings.Repeat("A", 1<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			other.complete(s.Sender(), result(id, yes), elicitation.Unknown)
			if counted.messages != 0 {
				t.Error("a message was sent")
			}
		})
	}
	if d, err := other.HandleProgress(t.Context(), s.Sender(),
		progress(elsewhere.Request().ID, 1)); d != elicitation.Unknown || err != nil {
		t.Errorf("progress is %v, %v", d, err)
	}
	other.complete(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted)
	elsewhere.Cancel()
	owner.settled()
}

// Ids are opened with every key, so that keys rotate while questions are pending.
func TestFleetKeysRotate(t *testing.T) {
	hub := elicitation.NewHub()
	before := newRig(t, elicitation.Options{Bus: hub.Bus(), Keys: fleetKeys(t, "k1", "k2")})
	after := newRig(t, elicitation.Options{Bus: hub.Bus(), Keys: fleetKeys(t, "k2", "k1")})
	s, asked, _ := before.offered()
	s2, askedToo, _ := after.offered()
	after.complete(s.Sender(), result(asked.Request().ID, yes), elicitation.Accepted)
	before.complete(s2.Sender(), result(askedToo.Request().ID, yes), elicitation.Accepted)
}

// A replica that was restarted has none of the questions of the one before.
func TestRestartedOwnerIsGone(t *testing.T) {
	hub := elicitation.NewHub()
	bus := hub.Bus()
	owner := newRig(t, elicitation.Options{Bus: bus})
	other := newRig(t, elicitation.Options{Bus: hub.Bus()})
	s, offered, _ := owner.offered()
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	restarted := newRig(t, elicitation.Options{Bus: hub.Bus()})
	for _, r := range []*rig{other, restarted} {
		d, err := r.HandleReply(t.Context(), s.Sender(), result(offered.Request().ID, yes))
		if d != elicitation.Unknown || !errors.Is(err, elicitation.ErrOwnerDead) {
			t.Errorf("reply is %v, %v", d, err)
		}
	}
	offered.Cancel()
	owner.settled()
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
	s, _, _ := r.offered()
	_, second, _ := r.offerAnother(s)
	stream := &screen{t: t}
	s2 := r.attach(elicitation.SessionInfo{ID: "s2", Notify: stream})
	call := r.begin(elicitation.Origin{Session: s2},
		elicitation.ViaFrames(r.answers(s2, `{"action":"accept"}`)), "up")
	defer call.End()
	if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"),
		nil); err != nil {
		t.Fatal(err)
	}
	key := "v.0123456789abcdef0123456789abcdef"
	from := fmt.Sprintf(`"session":%q,"issuer":%q,"subject":%q`, s.ID(),
		s.Sender().Principal.Issuer, s.Sender().Principal.Subject)
	for _, message := range []string{
		fmt.Sprintf(`{"do":"complete",%s,"frame":{"jsonrpc":"2.0","id":%s,"result":%s}}`, from, second.Request().ID, yes),
		fmt.Sprintf(`{"do":"progress",%s,"frame":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}}`, from, second.Request().ID),
		`{"do":"visited","upstream":"up","visit":"1"}`,
	} {
		answer, err := other.SendTo(t.Context(), owner.Name(), key, []byte(message))
		if err != nil || !strings.Contains(string(answer),
			fmt.Sprintf(`"disposition":%d`, elicitation.Invalid)) {
			t.Errorf("%s: %s, %v", message, answer, err)
		}
	}
	if n := len(stream.notifications("notifications/elicitation/complete")); n != 0 ||
		r.Pending() != 2 {
		t.Errorf("%d completions, %d pending", n, r.Pending())
	}
}
