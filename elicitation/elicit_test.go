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

func TestAsker(t *testing.T) {
	refusal := protocol.Errorf(-32000, "busy").WithData(map[string]int{"k": 1})
	for _, test := range []struct {
		name   string
		ask    func(delivered func()) (answer string, err error)
		events string
		want   error // nil means an accept
		code   int64
	}{
		{"reports delivery", func(delivered func()) (string, error) {
			delivered()
			delivered()
			return yes, nil
		}, "created delivered completed", nil, 0},
		{"does not", func(func()) (string, error) { return yes, nil },
			"created delivered completed", nil, 0}, // an answer proves delivery
		{"the client refuses", func(func()) (string, error) {
			return "", errors.Join(errors.New("call failed"), refusal)
		}, "created delivered error", elicitation.ReasonClientError, -32000},
		{"cannot be reached", func(func()) (string, error) { return "", errors.New("no stream") },
			"created error", elicitation.ReasonDelivery, -32603},
		{"dies after delivery", func(delivered func()) (string, error) {
			delivered()
			return "", errors.New("stream closed")
		}, "created delivered error", elicitation.ReasonDelivery, -32603},
		{"nonsense", func(func()) (string, error) { return "", nil },
			"created delivered error", elicitation.ReasonInvalidReply, -32603},
		{"panics", func(func()) (string, error) { panic("lost") },
			"created error", elicitation.ReasonDelivery, -32603},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSceneVia(t, elicitation.Options{}, asker(func(_ context.Context,
				q elicitation.Question, delivered func()) (string, error) {
				f, ok := q.Request.(*protocol.ElicitForm)
				if !ok || f.Message != "Deploy?" || len(q.ID) != 32 {
					t.Errorf("asked %q %+v", q.ID, q.Request)
				}
				return test.ask(delivered)
			}))
			got, err := s.ask(form("Deploy?"))
			if test.want == nil && (err != nil || got.Action != protocol.ActionAccept) {
				t.Errorf("result is %+v, %v", got, err)
			}
			if wire, _ := protocol.AsError(err); test.want != nil &&
				(!errors.Is(err, test.want) || wire.Code != test.code) {
				t.Errorf("error is %v, want %v with code %d", err, test.want, test.code)
			}
			s.wantEvents(test.events)
			s.settled()
		})
	}
}

// The Asker's context has the values of the call and ends with the question.
func TestAskerContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		r := newRig(t, elicitation.Options{})
		over := make(chan error, 1)
		ask := asker(func(ctx context.Context, _ elicitation.Question, _ func()) (string, error) {
			if ctx.Value(key{}) != "the tool's" {
				t.Error("the context is not the call's")
			}
			<-ctx.Done()
			over <- ctx.Err()
			return "", ctx.Err()
		})
		call := r.beginIn(context.WithValue(t.Context(), key{}, "the tool's"),
			elicitation.Origin{Session: r.attach(elicitation.SessionInfo{ID: "s1"})}, ask, "up")
		_, err := call.Elicit(t.Context(), form("Deploy?"))
		refused(t, err, elicitation.ReasonTimeout, protocol.CodeTimeout, "Elicitation timed out")
		wantIs(t, "the Asker's context", <-over, context.Canceled)
		synctest.Wait()
		r.wantEvents("created timeout")
	})
}

// Concurrent questions of one session, with equal upstream ids, get their own answers.
func TestAnswersAreNotCrossed(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	ids := []protocol.ID{protocol.IntID(1), protocol.StringID("1"),
		protocol.IntID(9007199254740993), protocol.IntID(9007199254740992)}
	type asked struct {
		session *elicitation.Session
		offered *offered
		want    string
		ended   *outcome
	}
	var all []*asked
	for _, who := range []string{"s1", "s2"} {
		s := r.attach(elicitation.SessionInfo{ID: who,
			Principal: protocol.Principal{Subject: who}})
		for _, up := range []elicitation.UpstreamKey{"a", "b"} {
			call := r.begin(elicitation.Origin{Session: s}, byHand(), up)
			for _, id := range ids {
				a := &asked{session: s, want: who + string(up) + id.String()}
				a.offered, a.ended = r.put(call, form(a.want))
				all = append(all, a)
			}
		}
	}
	for _, a := range slices.Backward(all) {
		content, _ := json.Marshal(map[string]any{"ok": true, "who": a.want})
		reply := result(a.offered.Request().ID, `{"action":"accept","content":`+string(content)+`}`)
		for _, other := range all {
			if other.session != a.session {
				r.complete(other.session.Sender(), reply, elicitation.WrongSession)
			}
		}
		r.complete(a.session.Sender(), reply, elicitation.Accepted)
	}
	for _, a := range all {
		var got struct{ Content struct{ Who string } }
		raw := a.ended.Response(protocol.IntID(1)).Result
		if err := json.Unmarshal(raw, &got); err != nil || got.Content.Who != a.want {
			t.Errorf("%s got the answer of %s", a.want, got.Content.Who)
		}
	}
	r.settled()
}
