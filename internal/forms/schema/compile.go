package schema

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// base is the URL that relative references resolve against. It is hierarchical, so that they
// resolve to other documents than the schema, and are refused.
const base = "schema:///"

const location = base + "_" // the schema's URL, which no reference names by chance

// Compile compiles a JSON Schema, which it copies. It returns an error, and never panics, for
// anything that is not a schema, exceeds limits, or refers to something outside itself. The error
// names the place in the schema and may quote the schema.
func Compile(schema []byte, limits Limits) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			// The compiler is third-party code and the schema untrusted.
			s, err = nil, fmt.Errorf("schema: cannot be compiled: %s",
				errtext.Mark(fmt.Sprint(r), 200))
		}
	}()
	limits = limits.withDefaults()
	s, err = compile(schema, limits)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

func compile(schema []byte, limits Limits) (*Schema, error) {
	if len(schema) > limits.MaxBytes {
		return nil, fmt.Errorf("is larger than %d bytes", limits.MaxBytes)
	}
	var doc any
	if err := jsonx.UnmarshalNumbers(schema, &doc); err != nil {
		return nil, err
	}
	if err := checkDialect(doc); err != nil {
		return nil, err
	}
	before := scan{most: limits.MaxSubschemas}
	if err := before.check("", doc); err != nil {
		return nil, err
	}
	compiled, err := build(doc)
	if err != nil {
		return nil, explain(err)
	}
	check := checker{depths: map[*jsonschema.Schema]int{}, sets: valueSets{}}
	if err := check.checkAll(compiled); err != nil {
		return nil, err
	}
	return &Schema{
		raw:      bytes.Clone(schema),
		root:     compiled,
		sets:     check.sets,
		flat:     isFlat(compiled, object),
		maxSteps: int64(limits.MaxSteps),
		bounded:  limits.BoundIntegers,
	}, nil
}

// build compiles the schema and each of its definitions. The compiler visits only referenced
// definitions, and an unused definition must not hide a reference that leaves the schema.
func build(doc any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // no loaders
	patterns := engine{left: maxPrograms}
	defer func() { patterns.ready = true }()
	c.UseRegexpEngine(patterns.compilePattern)
	for _, name := range formatNames { // replaces the compiler's formats with the forms'
		c.RegisterFormat(newFormat(name))
	}
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return nil, err
	}
	root, _ := doc.(map[string]any)
	for _, keyword := range []string{"$defs", "definitions"} {
		definitions, _ := root[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(definitions)) {
			step := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
			place := location + "#/" + keyword + "/" + url.PathEscape(step)
			if _, err := c.Compile(place); err != nil {
				return nil, err
			}
		}
	}
	return compiled, nil
}

// explain turns an error of the compiler into one for the schema's author.
func explain(err error) error {
	var load *jsonschema.LoadURLError
	var anchor *jsonschema.AnchorNotFoundError
	var pointer *jsonschema.JSONPointerNotFoundError
	var invalid *jsonschema.SchemaValidationError
	var faults *jsonschema.ValidationError
	switch {
	case errors.As(err, &load):
		return fmt.Errorf("reference %s leads out of the schema, and nothing is fetched",
			quote(local(load.URL)))
	case errors.As(err, &anchor):
		return fmt.Errorf("reference %s leads nowhere", quote(local(anchor.Reference)))
	case errors.As(err, &pointer):
		return fmt.Errorf("reference %s leads nowhere", quote(local(pointer.URL)))
	case errors.As(err, &invalid) && errors.As(invalid.Err, &faults):
		return firstFault(faults)
	}
	return errors.New(errtext.Mark(local(err.Error()), 200))
}

// The function local removes this package's base from a URL or message.
func local(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, location, ""), base, "")
}
