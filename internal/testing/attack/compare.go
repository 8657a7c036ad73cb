package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/rondo-mcp/rondo/protocol"
)

// A rewording is a question worded differently than in revision 2026-07-28 in the foreground.
type rewording struct{ key, modern, other string }

// Compare returns how questions and results of a flow in a session or task differ from those in
// revision 2026-07-28. Error texts may differ, like variable parts such as a nonce. On a difference
// the flow is played in revision 2026-07-28 again: parts that differ between these are variable.
func (s *Target) Compare(flow Flow, other, modern *Played) (problems []error) {
	for _, q := range other.unasked {
		problems = append(problems, fmt.Errorf("the eras ask differently; %s is not "+
			"asked %q: %s", other.way(), q.key, q.description))
	}
	there, err := other.encodeComparable()
	here, also := modern.encodeComparable()
	if err := errors.Join(err, also); err != nil {
		return append(problems, err)
	}
	same := there == here || there == "" || here == ""
	if same && len(other.reworded) == 0 {
		return problems
	}
	var again *Played
	if modern.IsTask() {
		again, _, err = s.PlayTask(flow, nil, 0)
	} else {
		again, err = s.PlayModern(flow)
	}
	if err != nil {
		return append(problems, fmt.Errorf("the flow once more: %w", err))
	}
	for _, r := range other.reworded {
		if !sameButFresh(r.other, r.modern, again.descriptionOf(r.key)) {
			problems = append(problems, fmt.Errorf("the eras ask differently: %s is asked "+
				"what revision 2026-07-28 is not; question %q, there:\n%s\nmodern:\n%s",
				other.way(), r.key, r.other, r.modern))
		}
	}
	switch second, err := again.encodeComparable(); {
	case same:
	case err != nil:
		problems = append(problems, err)
	case second == "":
		problems = append(problems,
			fmt.Errorf("the flow ends with %s when it is played again", again.out))
	case !sameButFresh(there, here, second):
		problems = append(problems, fmt.Errorf("the eras answer differently; %s:\n%s\nmodern:\n%s",
			other.way(), there, here))
	}
	return problems
}

func (p *Played) way() string {
	if p.IsTask() {
		return "a task"
	}
	return "a session"
}

func (p *Played) descriptionOf(key string) string {
	for _, a := range p.asked {
		if a.key == key {
			return a.description
		}
	}
	return ""
}

// sameButFresh reports whether text equals first, except where first and second differ.
func sameButFresh(text, first, second string) bool {
	if text == first || text == second {
		return true
	}
	texts, firsts := words.FindAllString(text, -1), words.FindAllString(first, -1)
	seconds := words.FindAllString(second, -1)
	if len(texts) != len(firsts) || len(texts) != len(seconds) {
		return false
	}
	for i, word := range texts {
		if word != firsts[i] && firsts[i] == seconds[i] {
			return false
		}
	}
	return true
}

// words splits a text into words, such as nonces, digests and times, and separators.
var words = regexp.MustCompile(
	`[-_.:+%~0-9A-Za-z\x80-\x{10FFFF}]+|[^-_.:+%~0-9A-Za-z\x80-\x{10FFFF}]+`)

// encodeComparable encodes the result (none: "") in the older revision, without metadata.
func (p *Played) encodeComparable() (string, error) {
	if !p.out.isComplete() {
		return "", nil
	}
	data, err := protocol.EncodeResult(protocol.V20251125, p.flow.Request.Method, p.out.result)
	if err != nil {
		return "", err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return "", err
	}
	delete(members, "_meta")
	data, err = json.Marshal(members)
	return string(data), err
}
