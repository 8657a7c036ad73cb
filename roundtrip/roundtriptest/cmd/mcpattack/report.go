package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rondo-mcp/rondo/internal/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// A report has the rows of a table, and what is said below it.
type report struct {
	rows   [][]string
	notes  []string
	found  bool // a tool fails open or loses answers
	failed bool // a tool could not be judged
}

var (
	verdictHead = []string{"ERA", "TOOL", "ASKS", "ACCEPT", "DECLINE", "CANCEL", "FORGED",
		"MISSING", "STATE", "ANSWERS"}
	listHead = []string{"ERA", "TOOL", "REQUIRED ARGUMENTS"}
)

func eraName(era protocol.Era) string {
	if era == protocol.Modern {
		return "2026-07-28"
	}
	return "2025-11-25"
}

// addVerdict adds a row. A cell is "ok" when no way of not answering gave the result of an accept,
// and "-" when there was nothing to try.
func (r *report) addVerdict(v *attack.Verdict) {
	row := []string{eraName(v.Era), v.Tool, fmt.Sprint(len(v.Asks)), "result"}
	if !v.Complete {
		row[3] = "no result"
		r.addNote(v.Era, v.Tool, "everything accepted: "+v.Accepted)
		r.failed = r.failed || len(v.Asks) == 0
	}
	for _, check := range v.Checks {
		switch {
		case len(check.Open) > 0:
			row = append(row, "OPEN")
			r.found = true
		case check.Tried > 0:
			row = append(row, "ok")
		default:
			row = append(row, "-")
		}
		for _, what := range check.Open {
			r.addNote(v.Era, v.Tool, "fails open: "+what+" gives the result of an accept")
		}
	}
	answers := "kept"
	switch {
	case len(v.Asks) == 0:
		answers = "-"
	case len(v.Lost) > 0:
		answers, r.found = "LOST", true
		for _, question := range slices.Compact(v.Lost) {
			r.addNote(v.Era, v.Tool, "asks again after an accept: "+question)
		}
	case !v.Complete:
		answers = "no result"
	}
	r.rows = append(r.rows, append(row, answers))
}

func (r *report) addNote(era protocol.Era, tool, text string) {
	r.notes = append(r.notes, oneLine(eraName(era)+" "+tool+": "+text, 240))
}

// addFailure adds a row of a tool that could not be judged.
func (r *report) addFailure(era protocol.Era, tool string, err error) {
	r.failed = true
	r.rows = append(r.rows, []string{eraName(era), tool, "not judged"})
	r.addNote(era, tool, err.Error())
}

// addRefusedEra adds a row of an era that the server does not serve.
func (r *report) addRefusedEra(era protocol.Era, err error) {
	r.rows = append(r.rows, []string{eraName(era), "(not served)"})
	r.notes = append(r.notes, oneLine(eraName(era)+": "+err.Error(), 240))
}

// addTools adds the tools of a list.
func (r *report) addTools(era protocol.Era, tools []protocol.Tool) {
	for _, tool := range tools {
		r.rows = append(r.rows, []string{eraName(era), oneLine(tool.Name, 60),
			oneLine(requiredArguments(tool.InputSchema), 60)})
	}
}

// requiredArguments names the arguments that a tool needs, with their types.
func requiredArguments(schema json.RawMessage) string {
	var s struct {
		Properties map[string]struct{ Type json.RawMessage }
		Required   []string
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return "?"
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) {
			names = append(names, name+": "+strings.Trim(string(s.Properties[name].Type), `"`))
		}
	}
	return strings.Join(names, ", ")
}

// print writes the table and the notes.
func (r *report) print(out io.Writer, list bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := verdictHead
	if list {
		head = listHead
	}
	_, err := fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, row := range r.rows {
		_, also := fmt.Fprintln(table, strings.Join(row, "\t"))
		err = errors.Join(err, also)
	}
	err = errors.Join(err, table.Flush())
	if list {
		r.notes = append(r.notes, "Nothing was called. Name tools with -tool NAME=ARGUMENTS; "+
			"calls have effects.")
	}
	if len(r.notes) > 0 {
		_, also := fmt.Fprintln(out, "\n"+strings.Join(r.notes, "\n"))
		err = errors.Join(err, also)
	}
	return err
}

// oneLine returns a text of the server as one line of at most limit characters that a terminal
// shows as they are.
func oneLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
