package roundtriptest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Effects count the effects of handlers that must not happen twice in a flow. They are
// reset when a flow starts. The zero value is ready; methods may be called concurrently.
type Effects struct {
	mu   sync.Mutex
	seen map[string]int
}

// Mark counts the effect called name. Call it where a handler charges a card, or sends a
// mail.
func (e *Effects) Mark(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = make(map[string]int)
	}
	e.seen[name]++
}

// Count returns how often an effect has happened since the last flow started.
func (e *Effects) Count(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[name]
}

func (e *Effects) resetCounts() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = nil
}

// copyCounts returns a copy of the counts. e may be nil.
func (e *Effects) copyCounts() map[string]int {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.seen)
}

// findProblems returns an error for each effect that happened more than once, or must not
// happen in the flow.
func (e *Effects) findProblems(flow Flow) (problems []error) {
	counts := e.copyCounts()
	for _, name := range flow.Never {
		if n := counts[name]; n > 0 {
			problems = append(problems, fmt.Errorf("the effect %q happened, which it must not in "+
				"this flow", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[name]; n > 1 {
			problems = append(problems, fmt.Errorf("the effect %q happened %d times in one flow: "+
				"a handler runs again in every round; put it behind the last question, or "+
				"remember what came of it (roundtrip.Memo)", name, n))
		}
	}
	return problems
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
