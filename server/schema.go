package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const anyObject = `{"type":"object"}` // of tools without an input schema

// inferSchema derives a schema from a Go type, as encoding/json writes it, and its struct tags.
func inferSchema(t reflect.Type, g tagger) (json.RawMessage, error) {
	if err := fields.CheckType(t); err != nil {
		return nil, err
	}
	inferred, err := jsonschema.ForType(t,
		&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[json.RawMessage](): {},
			reflect.TypeFor[json.Number]():     {Type: "number"},
			reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
			reflect.TypeFor[[]byte](): {Types: []string{"null", "string"},
				ContentEncoding: "base64"},
		}})
	if err != nil {
		if _, name, ok := strings.Cut(err.Error(), "cycle detected for type "); ok {
			err = fmt.Errorf("%s contains itself: give the tool an InputSchema or OutputSchema, "+
				"which can refer to itself with $ref", name)
		}
		return nil, err
	}
	if err := g.applyTags(inferred, t); err != nil {
		return nil, err
	}
	return marshalSchema(inferred)
}

// inputSchema compiles an argument schema (server/tools): explicit, which must fit t, or t's own.
func inputSchema(explicit json.RawMessage, t reflect.Type) (*schema.Schema, error) {
	raw := explicit
	if raw == nil {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		var err error
		if raw, err = inferSchema(t, tagger{arguments: true}); err != nil {
			return nil, fmt.Errorf("input schema: %w", err)
		}
		if t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]() {
			raw = json.RawMessage(anyObject)
		}
	}
	compiled, err := compileSchema(raw, schema.Limits{BoundIntegers: true})
	if err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := jsonx.Unmarshal(compiled.Raw(), &top); err != nil || top.Type != "object" {
		return nil, fmt.Errorf(`input schema: type must be "object": arguments are an object`)
	}
	if explicit == nil {
		return compiled, nil
	}
	if err := fields.CheckType(t); err != nil {
		return nil, fmt.Errorf("input type: %w", err)
	}
	if err := checkFit(compiled.Raw(), t); err != nil {
		return nil, fmt.Errorf("input schema: does not fit %v: %w", t, err)
	}
	return compiled, nil
}

// outputSchema compiles the schema of structured content: explicit, or t's own, or nil.
func outputSchema(explicit json.RawMessage, t reflect.Type) (*schema.Schema, error) {
	raw := explicit
	if raw == nil && t != nil {
		var err error
		if raw, err = inferSchema(t, tagger{}); err != nil {
			return nil, fmt.Errorf("output schema: %w", err)
		}
	}
	if raw == nil {
		return nil, nil
	}
	compiled, err := compileSchema(raw, schema.Limits{})
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	return compiled, nil
}

// compileSchema compiles a copy: the author may reuse the bytes.
func compileSchema(raw json.RawMessage, limits schema.Limits) (*schema.Schema, error) {
	if err := jsonx.Check(raw); err != nil {
		return nil, err
	}
	return schema.Compile(jsonx.AppendCompact(nil, raw), limits)
}

// decodeArguments decodes valid arguments. Errors of UnmarshalJSON methods and number ranges name
// only the field, because their texts repeat values.
func decodeArguments[In any](decoder *jsonx.Decoder[In], arguments json.RawMessage) (In, error) {
	in, err := decoder.Decode(arguments)
	if err == nil {
		return in, nil
	}
	culprit := errors.New("they do not fit the tool's input type")
	_ = jsonx.Members(arguments, func(key, value []byte) error {
		alone := append(jsonx.AppendTextBytes([]byte("{"), key), ':')
		alone = append(append(alone, value...), '}')
		if jsonx.Unmarshal(alone, new(In)) != nil {
			culprit = fmt.Errorf("field %q: is not a value that the tool understands",
				clipQuoted(string(key)))
			return culprit
		}
		return nil
	})
	return in, culprit
}
