package form

import (
	"cmp"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

// The rules that an answer can break, for logs and metrics.
const (
	RuleRequired = "required"
	RuleType     = "type"
	RuleMinimum  = "minimum"
	RuleMaximum  = "maximum"
	RuleLength   = "length"
	RuleItems    = "items"
	RuleEnum     = "enum"
	RuleFormat   = "format"
	RulePattern  = "pattern"
	RuleRange    = "range" // outside the Go type's range
	RuleShape    = "shape" // the answer as a whole
	RuleOther    = "other"
)

// A Fault is an [Error] without the input, for metrics and for the person who is asked again.
type Fault struct {
	Field string // the property; empty for the whole answer
	Rule  string // one of the rules above
	Words string // for the person
}

const maxLabel = 80 // in characters: a peer may choose a title or name

// Explain returns the fault for an error of [Form.Accept].
func (f *Form) Explain(err error) Fault {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return Fault{Rule: RuleOther, Words: "The answer could not be used."}
	}
	if e.Field == "" {
		return Fault{Rule: RuleShape, Words: "The answer could not be read."}
	}
	if i := f.findField([]byte(e.Field)); i >= 0 {
		return f.fields[i].explainFault(e.Reason)
	}
	return Fault{Field: e.Field, Rule: RuleOther, Words: "The answer could not be used."}
}

func (f *field) explainFault(reason string) Fault {
	rule, words := f.explainReason(reason)
	return Fault{f.name, rule, f.displayName() + " " + words + "."}
}

func (f *field) displayName() string {
	label, n := []byte(nil), 0
	for _, r := range strings.TrimSpace(cmp.Or(f.title, f.name)) {
		if n++; n > maxLabel {
			label = append(label, "…"...)
			break
		}
		switch {
		case !unicode.IsPrint(r):
			r = ' '
		case n == 1:
			r = unicode.ToUpper(r)
		}
		label = utf8.AppendRune(label, r)
	}
	if len(label) == 0 {
		return "The answer"
	}
	return string(label)
}

// explainReason returns the rule of a reason and its text for a person.
func (f *field) explainReason(reason string) (rule, words string) {
	switch {
	case reason == "is required" && f.kind == boolean:
		// Some clients omit an unticked box.
		return RuleRequired,
			"was not answered: choose yes or no, and decline if you cannot choose no"
	case reason == "is required":
		return RuleRequired, reason
	case strings.HasPrefix(reason, "must be one of"),
		strings.HasPrefix(reason, "must hold nothing but"),
		reason == "must hold allowed values only":
		return RuleEnum, f.choiceWords(reason)
	case reason == "is out of range":
		return RuleRange, "is too small or too large"
	case strings.HasPrefix(reason, "must be a valid "),
		reason == "must be a date-time that a clock can show":
		return RuleFormat, f.formatWords()
	case strings.HasPrefix(reason, "must match the pattern"):
		return RulePattern, "does not have the required format"
	case strings.HasPrefix(reason, "must be at least "),
		strings.HasPrefix(reason, "must be more than "):
		return RuleMinimum, reason
	case strings.HasPrefix(reason, "must be at most "),
		strings.HasPrefix(reason, "must be less than "):
		return RuleMaximum, reason
	case f.kind == choices && (strings.HasPrefix(reason, "must have at ") ||
		strings.HasPrefix(reason, "must not hold the same")):
		return RuleItems, reason
	case strings.HasPrefix(reason, "must have at "):
		return RuleLength, reason
	case strings.HasPrefix(reason, "must be a"),
		strings.HasPrefix(reason, "must hold strings only"):
		return RuleType, f.typeWords()
	}
	return RuleOther, "is not valid here"
}

// choiceWords lists the choices: labels, and values that differ, because programs answer too.
func (f *field) choiceWords(reason string) string {
	if f.titles == nil {
		return reason
	}
	listed := errtext.Values(len(f.titles), func(i int) string {
		if f.titles[i] == f.values[i] {
			return errtext.Value(f.titles[i])
		}
		return errtext.Value(f.titles[i]) + " (" + errtext.Value(f.values[i]) + ")"
	})
	if f.kind == choices {
		return "must hold nothing but: " + listed
	}
	return "must be one of: " + listed
}

func (f *field) formatWords() string {
	switch f.format {
	case "email":
		return "must be an email address, such as name@example.com"
	case "uri":
		return "must be a whole address, such as https://example.com/page"
	case "date":
		return "must be a date, such as 2026-01-31"
	case "date-time":
		return "must be a date and a time, such as 2026-01-31T15:04:05Z"
	}
	return "does not have the required format"
}

func (f *field) typeWords() string {
	switch f.kind {
	case integer:
		return "must be a whole number"
	case number:
		return "must be a number"
	case boolean:
		return "must be yes or no"
	case choices:
		return "must be a list of choices"
	}
	return "must be a text"
}
