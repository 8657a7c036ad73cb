package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rondo-mcp/rondo/protocol"
)

// A ToolCall is a tool and its arguments, in JSON.
type ToolCall struct {
	Name      string
	Arguments json.RawMessage
}

// A Report is a table of tools, era by era, and what is said below it.
type Report struct {
	// Found is set if a tool fails open, loses answers or asks in one era alone, Failed if one
	// could not be judged.
	Found, Failed bool

	head  []string
	rows  [][]string
	notes []string
}

// Report judges the tools in both eras. Without any it lists those that there are, and calls none.
// It fails if the server serves neither era.
func (s *Survey) Report(calls []ToolCall) (*Report, error) {
	r := &Report{head: []string{"ERA", "TOOL", "ASKS", "ACCEPT", "DECLINE", "CANCEL", "FORGED",
		"MISSING", "STATE", "ANSWERS"}}
	if len(calls) == 0 {
		r.head = []string{"ERA", "TOOL", "REQUIRED ARGUMENTS"}
	}
	var refusals []error
	listed := make(map[string]bool)
	first := make(map[string]*Verdict) // in the era that was judged first
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		tools, err := s.ListTools(era)
		if err != nil {
			r.addRefusedEra(era, err)
			refusals = append(refusals, fmt.Errorf("%s: %w", eraName(era), err))
			continue
		}
		if len(calls) == 0 {
			r.addTools(era, tools)
		}
		for _, call := range calls {
			if slices.ContainsFunc(tools,
				func(t protocol.Tool) bool { return t.Name == call.Name }) {
				listed[call.Name] = true
				v := r.judgeTool(s, era, call)
				r.compareEras(first[call.Name], v)
				first[call.Name] = v
			} else {
				r.rows = append(r.rows, []string{eraName(era), call.Name, "(not listed)"})
			}
		}
	}
	if len(refusals) == 2 {
		return nil, fmt.Errorf("the server serves neither era: %w", errors.Join(refusals...))
	}
	for _, call := range calls {
		r.Failed = r.Failed || !listed[call.Name]
	}
	if len(calls) == 0 {
		r.notes = append(r.notes, "Nothing was called. Name tools with -tool NAME=ARGUMENTS; "+
			"calls have effects.")
	}
	return r, nil
}

// judgeTool adds the row of one tool, and returns nil where it could not be judged.
func (r *Report) judgeTool(s *Survey, era protocol.Era, call ToolCall) *Verdict {
	v, err := s.Judge(era, call.Name, call.Arguments)
	if err != nil {
		r.addFailure(era, call.Name, err)
		return nil
	}
	r.addVerdict(v)
	return v
}

// compareEras notes a tool that asks in one era and gives its result in the other unasked.
func (r *Report) compareEras(one, other *Verdict) {
	if one == nil || other == nil || (len(one.Asks) == 0) == (len(other.Asks) == 0) {
		return
	}
	if len(other.Asks) == 0 {
		one, other = other, one
	}
	if one.Complete {
		r.Found = true
		r.addNote(one.Era, one.Tool, "acts without asking, but asks in "+eraName(other.Era))
	}
}

func eraName(era protocol.Era) string {
	if era == protocol.Modern {
		return "2026-07-28"
	}
	return "2025-11-25"
}

// addVerdict adds a row. A cell is "ok" when no way of not answering gave the result of an accept,
// and "-" when there was nothing to try.
func (r *Report) addVerdict(v *Verdict) {
	row := []string{eraName(v.Era), v.Tool, fmt.Sprint(len(v.Asks)), "result"}
	if !v.Complete {
		row[3] = "no result"
		r.addNote(v.Era, v.Tool, "everything accepted: "+v.Accepted)
		r.Failed = r.Failed || len(v.Asks) == 0
	}
	for _, check := range v.Checks {
		switch {
		case len(check.Open) > 0:
			row = append(row, "OPEN")
			r.Found = true
		case check.Tried > 0:
			row = append(row, "ok")
		default:
			row = append(row, "-")
		}
		for _, what := range check.Open {
			r.addNote(v.Era, v.Tool, "fails open, with the result of an accept: "+what)
		}
	}
	answers := "kept"
	switch {
	case len(v.Asks) == 0:
		answers = "-"
	case len(v.Lost) > 0:
		answers, r.Found = "LOST", true
		for _, question := range slices.Compact(v.Lost) {
			r.addNote(v.Era, v.Tool, "asks again after an accept: "+question)
		}
	case !v.Complete:
		answers = "no result"
	}
	r.rows = append(r.rows, append(row, answers))
}

func (r *Report) addNote(era protocol.Era, tool, text string) {
	r.notes = append(r.notes, oneLine(eraName(era)+" "+tool+": "+text, 240))
}

// addFailure adds a row of a tool that could not be judged.
func (r *Report) addFailure(era protocol.Era, tool string, err error) {
	r.Failed = true
	r.rows = append(r.rows, []string{eraName(era), tool, "not judged"})
	r.addNote(era, tool, err.Error())
}

// addRefusedEra adds a row of an era that the server does not serve.
func (r *Report) addRefusedEra(era protocol.Era, err error) {
	r.rows = append(r.rows, []string{eraName(era), "(not served)"})
	r.notes = append(r.notes, oneLine(eraName(era)+": "+err.Error(), 240))
}

// addTools adds the tools of a list.
func (r *Report) addTools(era protocol.Era, tools []protocol.Tool) {
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

// Print writes the table and the notes.
func (r *Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(table, strings.Join(r.head, "\t"))
	for _, row := range r.rows {
		// A row with fewer cells would end the columns.
		row = slices.Concat(row, make([]string, max(0, len(r.head)-len(row))))
		_, also := fmt.Fprintln(table, strings.Join(row, "\t"))
		err = errors.Join(err, also)
	}
	err = errors.Join(err, table.Flush())
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
