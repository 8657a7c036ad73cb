package attack

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Effects count a flow's effects by round. The zero value is ready. Methods may be called
// concurrently, and the judge's also on a nil pointer.
type Effects struct {
	mu     sync.Mutex
	rounds [][]Effect
	ever   map[string]bool // texts of all flows
}

// An Effect is a marked effect or a request.
type Effect struct {
	Text     string // shown to people
	Identity string // distinguishes equal texts, for example by a digest of a body
	// Repeatable effects change nothing, or their receiver can detect repetitions.
	Repeatable bool

	marked bool // must happen once in a flow; unmarked effects may be in a loop within a round
}

// Mark counts an effect that must happen once.
func (e *Effects) Mark(name string) { e.Record(Effect{Text: name, marked: true}) }

// Record counts an effect.
func (e *Effects) Record(effect Effect) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.rounds) == 0 {
		e.rounds = make([][]Effect, 1)
	}
	last := len(e.rounds) - 1
	e.rounds[last] = append(e.rounds[last], effect)
	if e.ever == nil {
		e.ever = make(map[string]bool)
	}
	e.ever[effect.Text] = true
}

// Count returns how often an effect was marked since the last flow started.
func (e *Effects) Count(name string) (n int) {
	for _, effect := range slices.Concat(e.copyRounds()...) {
		if effect.marked && effect.Text == name {
			n++
		}
	}
	return n
}

// Rounds returns the texts of the last flow's effects, by round.
func (e *Effects) Rounds() [][]string {
	rounds := e.copyRounds()
	texts := make([][]string, len(rounds))
	for i, round := range rounds {
		for _, effect := range round {
			texts[i] = append(texts[i], effect.Text)
		}
	}
	return texts
}

func (e *Effects) copyRounds() [][]Effect {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	rounds := slices.Clone(e.rounds)
	for i, round := range rounds {
		rounds[i] = slices.Clone(round)
	}
	return rounds
}

func (e *Effects) resetCounts() { e.setRounds(func([][]Effect) [][]Effect { return nil }) }

// startRound begins a round, which is a request, or in a session an answer.
func (e *Effects) startRound() {
	e.setRounds(func(rounds [][]Effect) [][]Effect { return append(rounds, nil) })
}

func (e *Effects) setRounds(change func([][]Effect) [][]Effect) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds = change(e.rounds)
}

func (e *Effects) copyCounts() map[Effect]int {
	counts := make(map[Effect]int)
	for _, effect := range slices.Concat(e.copyRounds()...) {
		if !effect.Repeatable {
			counts[effect]++
		}
	}
	return counts
}

func (e *Effects) findProblems(flow Flow) (problems []error) {
	if e == nil && len(flow.Never) > 0 {
		return []error{fmt.Errorf("the flow names the effect %q in Never, and nothing counts it: set "+
			"Subject.Effects", flow.Never[0])}
	}
	happened := e.effectsSince(nil, nil)
	for _, name := range flow.Never {
		if slices.Contains(happened, name) {
			problems = append(problems, fmt.Errorf("the effect %q happened, which it must not in "+
				"this flow", name))
		}
	}
	for _, name := range e.findRepeated() {
		problems = append(problems, fmt.Errorf("the effect %s in one flow: "+
			"a handler runs again in every round; put it behind the last question, or "+
			"remember what came of it (roundtrip.Memo)", name))
	}
	return problems
}

// CheckNever returns an error if Never names an effect that has happened in no flow so far.
func (e *Effects) CheckNever(never []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range never {
		if !e.ever[name] {
			return fmt.Errorf("the effect %q of Never happened in no flow: check its name, "+
				"or play a flow in which it happens as well", name)
		}
	}
	return nil
}

// findRepeated returns marks that recur, and requests in two rounds. Within a round loops are fine.
func (e *Effects) findRepeated() (found []string) {
	rounds := e.copyRounds()
	for effect, times := range e.copyCounts() {
		in := slices.DeleteFunc(slices.Clone(rounds),
			func(round []Effect) bool { return !slices.Contains(round, effect) })
		switch {
		case effect.marked && times > 1:
			found = append(found, fmt.Sprintf("%q happened %d times", effect.Text, times))
		case len(in) > 1:
			found = append(found, fmt.Sprintf("%q happened in %d rounds", effect.Text, len(in)))
		}
	}
	slices.Sort(found)
	return found
}

// Cost describes the effects that each round repeats. It is empty if only one round had effects.
func (e *Effects) Cost() string {
	lines := []string{"what leaves the handler in each round:"}
	for i, round := range e.Rounds() {
		if len(round) > 0 {
			lines = append(lines, fmt.Sprintf("round %d: %s", i+1, strings.Join(round, "; ")))
		}
	}
	if len(lines) < 3 {
		return ""
	}
	return strings.Join(lines, "\n")
}

// effectsSince returns effects after the counts in before, only known ones if known is not nil.
func (e *Effects) effectsSince(before, known map[Effect]int) (texts []string) {
	for effect, n := range e.copyCounts() {
		if n > before[effect] && (known == nil || known[effect] > 0) {
			texts = append(texts, effect.Text)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}
