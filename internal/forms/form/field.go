package form

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

type kind byte

const (
	text    kind = iota // a string
	integer             // a number without a fraction
	number
	boolean
	choice  // one of a list of strings
	choices // some of a list of strings
)

type field struct {
	name     string
	key      []byte // encoded start of the member: `"name":`
	kind     kind
	required bool

	title       string
	description string

	format           string // may be empty
	minSize, maxSize *int   // nil for no limit; characters of a text, items of choices
	minimum, maximum *fields.Number

	values []string
	titles []string // one for each value, or nil

	fallback json.RawMessage // the default; may be nil

	// The field target is the answer's Go type, if it has limits that a schema cannot express, such
	// as the range of an integer or, for time.Time, no leap seconds. It may be nil.
	target reflect.Type
}

func newField(name string) field {
	key := make([]byte, 0, len(name)+len(`"":`))
	return field{name: name, key: append(jsonx.AppendText(key, name), ':')}
}

// checkValue returns the rule that raw, a valid JSON value, breaks, or "". The text never holds the
// value. rules is the result of compileRules.
func (f *field) checkValue(rules *schema.Schema, raw []byte) (reason string) {
	isNumber := jsonx.KindOf(raw) == jsonx.Number
	if isNumber && f.isNumeric() && schema.CheckNumber(json.Number(raw)) != nil {
		return "is out of range"
	}
	if err := rules.ValidateChecked(raw); err != nil {
		return f.wordFault(err)
	}
	return f.checkTarget(raw)
}

// readEntered converts raw, which breaks the rule of reason, in an optional field: an emptied input
// to nothing, a string to the number or boolean that it spells. Then the reason is "".
func (f *field) readEntered(rules *schema.Schema, raw []byte, reason string) ([]byte, string) {
	if jsonx.KindOf(raw) == jsonx.Null {
		return nil, ""
	}
	spelled, err := jsonx.Text(raw)
	switch {
	case err != nil:
		return raw, reason
	case spelled == "":
		return nil, ""
	case f.kind == boolean && (spelled == "true" || spelled == "false"):
		return []byte(spelled), ""
	case !f.isNumeric():
		return raw, reason
	}
	n, err := fields.ParseNumber(spelled)
	if err != nil || !n.FitsFloat(64) {
		return raw, reason
	}
	return []byte(spelled), f.checkValue(rules, []byte(spelled))
}

func (f *field) isNumeric() bool { return f.kind == integer || f.kind == number }

func (f *field) compileRules() *schema.Schema {
	rules := schema.Rules{Type: f.kind.typeName(), Format: f.format, Values: f.values,
		MinSize: f.minSize, MaxSize: f.maxSize}
	if f.minimum != nil {
		rules.Minimum = f.minimum.Exact()
	}
	if f.maximum != nil {
		rules.Maximum = f.maximum.Exact()
	}
	return rules.Compile()
}

// wordFault returns the reason of a schema's error, without the index of a choice.
func (f *field) wordFault(err error) string {
	fault, ok := errors.AsType[*schema.Error](err)
	switch {
	case !ok:
		return "must be " + f.kind.String()
	case f.kind != choices:
		return fault.Reason
	case fault.Field == "":
		if got, ok := strings.CutPrefix(fault.Reason, "must be an array, "); ok {
			return "must be an array of strings, " + got
		}
		return fault.Reason
	}
	if got, ok := strings.CutPrefix(fault.Reason, "must be a string, "); ok {
		return "must hold strings only, " + got
	}
	if listed, ok := strings.CutPrefix(fault.Reason, "must be one of: "); ok {
		return "must hold nothing but: " + listed
	}
	return "must hold allowed values only"
}

// checkTarget returns the reason why the Go type cannot hold raw, which is valid in the schema.
func (f *field) checkTarget(raw []byte) string {
	switch {
	case f.target == nil:
	case f.target == timeType:
		if s, err := jsonx.Text(raw); err != nil || !isGoTime(s) {
			return "must be a date-time that a clock can show"
		}
	case !fields.Number(string(raw)).Fits(f.target):
		return "is out of range"
	}
	return ""
}

func isGoTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func (k kind) String() string {
	return [...]string{
		"a string", "an integer", "a number", "a boolean", "a string", "an array of strings",
	}[k]
}

func (k kind) typeName() string {
	return [...]string{"string", "integer", "number", "boolean", "string", "array"}[k]
}

// appendValue appends raw, which has passed checkValue, for a Go decoder, which does not read 1.0
// or 1e3 as an integer, or -0 as an unsigned one.
func (f *field) appendValue(dst, raw []byte) []byte {
	if f.needsRewrite(raw) {
		return append(dst, fields.Number(string(raw)).Exact().Num().String()...)
	}
	return append(dst, raw...)
}

func (f *field) needsRewrite(raw []byte) bool {
	return f.kind == integer && (bytes.ContainsAny(raw, ".eE") || string(raw) == "-0" &&
		f.target != nil && strings.HasPrefix(f.target.Kind().String(), "uint"))
}

func (f *field) checkDefinition() error {
	unit := map[bool]string{false: "Length", true: "Items"}[f.kind == choices]
	switch {
	case f.minSize != nil && f.maxSize != nil && *f.minSize > *f.maxSize:
		return errors.New("min" + unit + " is above max" + unit)
	case f.minimum != nil && f.maximum != nil && f.minimum.Compare(*f.maximum) > 0:
		return errors.New("minimum is above maximum")
	case f.kind != choice && f.kind != choices:
		return nil
	case len(f.values) == 0:
		return errors.New("has no values to choose from")
	case f.titles != nil && len(f.titles) != len(f.values):
		return fmt.Errorf("has %d titles for %s", len(f.titles), count(len(f.values), "value"))
	}
	sorted := slices.Sorted(slices.Values(f.values))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return fmt.Errorf("lists the value %q twice", sorted[i])
		}
	}
	return nil
}

// secretWord returns the word that suggests a credential, or "".
func (f *field) secretWord() string {
	if f.kind == boolean || f.kind == choice || f.kind == choices {
		return ""
	}
	return cmp.Or(redact.FindSecretName(f.name), redact.FindSecretName(f.title))
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
