package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// refuseAttack names the attack that refuses a flow's questions, one after the other.
const refuseAttack = "refuse"

// errNobody is the response to questions in a session that nobody answers.
var errNobody = errors.New("nobody answered")

// thinkingSlack allows for a coarse server clock.
const thinkingSlack = 50 * time.Millisecond

type refusal struct {
	what   string
	answer string
	thinks bool // answers as late as a person would
}

// The type refusing refuses the number-th question and answers the others like the flow, up to
// limit. A further question must be a rewording of the refused one, so accepting is harmless.
type refusing struct {
	refusal
	number, limit int
	effects       *Effects
	given         bool
	before        map[Effect]int // effects before the refusal
}

func (r *refusing) giveRefusal() (json.RawMessage, error) {
	if r.thinks {
		time.Sleep(waiting.DefaultMinHumanTime + thinkingSlack)
	}
	r.given, r.before = true, r.effects.copyCounts()
	if r.answer == "" {
		return nil, errNobody
	}
	return json.RawMessage(r.answer), nil
}

func refusals(a askedQuestion) []refusal {
	found := []refusal{
		{"no answer", "", false},
		{"a decline", decline, true}, {"a decline at once", decline, false},
		{"a cancel", `{"action":"cancel"}`, true},
		{"null", `null`, false}, {"{}", `{}`, false}, {`"accept"`, `"accept"`, false},
	}
	content := contentOf(a.answer.Result)
	var values map[string]json.RawMessage
	if a.question.Kind() != protocol.KindElicitForm || json.Unmarshal(content, &values) != nil {
		return found
	}
	for name := range values {
		values[name] = json.RawMessage(`{"evil":true}`)
	}
	if data, err := json.Marshal(values); err == nil && len(values) > 0 {
		found = append(found, refusal{"objects as values",
			`{"action":"accept","content":` + string(data) + `}`, false})
	}
	return append(found, refusal{"the action accepted",
		`{"action":"accepted","content":` + string(content) + `}`, false})
}

// refuseQuestions refuses each question in each era, and returns the cases that continue anyway.
func (v *Victim) refuseQuestions() (problems []error) {
	filled := v.honest.filledTexts()
	accepted, err := v.honest.textWithout(filled)
	if err != nil {
		return []error{err}
	}
	for i, a := range v.honest.asked {
		for _, action := range []string{"decline", "cancel"} {
			for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
				if !canRefuse(a) || !v.target.ServesEra(era) {
					continue
				}
				r := &refusing{number: i, limit: len(v.honest.asked), effects: v.target.Effects}
				r.answer = fmt.Sprintf(`{"action":%q}`, action)
				if found := v.refuseQuestion(era, r, accepted, filled); found != "" {
					problems = append(problems, fmt.Errorf("%s of question %q in %s: %s", action,
						a.key, map[protocol.Era]string{protocol.Modern: "revision 2026-07-28",
							protocol.Legacy: "a session"}[era], found))
				}
			}
		}
	}
	return problems
}

// refuseQuestion returns a description of the problem, or "".
func (v *Victim) refuseQuestion(era protocol.Era, r *refusing, accepted string,
	filled []string) string {
	flow := v.flow
	flow.refuse = r
	var p *Played
	var err error
	if era == protocol.Modern {
		p, err = v.target.PlayModern(flow)
	} else {
		p, err = v.target.PlayLegacy(flow, v.honest)
	}
	if !r.given {
		return fmt.Sprintf("it was not asked this time: %v", err)
	}
	const mend = "the tool goes on as if the user had agreed; return the error of Ask, or look " +
		"at the outcome: "
	if done := v.target.Effects.effectsSince(r.before, v.honest.before); len(done) > 0 {
		return mend + "these effects happened: " + strings.Join(done, ", ")
	}
	if err != nil || !p.out.isComplete() {
		return ""
	}
	if text, err := p.textWithout(filled); err == nil && text == accepted {
		return mend + "got " + p.out.String()
	}
	return ""
}

// canRefuse reports whether the flow accepts a question without which its tool cannot continue.
func canRefuse(a askedQuestion) bool {
	return accepts(a.answer.Result) && !a.answer.Optional
}
