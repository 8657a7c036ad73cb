package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

type attack struct {
	name  string
	lacks string // a required field of subject or flow that is missing; empty: none is
	steps []step
}

// A step is one forged leg. Each step replays the flow up to its last leg, because a used state may
// be refused for that reason alone. forge changes that leg; its error ends the attack.
type step struct {
	what  string
	forge func(context.Context, *attempt) error
	want  expectation
}

// An expectation is a forged leg's required outcome. If mayDiffer is set, no answer and effects that
// the flow does not have, such as those of a refusal, are also fine.
type expectation struct {
	words     string
	isMet     func(*attempt, outcome) bool
	mayDiffer bool
}

var (
	// The model would see any other result, and could try to work around the refusal.
	refused = expectation{"a JSON-RPC error -32602", func(_ *attempt, o outcome) bool {
		return o.isError(protocol.CodeInvalidParams)
	}, false}
	// The server checks scopes before the state.
	refusedOrScope = expectation{"a JSON-RPC error -32602, or one about scopes",
		func(_ *attempt, o outcome) bool {
			return o.isError(protocol.CodeInvalidParams) ||
				o.isError(protocol.CodeInsufficientScope)
		}, false}
	failed = expectation{"an error", func(_ *attempt, o outcome) bool {
		return !o.isComplete()
	}, false}
	sameOutcome = expectation{"the outcome that it had, or -32602",
		func(s *attempt, o outcome) bool {
			return o.isError(protocol.CodeInvalidParams) || s.sameAs(o)
		}, false}
	notAccepted = expectation{"anything but the result of the accepted flow",
		func(s *attempt, o outcome) bool { return !o.isComplete() || !s.sameAs(o) }, true}
)

// No attacked flow gives these answers of three kinds.
const (
	noRoots      = `{"roots":[]}`
	otherMessage = `{"role":"assistant","model":"m","content":{"type":"text","text":"accept"}}`
	decline      = `{"action":"decline"}`
)

// listAttacks returns the attacks on the state, and attacks with unacceptable answers.
func (v *Victim) listAttacks() []attack {
	unless := func(possible bool, why string) string {
		if possible {
			return ""
		}
		return why
	}
	unset := func(field string, set bool) string {
		return unless(set, "Subject."+field+" is not set, and this attack needs it")
	}
	singleUse := unset("SingleUse", v.target.SingleUse)
	noPage := unless(v.honest.CanUsePage(), "a question of the flow has no page")
	refuse := unless(slices.ContainsFunc(v.honest.asked, canRefuse),
		"the flow accepts no form and no link")
	accept := unless(slices.ContainsFunc(v.honest.next.responses,
		func(r protocol.KeyedResponse) bool { return accepts(r.Result) }),
		"the last round accepts no form and no link")
	smuggle := cmp.Or(unless(!v.goesOn, "the tool goes on after a plain refusal: mend what the "+
		"attack refuse found"), unset("Lossy", !v.target.Lossy), accept)
	arguments := unless(v.flow.Request.Method != protocol.MethodReadResource,
		"a resource has no arguments")
	attacks := []attack{
		{refuseAttack, refuse, nil},
		{"tamper", "", tamperedStates()},
		{"expire", unset("Later", v.target.Later != nil), []step{
			{"an expired state", expireState, refused}}},
		{"other user", unset("TwoUsers", v.target.TwoUsers), []step{
			{"the state of another user", changeUser, refused}}},
		{"other target", "", []step{
			{"the state at another target", changeTarget, refusedOrScope}}},
		{"changed arguments", arguments, []step{
			{"the state with other arguments", changeArguments, failed}}},
		{"replay", singleUse, []step{{"the same leg again", sendFirst, sameOutcome}}},
		{"fork", singleUse, []step{
			{"a state that was used with other answers", sendOtherAnswers, refused}}},
		{"pre-seed", "", []step{
			{"answers to what was never asked", withState(protocol.RequestState{}), notAccepted},
			{"answers with an empty state", withState(protocol.StateText("")), notAccepted},
		}},
		{"smuggle", smuggle, v.malformedAnswers(
			`{"action":"decline","Action":"accept","content":CONTENT}`,
			`{"Action":"accept","content":CONTENT}`, `{"ACTION":"accept","Content":CONTENT}`,
			`{"action":"decline","content":CONTENT,"action":"accept"}`,
			`{"action":"accept","action":"decline","content":CONTENT}`,
		)},
		{"wrap", "", v.malformedAnswers(
			`{"method":"elicitation/create","result":ANSWER}`, `{"result":ANSWER}`, `[ANSWER]`,
			`"accept"`, `null`, `true`, `{}`,
		)},
		{"wrong kind", "", v.malformedAnswers(
			noRoots, otherMessage, `{"action":"accept","content":CONTENT}`,
			`{"action":"accepted","content":CONTENT}`,
			`{"action":["accept"],"content":CONTENT}`, `{"action":null,"content":CONTENT}`,
		)},
		{"wrong key", "", wrongKeys("", "constructor", "__proto__", "toString")},
		{"wrong content", accept, v.wrongContents()},
	}
	if v.target.Browser != nil {
		attacks = append(attacks, attack{"page", noPage, attackLinks()},
			attack{"page of another user", cmp.Or(unset("TwoUsers", v.target.TwoUsers), noPage),
				[]step{attackLinkOfOther()}})
	}
	return attacks
}

// edit returns a forge function that only changes the last leg.
func edit(change func(*leg)) func(context.Context, *attempt) error {
	return func(_ context.Context, s *attempt) error {
		change(&s.last)
		return nil
	}
}

func withState(state protocol.RequestState) func(context.Context, *attempt) error {
	return edit(func(l *leg) { l.state = state })
}

func tamperedStates() (steps []step) {
	for i := range tamper("state") {
		steps = append(steps, step{"a changed state",
			func(_ context.Context, s *attempt) error {
				state, ok := s.last.state.Text()
				if !ok || state == "" {
					return errors.New("the flow has no state, so that nothing binds the answers " +
						"to the questions")
				}
				s.last.state = protocol.StateText(tamper(state)[i])
				return nil
			}, refused})
	}
	return steps
}

func tamper(state string) []string {
	flip := func(i int) string {
		b := []byte(state)
		if b[i]++; b[i] == 'Z'+1 || b[i] == 'z'+1 || b[i] == '9'+1 {
			b[i] = 'A'
		}
		return string(b)
	}
	return []string{
		flip(0), flip(len(state) / 3), flip(len(state) / 2), flip(len(state) - 1),
		state[1:], state[:len(state)-1], state + "A", state + "=", state + "\n", state + state,
		" " + state,
	}
}

// expireState waits until the state is older than the default flow and the package's tests allow.
func expireState(_ context.Context, s *attempt) error {
	s.target.Later(25 * time.Hour)
	return nil
}

func changeUser(_ context.Context, s *attempt) error { return s.connect("other") }

// changeTarget changes the target to another tool, prompt or resource, or to a nonexistent one.
func changeTarget(ctx context.Context, s *attempt) error {
	names, err := s.conn.listTargets(ctx, s.last.request.Method)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(names, func(name string) bool { return name != s.last.request.Target })
	if i >= 0 {
		s.last.request.Target = names[i]
		return nil
	}
	s.last.request.Target, s.want = "roundtriptest-nowhere", failed
	return nil
}

func changeArguments(_ context.Context, s *attempt) (err error) {
	var arguments map[string]any
	if s.last.arguments != nil {
		if err := json.Unmarshal(s.last.arguments, &arguments); err != nil {
			return fmt.Errorf("the arguments of the flow are no object: %w", err)
		}
	}
	changed := map[string]any{"roundtriptest": "added"}
	for name, value := range arguments {
		if text, ok := value.(string); ok {
			delete(changed, "roundtriptest")
			value = text + "-changed"
		}
		changed[name] = value
	}
	s.last.arguments, err = json.Marshal(changed)
	return err
}

// sendFirst sends the leg. The attack then sends it again, which must repeat no effect.
func sendFirst(ctx context.Context, s *attempt) error {
	first, err := s.conn.sendLeg(ctx, s.last)
	if err == nil && !first.isComplete() {
		err = fmt.Errorf("the last leg got %s", first)
	}
	s.before = s.target.Effects.copyCounts()
	return err
}

// sendOtherAnswers uses up the state with other answers.
func sendOtherAnswers(ctx context.Context, s *attempt) error {
	l := s.last
	l.responses = forgeAnswers(l.responses, func(given json.RawMessage) json.RawMessage {
		switch kindOf(given) {
		case protocol.KindCreateMessage:
			return json.RawMessage(otherMessage)
		case protocol.KindListRoots:
			return json.RawMessage(noRoots)
		}
		return json.RawMessage(decline)
	})
	_, err := s.conn.sendLeg(ctx, l)
	s.before = s.target.Effects.copyCounts()
	return err
}

func withAnswers(what string,
	forge func(protocol.InputResponses) protocol.InputResponses) step {
	return step{what, edit(func(l *leg) { l.responses = forge(l.responses) }), notAccepted}
}

// malformedAnswers have forms in which ANSWER stands for the valid answer and CONTENT for its
// content. Answers acceptable to a question of the last round are omitted.
func (v *Victim) malformedAnswers(forms ...string) (steps []step) {
	for _, form := range forms {
		malform := func(given json.RawMessage) json.RawMessage {
			return json.RawMessage(strings.NewReplacer("ANSWER", string(given),
				"CONTENT", string(contentOf(given))).Replace(form))
		}
		if slices.ContainsFunc(v.honest.next.responses, func(r protocol.KeyedResponse) bool {
			forged := malform(r.Result)
			return gives(r.Result) && gives(forged) && kindOf(forged) == kindOf(r.Result)
		}) {
			continue
		}
		steps = append(steps, withAnswers("the answer "+form,
			func(given protocol.InputResponses) protocol.InputResponses {
				return forgeAnswers(given, malform)
			}))
	}
	return steps
}

func wrongKeys(keys ...string) (steps []step) {
	for _, key := range keys {
		steps = append(steps, withAnswers(fmt.Sprintf("an answer under the key %q", key),
			func(given protocol.InputResponses) protocol.InputResponses {
				return protocol.InputResponses{{Key: key, Result: given[0].Result}}
			}))
	}
	return steps
}

// wrongContents returns acceptances with invalid content: values that are replaced by an object.
func (v *Victim) wrongContents() (steps []step) {
	for i, r := range v.honest.next.responses {
		var content map[string]json.RawMessage
		if !accepts(r.Result) || json.Unmarshal(contentOf(r.Result), &content) != nil {
			continue
		}
		for name := range content {
			wrong := maps.Clone(content)
			wrong[name] = json.RawMessage(`{"evil":true}`)
			data, _ := json.Marshal(wrong) // valid values only
			steps = append(steps, withAnswers("an object as "+name,
				func(given protocol.InputResponses) protocol.InputResponses {
					given = slices.Clone(given)
					given[i].Result = fmt.Appendf(nil, `{"action":"accept","content":%s}`, data)
					return given
				}))
		}
	}
	return steps
}

func forgeAnswers(responses protocol.InputResponses,
	forge func(json.RawMessage) json.RawMessage) protocol.InputResponses {
	responses = slices.Clone(responses)
	for i, r := range responses {
		if gives(r.Result) {
			responses[i].Result = forge(r.Result)
		}
	}
	return responses
}

// The function gives reports whether an answer is an accept, a model's answer, or folders.
func gives(result json.RawMessage) bool {
	return accepts(result) || kindOf(result) == protocol.KindCreateMessage ||
		kindOf(result) == protocol.KindListRoots
}

// kindOf returns the kind of question that an answer fits: a form even for a link, "" for no kind.
func kindOf(result json.RawMessage) protocol.InputKind {
	if _, err := protocol.DecodeElicitResult(result); err == nil {
		return protocol.KindElicitForm
	}
	if _, err := protocol.DecodeCreateMessageResult(result); err == nil {
		return protocol.KindCreateMessage
	}
	if _, err := protocol.DecodeListRootsResult(result); err == nil {
		return protocol.KindListRoots
	}
	return ""
}

// The function accepts reports whether an answer of this package is an acceptance.
func accepts(result json.RawMessage) bool {
	answer, err := protocol.DecodeElicitResult(result)
	return err == nil && answer.Action == protocol.ActionAccept
}

func contentOf(result json.RawMessage) json.RawMessage {
	answer, err := protocol.DecodeElicitResult(result)
	if err != nil || answer.Content == nil {
		return json.RawMessage(`{}`)
	}
	return answer.Content
}
