package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Victim is a target under attack, with a flow that it has completed honestly.
type Victim struct {
	subject *Target
	flow    Flow
	honest  *Played
}

// NewVictim plays the flow in revision 2026-07-28. It fails if the flow does not end there as
// attacks need it to: completed, after a last round in which not everything was refused.
func NewVictim(target *Target, flow Flow) (*Victim, error) {
	honest, err := target.PlayModern(flow)
	if err != nil {
		return nil, err
	}
	v := &Victim{subject: target, flow: flow, honest: honest}
	return v, v.checkFlow()
}

// Names returns the names of the attacks.
func Names() (names []string) {
	for _, a := range attacks() {
		names = append(names, a.name)
	}
	return names
}

// Attack plays the flow anew up to the leg that would complete it, sends that leg as the attack
// called name forges it, and returns what the target did wrong. If the target lacks what the attack
// needs, nothing is sent, and skipped says which field is missing. target is the one of NewVictim
// with a Connect of the caller's choice.
func (v *Victim) Attack(target *Target, name string) (problems []error, skipped string) {
	victim := &Victim{subject: target, flow: v.flow, honest: v.honest}
	for _, a := range attacks() {
		if a.name != name {
			continue
		}
		if why := a.reasonToSkip(victim); why != "" {
			return nil, why
		}
		return victim.runAttack(a), ""
	}
	return []error{fmt.Errorf("there is no attack %q", name)}, ""
}

// checkFlow returns an error if the flow cannot show whether an attack succeeds.
func (v *Victim) checkFlow() error {
	if !v.honest.out.isComplete() {
		return fmt.Errorf("the flow of an attack must complete; this one ends with %s: "+
			"play it with Run only", v.honest.out)
	}
	if v.honest.legs < 2 {
		return fmt.Errorf("the flow of an attack must ask; this one does not: play it with Run only")
	}
	for _, r := range v.honest.next.responses {
		if gives(r.Result) {
			return nil
		}
	}
	return fmt.Errorf("the flow of an attack must give an answer in its last round; " +
		"this one refuses: play it with Run only")
}

// runAttack plays the flow up to its last leg, runs the attack, and returns what the
// subject did wrong.
func (v *Victim) runAttack(a attack) []error {
	peer, err := v.subject.Connect("")
	if err != nil {
		return []error{err}
	}
	defer peer.Close() // the connection is of no more use
	ctx, cancel := context.WithTimeout(context.Background(), v.subject.timeout())
	defer cancel()
	s := &attempt{Victim: v, conn: v.subject.newConnection(peer, v.flow)}
	if err := s.restartFlow(ctx); err != nil {
		return []error{err}
	}
	return a.run(ctx, s)
}

// An attempt is a flow whose last leg has not been sent. Attacks use it up.
type attempt struct {
	*Victim
	conn   *connection
	last   leg
	before map[string]int
}

// restartFlow plays a new flow up to its last leg: a state that has been used may be
// refused for that reason alone.
func (s *attempt) restartFlow(ctx context.Context) error {
	p, err := s.subject.playLegs(ctx, s.conn, s.flow, s.honest.legs-1)
	if err == nil {
		s.last, s.before = p.next, p.before
	}
	return err
}

// An attack is one way in which a leg can be forged.
type attack struct {
	name       string
	skipReason func(*Victim) string
	run        func(context.Context, *attempt) []error
}

func (a attack) reasonToSkip(v *Victim) string {
	if a.skipReason == nil {
		return ""
	}
	return a.skipReason(v)
}

// answerTimeout is how long a server may take to answer a forged request. After it the
// request counts as not answered.
const answerTimeout = 5 * time.Second

// requireField returns the skipReason of an attack that needs a field of the subject.
func requireField(field string, has func(*Target) bool) func(*Victim) string {
	return func(v *Victim) string {
		if has(v.subject) {
			return ""
		}
		return "Subject." + field + " is not set, and this attack needs it"
	}
}

func attacks() []attack {
	return slices.Concat(stateAttacks(), answerAttacks())
}

// stateAttacks lists the attacks on the state: on what it says, on who sends it, with what, and on
// how often.
func stateAttacks() []attack {
	twoUsers := requireField("TwoUsers", func(s *Target) bool { return s.TwoUsers })
	later := requireField("Later", func(s *Target) bool { return s.Later != nil })
	single := requireField("SingleUse", func(s *Target) bool { return s.SingleUse })
	arguments := func(v *Victim) string {
		if v.flow.Request.Method == protocol.MethodReadResource {
			return "a resource has no arguments"
		}
		return ""
	}
	return []attack{
		{name: "tamper", run: changeState},
		{name: "expire", skipReason: later, run: expireState},
		{name: "other user", skipReason: twoUsers, run: useOtherUser},
		{name: "other target", run: useOtherTarget},
		{name: "changed arguments", skipReason: arguments, run: changeArguments},
		{name: "replay", skipReason: single, run: replayLeg},
		{name: "fork", skipReason: single, run: forkState},
	}
}

// answerAttacks lists the attacks with answers that must not be taken.
func answerAttacks() []attack {
	strict := requireField("Lossy", func(s *Target) bool { return !s.Lossy })
	accepting := func(v *Victim) string {
		if !slices.ContainsFunc(v.honest.next.responses, func(r protocol.KeyedResponse) bool {
			return accepts(r.Result)
		}) {
			return "the last round accepts no form and no link"
		}
		return ""
	}
	return []attack{
		{name: "pre-seed", run: answerUnasked},
		{name: "smuggle", skipReason: func(v *Victim) string {
			return cmp.Or(strict(v), accepting(v))
		}, run: sendAnswers(
			`{"action":"decline","Action":"accept","content":CONTENT}`,
			`{"Action":"accept","content":CONTENT}`, `{"ACTION":"accept","Content":CONTENT}`,
			`{"action":"decline","content":CONTENT,"action":"accept"}`,
			`{"action":"accept","action":"decline","content":CONTENT}`,
		)},
		{name: "wrap", run: sendAnswers(
			`{"method":"elicitation/create","result":ANSWER}`, `{"result":ANSWER}`, `[ANSWER]`,
			`"accept"`, `null`, `true`, `{}`,
		)},
		{name: "wrong kind", run: sendAnswers(
			noRoots, otherMessage, `{"action":"accept","content":CONTENT}`,
			`{"action":"accepted","content":CONTENT}`,
			`{"action":["accept"],"content":CONTENT}`, `{"action":null,"content":CONTENT}`,
		)},
		{name: "wrong key", run: answerUnderWrongKeys},
		{name: "wrong content", skipReason: accepting, run: sendWrongContent},
	}
}

// Answers of three kinds, none of which the flow of an attack gives.
const (
	noRoots      = `{"roots":[]}`
	otherMessage = `{"role":"assistant","model":"m","content":{"type":"text","text":"accept"}}`
	decline      = `{"action":"decline"}`
)

// expireState sends a state when it is older than any flow lasts by default, and than our patience.
func expireState(ctx context.Context, s *attempt) []error {
	s.subject.Later(25 * time.Hour)
	return s.expectRefusal(context.WithoutCancel(ctx), "an expired state", s.last)
}

// useOtherUser sends a state over a connection of another user.
func useOtherUser(ctx context.Context, s *attempt) []error {
	peer, err := s.subject.Connect("other")
	if err != nil {
		return []error{err}
	}
	defer peer.Close() // the connection is of no more use
	s.conn = s.subject.newConnection(peer, s.flow)
	return s.expectRefusal(ctx, "the state of another user", s.last)
}

// answerUnasked sends answers in the first leg, without a state and with an empty one.
func answerUnasked(ctx context.Context, s *attempt) []error {
	s.last.state = protocol.RequestState{}
	problems := s.expectIncomplete(ctx, "answers to what was never asked", s.last)
	if err := s.restartFlow(ctx); err != nil {
		return append(problems, err)
	}
	s.last.state = protocol.StateText("")
	return append(problems, s.expectIncomplete(ctx, "answers with an empty state", s.last)...)
}

// answerUnderWrongKeys sends an answer under keys that no question has.
func answerUnderWrongKeys(ctx context.Context, s *attempt) (problems []error) {
	for _, key := range []string{"", "constructor", "__proto__", "toString"} {
		if err := s.restartFlow(ctx); err != nil {
			return append(problems, err)
		}
		l := s.last
		l.responses = protocol.InputResponses{{Key: key, Result: s.last.responses[0].Result}}
		problems = append(problems, s.expectIncomplete(ctx,
			fmt.Sprintf("an answer under the key %q", key), l)...)
	}
	return problems
}

// expectRefusal sends a leg whose state must be refused, with a JSON-RPC error: the model
// would see any other result, and could try to work around it.
func (s *attempt) expectRefusal(ctx context.Context, what string, l leg) []error {
	return s.sendAndCheck(ctx, what, l,
		func(o outcome) bool { return o.isError(protocol.CodeInvalidParams) },
		"a JSON-RPC error -32602")
}

// expectIncomplete sends a leg that must not complete as the accepted flow does. A server
// may leave a message that it cannot read unanswered, but must serve the next flow.
func (s *attempt) expectIncomplete(ctx context.Context, what string, l leg) []error {
	once, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	out, err := s.conn.sendLeg(once, l)
	if err != nil {
		if err := s.restartFlow(ctx); err != nil {
			return []error{fmt.Errorf("after %s: %w", what, err)}
		}
		return nil
	}
	return s.checkOutcome(what, out,
		func(o outcome) bool {
			return !o.isComplete() ||
				!s.sameAs(o)
		}, "anything but the result of the accepted flow")
}

func (s *attempt) sameAs(o outcome) bool { return o.String() == s.honest.out.String() }

func (s *attempt) sendAndCheck(ctx context.Context, what string, l leg, good func(outcome) bool,
	want string) []error {
	out, err := s.conn.sendLeg(ctx, l)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", what, err)}
	}
	return s.checkOutcome(what, out, good, want)
}

// checkOutcome checks an outcome, and that no effect has happened since the attempt.
func (s *attempt) checkOutcome(what string, out outcome, good func(outcome) bool,
	want string) (problems []error) {
	if !good(out) {
		problems = append(problems, fmt.Errorf("%s: got %s, want %s", what, out, want))
	}
	if done := s.subject.Effects.effectsSince(s.before); len(done) > 0 {
		problems = append(problems, fmt.Errorf("%s: these effects happened: %s", what,
			strings.Join(done, ", ")))
	}
	return problems
}

// changeState sends states with a character changed, added or removed.
func changeState(ctx context.Context, s *attempt) (problems []error) {
	state, ok := s.last.state.Text()
	if !ok || state == "" {
		return []error{fmt.Errorf("the flow has no state, so that nothing binds the answers to " +
			"the questions")}
	}
	flip := func(i int) string {
		b := []byte(state)
		if b[i]++; b[i] == 'Z'+1 || b[i] == 'z'+1 || b[i] == '9'+1 {
			b[i] = 'A'
		}
		return string(b)
	}
	for _, forged := range []string{
		flip(0), flip(len(state) / 3), flip(len(state) / 2), flip(len(state) - 1),
		state[1:], state[:len(state)-1], state + "A", state + "=", state + "\n", state + state,
		" " + state,
	} {
		l := s.last
		l.state = protocol.StateText(forged)
		problems = append(problems, s.expectRefusal(ctx, "a changed state", l)...)
	}
	return problems
}

// useOtherTarget sends the state to another tool, prompt or resource.
func useOtherTarget(ctx context.Context, s *attempt) []error {
	l := s.last
	names, err := s.conn.listTargets(ctx, map[string]string{
		protocol.MethodCallTool:     protocol.MethodListTools,
		protocol.MethodGetPrompt:    protocol.MethodListPrompts,
		protocol.MethodReadResource: protocol.MethodListResources,
	}[l.request.Method])
	if err != nil {
		return []error{err}
	}
	for _, name := range names {
		if name != s.last.request.Target {
			l.request.Target = name
			return s.sendAndCheck(ctx, "the state at "+name, l, func(o outcome) bool {
				// Scopes are looked at before the state.
				return o.isError(protocol.CodeInvalidParams) ||
					o.isError(protocol.CodeInsufficientScope)
			}, "a JSON-RPC error -32602, or one about scopes")
		}
	}
	l.request.Target = "roundtriptest-nowhere"
	// Without another target, one that does not exist must not complete the flow either.
	return s.sendAndCheck(ctx, "the state at a target that does not exist", l,
		func(o outcome) bool { return !o.isComplete() }, "an error")
}

// changeArguments changes one argument, or adds one.
func changeArguments(ctx context.Context, s *attempt) []error {
	var arguments map[string]json.RawMessage
	if s.last.arguments != nil {
		if err := json.Unmarshal(s.last.arguments, &arguments); err != nil {
			return []error{fmt.Errorf("the arguments of the flow are no object: %w", err)}
		}
	}
	changed := map[string]json.RawMessage{"roundtriptest": json.RawMessage(`"added"`)}
	for name, value := range arguments {
		changed[name] = value
		var text string
		if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
			delete(changed, "roundtriptest")
			changed[name], _ = json.Marshal(text + "-changed") // a string has JSON
		}
	}
	l := s.last
	var err error
	if l.arguments, err = json.Marshal(changed); err != nil {
		return []error{err}
	}
	return s.sendAndCheck(ctx, "the state with other arguments", l,
		func(o outcome) bool { return !o.isComplete() }, "an error")
}

// replayLeg sends the last leg twice. The second may get the outcome of the first, and
// must not repeat an effect.
func replayLeg(ctx context.Context, s *attempt) []error {
	first, err := s.conn.sendLeg(ctx, s.last)
	if err != nil {
		return []error{err}
	}
	if !first.isComplete() {
		return []error{fmt.Errorf("the last leg got %s", first)}
	}
	s.before = s.subject.Effects.copyCounts()
	return s.sendAndCheck(ctx, "the same leg again", s.last, func(o outcome) bool {
		return o.isError(protocol.CodeInvalidParams) || s.sameAs(o)
	}, "the outcome that it had, or -32602")
}

// forkState sends a state that has been used, with other answers.
func forkState(ctx context.Context, s *attempt) []error {
	l := s.last
	l.responses = s.forgeAnswers(func(given json.RawMessage) json.RawMessage {
		switch kindOf(given) {
		case protocol.KindCreateMessage:
			return json.RawMessage(otherMessage)
		case protocol.KindListRoots:
			return json.RawMessage(noRoots)
		}
		return json.RawMessage(decline)
	})
	if _, err := s.conn.sendLeg(ctx, l); err != nil {
		return []error{err}
	}
	s.before = s.subject.Effects.copyCounts()
	return s.expectRefusal(ctx, "a state that was used with other answers",
		s.last)
}

// forgeAnswers returns the last answers with what forge makes of those that give what was asked.
func (s *attempt) forgeAnswers(
	forge func(json.RawMessage) json.RawMessage) protocol.InputResponses {
	responses := slices.Clone(s.last.responses)
	for i, r := range responses {
		if gives(r.Result) {
			responses[i].Result = forge(r.Result)
		}
	}
	return responses
}

// sendAnswers returns an attack with malformed answers, in which ANSWER stands for the valid one
// and CONTENT for its content. An answer that a question of the last round takes is left out.
func sendAnswers(forms ...string) func(context.Context, *attempt) []error {
	return func(ctx context.Context, s *attempt) (problems []error) {
		for _, form := range forms {
			if err := s.restartFlow(ctx); err != nil {
				return append(problems, err)
			}
			l, valid := s.last, false
			l.responses = s.forgeAnswers(func(given json.RawMessage) json.RawMessage {
				forged := json.RawMessage(strings.NewReplacer("ANSWER", string(given),
					"CONTENT", string(contentOf(given))).Replace(form))
				valid = valid || kindOf(forged) == kindOf(given) && gives(forged)
				return forged
			})
			if !valid {
				problems = append(problems, s.expectIncomplete(ctx, "the answer "+form, l)...)
			}
		}
		return problems
	}
}

// sendWrongContent accepts with content that does not fit the form.
func sendWrongContent(ctx context.Context, s *attempt) (problems []error) {
	for i, r := range s.last.responses {
		var content map[string]json.RawMessage
		if !accepts(r.Result) || json.Unmarshal(contentOf(r.Result), &content) != nil {
			continue
		}
		for name := range content {
			wrong := map[string]json.RawMessage{}
			for other, value := range content {
				wrong[other] = value
			}
			wrong[name] = json.RawMessage(`{"evil":true}`)
			data, err := json.Marshal(wrong)
			if err != nil {
				return append(problems, err)
			}
			if err := s.restartFlow(ctx); err != nil {
				return append(problems, err)
			}
			l := s.last
			l.responses = append(protocol.InputResponses(nil), s.last.responses...)
			l.responses[i].Result = fmt.Appendf(nil, `{"action":"accept","content":%s}`, data)
			problems = append(problems, s.expectIncomplete(ctx, "an object as "+name, l)...)
		}
	}
	return problems
}

// gives reports whether an answer of the package's own gives what was asked: it accepts, or is of
// the client's model or its folders, which nobody refuses.
func gives(result json.RawMessage) bool {
	return accepts(result) || kindOf(result) == protocol.KindCreateMessage ||
		kindOf(result) == protocol.KindListRoots
}

// kindOf returns what an answer is to, with a form for a link as well, and "" for what is no
// answer.
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

// accepts reports whether an answer of the package's own accepts.
func accepts(result json.RawMessage) bool {
	answer, err := protocol.DecodeElicitResult(result)
	return err == nil && answer.Action == protocol.ActionAccept
}

// contentOf returns the content of an answer of the package's own.
func contentOf(result json.RawMessage) json.RawMessage {
	answer, err := protocol.DecodeElicitResult(result)
	if err != nil || answer.Content == nil {
		return json.RawMessage(`{}`)
	}
	return answer.Content
}

// listTargets returns the names, or URIs, that a list has on its first page.
func (c *connection) listTargets(ctx context.Context, method string) (names []string, err error) {
	params, err := protocol.EncodeParams(&protocol.ListParams{RequestMeta: c.requestMeta()})
	if err != nil {
		return nil, err
	}
	resp, err := c.sendRequest(ctx, method, "", params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if resp.Error != nil {
		return nil, fmt.Errorf("%s: %w", method, resp.Error)
	}
	result, err := protocol.DecodeResult(protocol.V20260728, method, resp.Result)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	switch r := result.(type) {
	case *protocol.ListToolsResult:
		for _, tool := range r.Tools {
			names = append(names, tool.Name)
		}
	case *protocol.ListPromptsResult:
		for _, prompt := range r.Prompts {
			names = append(names, prompt.Name)
		}
	case *protocol.ListResourcesResult:
		for _, resource := range r.Resources {
			names = append(names, resource.URI)
		}
	}
	return names, nil
}
