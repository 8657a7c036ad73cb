package form

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Limits of a form. They hold for authors and peers alike; a person fills it in.
const (
	// MaxSchema is the largest schema that is parsed, in bytes: the 100 KiB that the elicitation
	// router lets through.
	MaxSchema = 100 << 10
	// MaxFields is the largest number of properties.
	MaxFields = 100
	// MaxValues is the largest number of values to choose from in one field.
	MaxValues = 2000
)

// Options says how strict [Derive] and [Parse] are. The zero value is strict.
type Options struct {
	// AllowSecrets lets fields through whose name or title looks like a password, token or card
	// number. The specification forbids to ask for those with a form; URL elicitation is the way.
	AllowSecrets bool
	// Omit names fields of a struct that its form leaves out.
	Omit []string
}

// Form is a form's schema and the means to check answers against it. It is immutable; its methods
// may be called at the same time.
type Form struct {
	fields []field
	rules  []lazyRules    // of each field
	byName map[string]int // nil for a short form, which is searched in order
	schema json.RawMessage
	digest [32]byte
	// extra is the whole schema, where a peer's uses keywords outside the grammar that may restrict
	// the answer; else nil.
	extra *schema.Schema
}

// fewFields is up to how many fields a search in order beats a map.
const fewFields = 8

// newForm completes a form whose wire form is raw.
func newForm(fields []field, raw []byte) (*Form, error) {
	canonical, err := jsonx.AppendCanonical(nil, raw)
	if err != nil {
		return nil, fmt.Errorf("form: %w", err)
	}
	f := &Form{
		fields: fields,
		byName: indexByName(fields),
		rules:  make([]lazyRules, len(fields)),
		schema: raw,
		digest: sha256.Sum256(canonical),
	}
	return f, nil
}

// lazyRules is the schema of a field's value. It is compiled when the first answer is checked,
// since most forms of peers are passed on and never answered here.
type lazyRules struct {
	once   sync.Once
	schema *schema.Schema
}

func (f *Form) rulesOf(i int) *schema.Schema {
	rules := &f.rules[i]
	rules.once.Do(func() { rules.schema = f.fields[i].compileRules() })
	return rules.schema
}

// Schema returns the requestedSchema as it goes on the wire: of a derived form written in the order
// of the struct's fields, otherwise the bytes that were parsed. They must not be modified.
func (f *Form) Schema() json.RawMessage { return f.schema }

// Digest returns the SHA-256 of the canonical schema. Two spellings of the same schema have the
// same digest.
func (f *Form) Digest() [32]byte { return f.digest }

// Error says why an answer does not fit a form, or a form not the grammar. About an answer it names
// the field and the rule and never holds a value, so it may be logged and shown to the peer.
type Error struct {
	// Field is the property's name, cut at 200 bytes; empty when the whole is at fault.
	Field string
	// Reason is the rule, such as "must be an integer, got string".
	Reason string
}

// Error returns `form: field "count": must be an integer, got string`.
func (e *Error) Error() string {
	if e.Field == "" {
		return "form: " + e.Reason
	}
	return "form: field " + strconv.Quote(e.Field) + ": " + e.Reason
}

func fieldError(name, reason string) *Error {
	return &Error{Field: errtext.Mark(name, 200), Reason: reason}
}

// findField returns the field of that name, or -1.
func (f *Form) findField(name []byte) int { return searchFields(f.fields, f.byName, name) }

// indexByName returns the index of each field by its name, nil for a short list, which is searched
// in order.
func indexByName(fields []field) map[string]int {
	if len(fields) <= fewFields {
		return nil
	}
	byName := make(map[string]int, len(fields))
	for i := range fields {
		byName[fields[i].name] = i
	}
	return byName
}

// searchFields returns the index of the field of that name, or -1. byName is that of the fields.
func searchFields(fields []field, byName map[string]int, name []byte) int {
	if byName != nil {
		if i, ok := byName[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range fields {
		if fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// checkFields checks the fields of a form together. Each has passed checkDefinition.
func checkFields(fields []field, allowSecrets bool) error {
	if len(fields) > MaxFields {
		return &Error{
			Reason: fmt.Sprintf("has %d fields, at most %d are allowed", len(fields), MaxFields),
		}
	}
	names := make(map[string]bool, len(fields))
	for i := range fields {
		f := &fields[i]
		if names[f.name] {
			return fieldError(f.name, "appears twice")
		}
		names[f.name] = true
		if len(f.values) > MaxValues {
			return fieldError(f.name, fmt.Sprintf(
				"has %d values to choose from, at most %d are allowed", len(f.values), MaxValues))
		}
		if allowSecrets {
			continue
		}
		if word := f.secretWord(); word != "" {
			return fieldError(f.name, "looks like a secret ("+strconv.Quote(word)+
				"), and a form is no place for one: ask for it with a URL elicitation instead, "+
				"or allow it with AllowSecrets")
		}
	}
	return nil
}
