package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// A Verdict compares results with a list.
type Verdict struct {
	Passed int      // number of expectations met
	Failed []string // the reason of each failure, sorted
}

// Judge compares the results of a run with the list.
func (l *List) Judge(results Results) Verdict {
	var v Verdict
	for _, scenario := range l.scenarios() {
		passed, failed := l.judge(scenario, results[scenario])
		v.Passed += passed
		v.Failed = append(v.Failed, failed...)
	}
	v.Failed = append(v.Failed, l.strangers(results)...)
	slices.Sort(v.Failed)
	return v
}

// judge compares one scenario with the list. Every expectation takes one check of its name. The
// remaining checks must at least have passed.
func (l *List) judge(scenario string, checks []Check) (passed int, failed []string) {
	open := map[Key][]Status{}
	for key, statuses := range l.expected {
		if key.Scenario == scenario {
			open[key] = slices.Clone(statuses)
		}
	}
	for _, c := range checks {
		key := c.key(scenario)
		i := slices.Index(open[key], c.Status)
		met := i >= 0 || c.Status == Success // a result may be better than expected
		if i < 0 && len(open[key]) > 0 {
			i = 0
		}
		if i >= 0 {
			open[key] = slices.Delete(open[key], i, i+1)
		}
		switch {
		case !met:
			failed = append(failed, fmt.Sprintf("%s: %s %s: %s: %s", scenario, c.ID, c.Name,
				c.Status, cmp.Or(c.ErrorMessage, c.Description)))
		case i >= 0:
			passed++
		}
	}
	for key, statuses := range open {
		for _, status := range statuses {
			failed = append(failed,
				fmt.Sprintf("%s: %s %s: is missing, want %s", scenario, key.ID, key.Name, status))
		}
	}
	return passed, failed
}

func (l *List) strangers(results Results) []string {
	var found []string
	used := map[string]bool{}
	known := l.scenarios()
	for _, scenario := range slices.Sorted(maps.Keys(results)) {
		pattern := l.exclusion(scenario)
		used[pattern] = true
		if pattern == "" && !slices.Contains(known, scenario) {
			found = append(found, scenario+": is neither on the list nor excluded")
		}
	}
	for _, pattern := range l.excluded {
		if !used[pattern] {
			found = append(found, pattern+": is excluded, but there is no such scenario")
		}
	}
	return found
}

// JudgeControl judges a run without a subject, in which every listed scenario must have failed.
func (l *List) JudgeControl(results Results) Verdict {
	var v Verdict
	for _, scenario := range l.scenarios() {
		if _, failed := l.judge(scenario, results[scenario]); len(failed) > 0 {
			v.Passed++
			continue
		}
		v.Failed = append(v.Failed, scenario+": passes without a subject")
	}
	if len(results) == 0 {
		v.Failed = append(v.Failed, "the suite wrote no results, so nothing was tried")
	}
	return v
}
