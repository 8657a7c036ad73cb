package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// ErrAsksAgain means that a tool repeated a question after its answer.
var ErrAsksAgain = errors.New("asks again after an answer")

// A Verdict describes a tool's behaviour in an era.
type Verdict struct {
	// Asks counts a fully accepted call's questions. Complete means that its Result is no error.
	Asks     int
	Result   string
	Complete bool
	// Tried counts refusals, invalid answers and attacks. Open lists those with the result of an
	// acceptance or other harm, Skipped the reasons why attacks were not tried.
	Tried         int
	Open, Skipped []string
}

type judge struct {
	target  *Target
	era     protocol.Era
	request Request
	verdict Verdict
	// The field filled has accepted answers' texts, texts the results with only these answers.
	filled []string
	texts  [2]string
}

// Judge calls a tool without a flow: it fills forms from their schemas. It answers each question
// without accepting, and runs the attacks (in revision 2026-07-28 only). An error means that no
// judgement is possible. It is ErrAsksAgain if the tool loses answers.
func (s *Target) Judge(era protocol.Era, request Request) (*Verdict, error) {
	j := &judge{target: s, era: era, request: request}
	first, err := j.play(Flow{Fill: fillAnswer})
	if err != nil {
		return nil, err
	}
	v := &j.verdict
	v.Asks, v.Result, v.Complete = len(first.asked), first.out.String(), first.out.isComplete()
	if v.Asks == 0 || !v.Complete {
		return v, nil
	}
	second, err := j.play(Flow{Fill: fillAnswer})
	if err != nil {
		return nil, err
	}
	j.filled = first.filledTexts()
	for i, p := range []*Played{first, second} {
		if !p.out.isComplete() {
			return nil, fmt.Errorf("a second call, with the same answers, ends with %s", p.out)
		}
		if j.texts[i], err = p.textWithout(j.filled); err != nil {
			return nil, err
		}
	}
	for i, a := range first.asked {
		for _, r := range refusals(a) {
			if r.answer == "" && era == protocol.Modern {
				continue // without an answer, a client does not send the leg
			}
			text := []rune(strings.Join(strings.Fields(a.description), " "))
			if len(text) > 60 {
				text = append(text[:60], '…')
			}
			j.tryFlow(fmt.Sprintf("%s to %q", r.what, string(text)),
				Flow{Fill: fillAnswer, refuse: &refusing{refusal: r, number: i, limit: v.Asks}})
		}
	}
	nobody := func(protocol.InputRequest) (json.RawMessage, error) { return nil, errNobody }
	j.tryFlow("a client that cannot be asked",
		Flow{Fill: nobody, Capabilities: &protocol.ClientCapabilities{}})
	if era == protocol.Modern {
		err = j.runAttacks()
	}
	return v, err
}

func (j *judge) play(flow Flow) (*Played, error) {
	flow.Request = j.request
	if j.era == protocol.Modern {
		return j.target.PlayModern(flow)
	}
	return j.target.PlayLegacy(flow, nil)
}

// tryFlow plays a flow that must not get the result of full acceptance.
func (j *judge) tryFlow(what string, flow Flow) {
	j.verdict.Tried++
	hasty := *j.target
	hasty.Timeout = min(hasty.timeout(), answerTimeout) // servers drop unreadable messages
	p, err := (&judge{target: &hasty, era: j.era, request: j.request}).play(flow)
	if err != nil || !p.out.isComplete() {
		return
	}
	text, err := p.textWithout(j.filled)
	if err == nil && sameButFresh(text, j.texts[0], j.texts[1]) {
		j.verdict.Open = append(j.verdict.Open, what)
	}
}

func (j *judge) runAttacks() error {
	victim, err := NewVictim(j.target, Flow{Request: j.request, Fill: fillAnswer})
	if err != nil {
		return err
	}
	for _, name := range j.target.AttackNames() {
		if name == refuseAttack {
			continue // was already tried, with more refusals
		}
		problems, skipped := victim.Attack(j.target, name)
		if skipped != "" {
			j.verdict.Skipped = append(j.verdict.Skipped, name+": "+skipped)
			continue
		}
		j.verdict.Tried++
		for _, problem := range problems {
			j.verdict.Open = append(j.verdict.Open, name+": "+problem.Error())
		}
	}
	return nil
}

// textWithout returns the result as text, without the texts of answers, which vary.
func (p *Played) textWithout(filled []string) (string, error) {
	text, err := p.encodeComparable()
	for _, value := range filled {
		text = strings.ReplaceAll(text, value, "")
	}
	return text, err
}

// filledTexts returns the texts of answers that are in no result by accident.
func (p *Played) filledTexts() (texts []string) {
	for _, a := range p.asked {
		var values map[string]json.RawMessage
		if json.Unmarshal(contentOf(a.answer.Result), &values) != nil {
			continue
		}
		for _, value := range values {
			var text string
			if json.Unmarshal(value, &text) == nil && len(text) >= 4 {
				texts = append(texts, text)
			}
		}
	}
	texts = append(texts, filling)
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // "x" may be in "xy"
	return texts
}
