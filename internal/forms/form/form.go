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

// Limits of a form, for handlers and peers alike.
const (
	MaxSchema = 100 << 10 // bytes, the 100 KiB of the elicitation router
	MaxFields = 100       // properties
	MaxValues = 2000      // choices of one field
)

// Options configures [Derive] and [Parse]. The zero value is strict.
type Options struct {
	// AllowSecrets allows fields whose name or title suggests a password, token or card number. The
	// specification forbids asking for such secrets with a form; use URL elicitation.
	AllowSecrets bool
	Omit         []string // fields of a struct to leave out
}

// Form is an immutable form to check answers against. Methods may be called concurrently.
type Form struct {
	fields []field
	rules  []lazyRules    // by field
	byName map[string]int // nil for a short form
	schema json.RawMessage
	digest [32]byte
	// The field extra, if not nil, is a peer's schema with rules outside the grammar.
	extra *schema.Schema
}

// fewFields is the largest number of fields for which linear search beats a map.
const fewFields = 8

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

// lazyRules compiles a field's schema when first needed: most forms of peers are only relayed.
type lazyRules struct {
	once   sync.Once
	schema *schema.Schema
}

func (f *Form) rulesOf(i int) *schema.Schema {
	rules := &f.rules[i]
	rules.once.Do(func() { rules.schema = f.fields[i].compileRules() })
	return rules.schema
}

// Schema returns the requestedSchema for the wire: in field order for a derived form, otherwise the
// parsed bytes. It must not be modified.
func (f *Form) Schema() json.RawMessage { return f.schema }

// Digest returns the SHA-256 of the canonical schema, which is equal for all spellings of a schema.
func (f *Form) Digest() [32]byte { return f.digest }

// Error describes an answer that does not fit a form, or a form that does not fit the grammar. It
// never holds a value of an answer, so it may be logged and sent to the peer.
type Error struct {
	Field  string // property name, cut at 200 bytes; empty for the whole answer or form
	Reason string // such as "must be an integer, got string"
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

func (f *Form) findField(name []byte) int { return searchFields(f.fields, f.byName, name) }

// indexByName returns the index of each field by name, nil for a short list.
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

// searchFields returns the index of the field, or -1. byName is from indexByName.
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

// checkFields checks the fields of a form together, after checkDefinition has checked each.
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
