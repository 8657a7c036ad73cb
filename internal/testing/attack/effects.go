package attack

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Effects count what leaves a handler in a flow, by round. The zero value is ready; methods may
// be called concurrently, and those that only the judge calls on a nil pointer as well.
type Effects struct {
	mu     sync.Mutex
	marked map[string]int
	rounds [][]Effect
}

// An Effect is something that left a handler: an effect that it marked, or a request.
type Effect struct {
	// Text is what a person reads.
	Text string
	// Identity tells it from others with the same text: a digest of a body.
	Identity string
	// Repeatable means that it may happen again in a later round without harm: it changes nothing,
	// or who receives it can tell that it was repeated.
	Repeatable bool
}

// Mark counts an effect that must happen once.
func (e *Effects) Mark(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.marked == nil {
		e.marked = make(map[string]int)
	}
	e.marked[name]++
	e.addLocked(Effect{Text: name, Repeatable: true}) // findProblems counts it by itself
}

// Record counts what leaves a handler by itself.
func (e *Effects) Record(effect Effect) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addLocked(effect)
}

func (e *Effects) addLocked(effect Effect) {
	if len(e.rounds) == 0 {
		e.rounds = make([][]Effect, 1)
	}
	last := len(e.rounds) - 1
	e.rounds[last] = append(e.rounds[last], effect)
}

// Count returns how often an effect has been marked since the last flow started.
func (e *Effects) Count(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.marked[name]
}

// Rounds returns the texts of what left the handler in each round of the last flow.
func (e *Effects) Rounds() [][]string {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	rounds := make([][]string, len(e.rounds))
	for i, round := range e.rounds {
		for _, effect := range round {
			rounds[i] = append(rounds[i], effect.Text)
		}
	}
	return rounds
}

// resetCounts forgets the last flow.
func (e *Effects) resetCounts() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.marked, e.rounds = nil, nil
}

// startRound counts what follows as a round of its own. In a session, where the handler may wait
// instead of running again, a round begins when a question is answered.
func (e *Effects) startRound() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds = append(e.rounds, nil)
}

// copyCounts returns how often each effect happened that is not repeatable.
func (e *Effects) copyCounts() map[string]int {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := make(map[string]int)
	maps.Copy(counts, e.marked)
	for _, round := range e.rounds {
		for _, effect := range round {
			if !effect.Repeatable {
				counts[effect.Text]++
			}
		}
	}
	return counts
}

// findProblems returns an error for each effect that happened more than once, or must not
// happen in the flow.
func (e *Effects) findProblems(flow Flow) (problems []error) {
	if e == nil && len(flow.Never) > 0 {
		return []error{fmt.Errorf("the flow names the effect %q in Never, and nothing counts it: set "+
			"Subject.Effects", flow.Never[0])}
	}
	counts := e.copyCounts()
	for _, name := range flow.Never {
		if n := counts[name]; n > 0 {
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

// findRepeated returns what happened twice: a mark anywhere in the flow, and what was recorded if
// it is the same in two rounds. Within a round the same request may be a loop.
func (e *Effects) findRepeated() (found []string) {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.marked)) {
		if n := e.marked[name]; n > 1 {
			found = append(found, fmt.Sprintf("%q happened %d times", name, n))
		}
	}
	in := make(map[Effect]map[int]bool)
	var order []Effect
	for i, round := range e.rounds {
		for _, effect := range round {
			switch {
			case effect.Repeatable:
			case in[effect] == nil:
				in[effect] = map[int]bool{i: true}
				order = append(order, effect)
			default:
				in[effect][i] = true
			}
		}
	}
	for _, effect := range order {
		if n := len(in[effect]); n > 1 {
			found = append(found, fmt.Sprintf("%q happened in %d rounds", effect.Text, n))
		}
	}
	return found
}

// Cost describes what each round repeats, empty if nothing left the handler in more than one
// round.
func (e *Effects) Cost() string {
	var b strings.Builder
	busy := 0
	for i, round := range e.Rounds() {
		if len(round) == 0 {
			continue
		}
		busy++
		fmt.Fprintf(&b, "\nround %d: %s", i+1, strings.Join(round, "; "))
	}
	if busy < 2 {
		return ""
	}
	return "what leaves the handler in each round:" + b.String()
}

// effectsSince returns the effects that happened after the counts before.
func (e *Effects) effectsSince(before map[string]int) []string {
	var names []string
	for name, n := range e.copyCounts() {
		if n > before[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
