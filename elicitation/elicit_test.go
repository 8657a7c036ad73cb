package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestElicit(t *testing.T) {
	for _, test := range []struct {
		name, reply string
		action      protocol.ElicitAction
		content     string
	}{
		{"accept", `{"action":"accept","content":{"ok":true,"n":9007199254740993}}`, protocol.ActionAccept, `{"ok":true,"n":9007199254740993}`},
		{"decline", `{"action":"decline","content":{"ok":true}}`, protocol.ActionDecline, ""},
		{"cancel", `{"action":"cancel"}`, protocol.ActionCancel, ""},
		{"case is not folded", `{"action":"decline","Action":"accept"}`, protocol.ActionDecline, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
			sc := r.answers(s, test.reply)
			call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
			defer call.End()
			got, err := call.Elicit(t.Context(), form("Deploy?"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Action != test.action || string(got.Content) != test.content {
				t.Errorf("result is %s %s, want %s %s", got.Action, got.Content, test.action,
					test.content)
			}
			r.wantEvents("created delivered completed")
			r.settled()
			if n := r.value("elicitation_completed_total", "action", string(test.action)); n != 1 {
				t.Errorf("completed{%s} is %v, want 1", test.action, n)
			}
		})
	}
}

func TestAsker(t *testing.T) {
	refusal := protocol.Errorf(-32000, "busy").WithData(map[string]int{"k": 1})
	for _, test := range []struct {
		name   string
		ask    elicitation.AskFunc
		events string
		want   error // nil: an accept
		code   int64
	}{
		{"reports delivery", func(_ context.Context, _ elicitation.Question,
			delivered func()) (json.RawMessage, error) {
			delivered()
			delivered()
			return json.RawMessage(yes), nil
		}, "created delivered completed", nil, 0},
		{"does not", func(context.Context, elicitation.Question, func()) (json.RawMessage, error) {
			return json.RawMessage(yes), nil
		}, "created delivered completed", nil, 0}, // an answer proves delivery
		{"the client refuses", func(context.Context, elicitation.Question, func()) (json.RawMessage,
			error) {
			return nil, errors.Join(errors.New("call failed"), refusal)
		}, "created delivered error", elicitation.ReasonClientError, -32000},
		{"cannot be reached", func(context.Context, elicitation.Question, func()) (json.RawMessage,
			error) {
			return nil, errors.New("no stream")
		}, "created error", elicitation.ReasonDelivery, -32603},
		{"dies after delivery", func(_ context.Context, _ elicitation.Question,
			delivered func()) (json.RawMessage, error) {
			delivered()
			return nil, errors.New("stream closed")
		}, "created delivered error", elicitation.ReasonDelivery, -32603},
		{"nonsense", func(context.Context, elicitation.Question, func()) (json.RawMessage, error) {
			return nil, nil
		}, "created delivered error", elicitation.ReasonInvalidReply, -32603},
		{"panics", func(context.Context, elicitation.Question, func()) (json.RawMessage, error) {
			panic("lost")
		}, "created error", elicitation.ReasonDelivery, -32603},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			ask := elicitation.AskFunc(func(ctx context.Context, q elicitation.Question,
				delivered func()) (json.RawMessage, error) {
				f, ok := q.Request.(*protocol.ElicitForm)
				if !ok || f.Message != "Deploy?" || len(q.ID) != 32 {
					t.Errorf("asked %q %+v", q.ID, q.Request)
				}
				return test.ask(ctx, q, delivered)
			})
			call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaAsker(ask), "up")
			defer call.End()
			got, err := call.Elicit(t.Context(), form("Deploy?"), nil)
			if test.want == nil && (err != nil || got.Action != protocol.ActionAccept) {
				t.Errorf("result is %+v, %v", got, err)
			}
			if test.want != nil {
				wire, _ := protocol.AsError(err)
				if !errors.Is(err, test.want) || wire.Code != test.code {
					t.Errorf("error is %v, want %v with code %d", err, test.want, test.code)
				}
			}
			r.wantEvents(test.events)
			r.settled()
		})
	}
}

// The Asker's context has the values of the call and ends with the question.
func TestAskerContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		over := make(chan error, 1)
		ask := elicitation.AskFunc(func(ctx context.Context, _ elicitation.Question,
			_ func()) (json.RawMessage, error) {
			if ctx.Value(key{}) != "the tool's" {
				t.Error("the context is not the call's")
			}
			<-ctx.Done()
			over <- ctx.Err()
			return nil, ctx.Err()
		})
		call := r.beginIn(context.WithValue(t.Context(), key{}, "the tool's"),
			elicitation.Origin{Session: s}, elicitation.ViaAsker(ask), "up")
		defer call.End()
		_, err := call.Elicit(t.Context(), form("Deploy?"), nil)
		refused(t, err, elicitation.ReasonTimeout, protocol.CodeTimeout, "Elicitation timed out")
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("the Asker's context ended with %v", err)
		}
		synctest.Wait()
		r.wantEvents("created timeout")
	})
}

// A call without a Via cannot ask.
func TestElicitWithoutVia(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	call, err := r.Begin(t.Context(), elicitation.Origin{Session: s}, elicitation.Via{}, "up")
	if err != nil {
		t.Fatal(err)
	}
	defer call.End()
	_, err = call.Elicit(t.Context(), form("Deploy?"), nil)
	refused(t, err, elicitation.ReasonDelivery, protocol.CodeInternalError,
		"The client cannot be reached")
	r.wantEvents("rejected")
	r.settled()
}

// Two questions at once on one session, and upstreams that number alike, do not
// get each other's answers.
func TestAnswersAreNotCrossed(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	ids := []protocol.ID{protocol.IntID(1), protocol.StringID("1"),
		protocol.IntID(9007199254740993), protocol.IntID(9007199254740992)}
	type asked struct {
		session *elicitation.Session
		offered *offered
		want    string
		got     *protocol.Response
	}
	var all []*asked
	for _, who := range []string{"s1", "s2"} {
		s := r.attach(elicitation.SessionInfo{ID: who,
			Principal: protocol.Principal{Subject: who}})
		for _, up := range []elicitation.UpstreamKey{"a", "b"} {
			call := r.begin(elicitation.Origin{Session: s}, byHand(), up)
			defer call.End()
			for _, id := range ids {
				a := &asked{session: s, want: who + string(up) + id.String()}
				var err error
				a.offered, err = offer(call, t.Context(), form(a.want),
					nil, func(o outcome) {
						a.got = o.Response(id)
					})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, a)
			}
		}
	}
	for _, a := range slices.Backward(all) {
		content, _ := json.Marshal(map[string]any{"ok": true, "who": a.want})
		reply := result(a.offered.Request().ID, `{"action":"accept","content":`+string(content)+`}`)
		for _, other := range all {
			if other.session != a.session {
				if d := r.HandleReply(other.session.Sender(),
					reply); d != elicitation.WrongSession {
					t.Fatalf("a reply from another session is %v", d)
				}
			}
		}
		d := r.HandleReply(a.session.Sender(), reply)
		if d != elicitation.Accepted {
			t.Fatalf("reply is %v", d)
		}
	}
	for _, a := range all {
		var got struct{ Content struct{ Who string } }
		if err := json.Unmarshal(a.got.Result, &got); err != nil || got.Content.Who != a.want {
			t.Errorf("%s got the answer of %s", a.want, got.Content.Who)
		}
	}
	r.settled()
}
