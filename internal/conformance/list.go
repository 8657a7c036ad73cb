package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Key names a check of the suite. Several checks may share it.
type Key struct {
	Scenario string
	ID       string
	Name     string // distinguishes checks with the same id
}

// A List has the expected results of one leg.
//
// Its text has a line per check: scenario, id, name and, unless SUCCESS, the status. "exclude
// PATTERN REASON" leaves scenarios out. Lines that begin with # are comments.
type List struct {
	header   []string // comments and exclusions, verbatim
	excluded []string // patterns of path.Match
	expected map[Key][]Status
}

// ParseList reads a list. An exclusion without a reason is an error.
func ParseList(text string) (*List, error) {
	l := &List{expected: map[Key][]Status{}}
	for i, line := range strings.Split(text, "\n") {
		if err := l.parse(line); err != nil {
			return nil, fmt.Errorf("list: line %d: %w", i+1, err)
		}
	}
	return l, nil
}

func (l *List) parse(line string) error {
	fields := strings.Fields(line)
	switch {
	case len(fields) == 0:
		return nil
	case fields[0][0] == '#':
		l.header = append(l.header, line)
		return nil
	case fields[0] == "exclude":
		if len(fields) < 3 {
			return fmt.Errorf("exclusion without a reason")
		}
		if _, err := path.Match(fields[1], ""); err != nil {
			return fmt.Errorf("exclusion %q: %w", fields[1], err)
		}
		l.header = append(l.header, line)
		l.excluded = append(l.excluded, fields[1])
		return nil
	case len(fields) < 3 || len(fields) > 4:
		return fmt.Errorf("has %d fields, want scenario, id, name and perhaps a status",
			len(fields))
	}
	key, status := Key{fields[0], fields[1], fields[2]}, Success
	if len(fields) == 4 {
		if status = Status(fields[3]); status != Info && status != Skipped {
			return fmt.Errorf("status %q: only %s and %s can be expected beside %s", status, Info,
				Skipped, Success)
		}
	}
	l.expected[key] = append(l.expected[key], status)
	return nil
}

func (l *List) scenarios() []string {
	var all []string
	for key := range l.expected {
		all = append(all, key.Scenario)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *List) exclusion(scenario string) string {
	for _, pattern := range l.excluded {
		if ok, _ := path.Match(pattern, scenario); ok {
			return pattern
		}
	}
	return ""
}

// Update replaces the checks with those in results. Failures and warnings become expected
// successes, so that an update hides no failure.
func (l *List) Update(results Results) {
	l.expected = map[Key][]Status{}
	for scenario, checks := range results {
		if l.exclusion(scenario) != "" {
			continue
		}
		for _, c := range checks {
			status := c.Status
			if status != Info && status != Skipped {
				status = Success
			}
			key := c.key(scenario)
			l.expected[key] = append(l.expected[key], status)
		}
	}
}

// Text returns the list in its text form, sorted.
func (l *List) Text() []byte {
	var body []string
	for key, statuses := range l.expected {
		for _, status := range statuses {
			line := key.Scenario + " " + key.ID + " " + key.Name
			if status != Success {
				line += " " + string(status)
			}
			body = append(body, line)
		}
	}
	slices.Sort(body)
	return []byte(strings.Join(slices.Concat(l.header, []string{""}, body), "\n") + "\n")
}
