package roundtrip_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// mode is a way in which the calls of flow style are fulfilled.
type mode struct {
	name    string
	version protocol.Version
	replay  bool // ReplayOnLegacy
}

var modes = []mode{
	{"modern", protocol.V20260728, true},
	{"live", protocol.V20251125, false},
	{"replay on legacy", protocol.V20251125, true},
}

// person answers questions by the first word of their message, and those that
// have none by their kind. What it does not know it accepts.
type person map[string]string

func (p person) answers(q protocol.InputRequest) json.RawMessage {
	name := string(q.Kind())
	switch q := q.(type) {
	case *protocol.ElicitForm:
		message := q.Message
		if i := strings.LastIndex(message, ". "); i >= 0 { // behind why it is asked again
			message = message[i+2:]
		}
		name, _, _ = strings.Cut(message, " ")
	case *protocol.ElicitURL:
		name, _, _ = strings.Cut(q.Message, " ")
	}
	if answer, ok := p[name]; ok {
		return json.RawMessage(answer)
	}
	answer, _ := willing(context.Background(), q, nil)
	return answer
}

// journey takes handler through a whole flow in a mode.
type journey struct {
	*client
	*human
	rounds int // in which something was asked
}

func newJourney(t testing.TB, m mode, opts roundtrip.Options, p person, handler roundtrip.Handler) *journey {
	t.Helper()
	opts.ReplayOnLegacy = m.replay
	j := &journey{client: newClient(t, opts, handler)}
	j.human = &human{t: t, version: m.version, answer: func(_ context.Context, q protocol.InputRequest, _ func()) (json.RawMessage, error) {
		return p.answers(q), nil
	}}
	if j.call.Version = m.version; m.version.Era() == protocol.Legacy {
		j.call.Push = j.human
	}
	return j
}

// end goes on until there is a result, or an error.
func (j *journey) end(p person) (protocol.Result, error) {
	j.client.t.Helper()
	for {
		result, err := j.send()
		asked, more := result.(*protocol.InputRequiredResult)
		if err != nil || !more {
			return result, err
		}
		if j.rounds++; j.rounds > 20 {
			j.client.t.Fatal("the flow does not end")
		}
		for _, q := range asked.InputRequests {
			j.human.asked = append(j.human.asked, q.Request)
			j.call.Responses = append(j.call.Responses, protocol.KeyedResponse{Key: q.Key, Result: p.answers(q.Request)})
		}
	}
}

// inEveryMode runs a flow to its end in each mode. Check sees what came of it.
func inEveryMode(t *testing.T, opts roundtrip.Options, p person, handler roundtrip.Handler, check func(t *testing.T, m mode, j *journey, result protocol.Result, err error)) {
	t.Helper()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			j := newJourney(t, m, opts, p, handler)
			result, err := j.end(p)
			check(t, m, j, result, err)
		})
	}
}

// wants is a check for a text, the number of questions and, where the handler
// is replayed, of runs.
func wants(text string, questions, runs int) func(*testing.T, mode, *journey, protocol.Result, error) {
	return func(t *testing.T, m mode, j *journey, result protocol.Result, err error) {
		t.Helper()
		if err != nil || show(result) != text {
			t.Errorf("got %q, %v, want %q; events: %+v", show(result), err, text, j.events.list)
		}
		want := runs
		if !m.replay {
			want = 1
		}
		if j.traffic() != questions || j.runs != want {
			t.Errorf("%d questions in %d runs, want %d in %d", j.traffic(), j.runs, questions, want)
		}
	}
}

// reasonOf is the shortest flow: one question.
func reasonOf(ctx context.Context, key string) (string, error) {
	c, err := roundtrip.Ask[Confirmation](ctx, key, key+" ?")
	return c.Reason, err
}

func form(reason string) string { return `{"action":"accept","content":{"reason":"` + reason + `"}}` }
