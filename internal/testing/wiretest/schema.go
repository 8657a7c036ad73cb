package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is the published JSON Schema of one revision. Methods may be called concurrently.
type Schema struct {
	revision      string
	requests      map[From]map[string]string // from method to definition
	notifications map[From]map[string]string
	results       map[string]string // from method to the definition of its result
	errors        map[int64][]string
	refs          string // prefix of definitions: "#/$defs/", until 2025-06-18 "#/definitions/"
	defs          map[string]definition

	mu       sync.Mutex // guards the fields below
	compiler *jsonschema.Compiler
}

type definition struct {
	Ref        string                `json:"$ref"`
	AnyOf      []definition          `json:"anyOf"`
	AllOf      []definition          `json:"allOf"`
	Const      any                   `json:"const"`
	Properties map[string]definition `json:"properties"`
}

// schemas has the schemas, each compiled once per test binary.
var schemas sync.Map // revision to func() (*Schema, error)

// Load returns the schema of revision, or false if there is no published data for it.
func Load(revision string) (*Schema, bool) {
	raw, ok := SchemaOf(revision)
	if !ok {
		return nil, false
	}
	load, _ := schemas.LoadOrStore(revision,
		sync.OnceValues(func() (*Schema, error) { return newSchema(revision, raw) }))
	schema, err := load.(func() (*Schema, error))()
	if err != nil {
		panic("wiretest: internal error: the schema of " + revision + " cannot be read: " +
			err.Error())
	}
	return schema, true
}

const resource = "mcp:///schema.json"

func newSchema(revision string, raw []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat() // by default in 2020-12 it is only an annotation
	if err := compiler.AddResource(resource, mend(doc)); err != nil {
		return nil, err
	}
	var file struct {
		Defs        map[string]definition `json:"$defs"`
		Definitions map[string]definition `json:"definitions"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	s := &Schema{revision: revision, refs: "#/$defs/", defs: file.Defs, compiler: compiler,
		requests: map[From]map[string]string{}, notifications: map[From]map[string]string{},
		results: map[string]string{}, errors: map[int64][]string{}}
	if s.defs == nil {
		s.refs, s.defs = "#/definitions/", file.Definitions
	}
	s.index()
	return s, nil
}

// mend restores parts of the normative TypeScript schema that published files lost: unions of
// string, number, boolean became integer, and JSONValue lacks null. Else form answer 1.5 fails.
func mend(node any) any {
	switch node := node.(type) {
	case []any:
		for i := range node {
			node[i] = mend(node[i])
		}
	case map[string]any:
		for name, child := range node {
			if kinds, ok := child.([]any); ok && name == "type" &&
				fmt.Sprint(kinds) == "[string integer boolean]" {
				node[name] = []any{"string", "number", "boolean"}
				continue
			}
			node[name] = mend(child)
		}
		if value, ok := node["JSONValue"].(map[string]any); ok {
			if union, ok := value["anyOf"].([]any); ok {
				value["anyOf"] = append(union, map[string]any{"type": "null"})
			}
		}
	}
	return node
}

// index finds definitions of methods, results and error codes in the file's unions by direction.
// Revision 2026-07-28 has no ServerRequest, so its servers may send no requests.
func (s *Schema) index() {
	for from, prefix := range map[From]string{Client: "Client", Server: "Server"} {
		s.requests[from] = s.methods(prefix + "Request")
		s.notifications[from] = s.methods(prefix + "Notification")
		for method, name := range s.requests[from] {
			result := strings.TrimSuffix(name, "Request") + "Result"
			if _, ok := s.defs[result]; !ok {
				result = "EmptyResult"
			}
			s.results[method] = result
		}
	}
	for name, def := range s.defs {
		for _, part := range def.Properties["error"].AllOf {
			if code, ok := part.Properties["code"].Const.(float64); ok {
				s.errors[int64(code)] = append(s.errors[int64(code)], name)
			}
		}
	}
}

// methods returns a union's members by method. A union of one member is published as that member.
func (s *Schema) methods(union string) map[string]string {
	found := make(map[string]string)
	def := s.defs[union]
	if method, ok := def.method(); ok {
		found[method] = union
	}
	for _, member := range def.AnyOf {
		name := strings.TrimPrefix(member.Ref, s.refs)
		if method, ok := s.defs[name].method(); ok {
			found[method] = name
		}
	}
	return found
}

func (d definition) method() (string, bool) {
	method, ok := d.Properties["method"].Const.(string)
	return method, ok
}

// Definition checks value, raw JSON, against one named definition of the schema.
func (s *Schema) Definition(name string, raw []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.check(name, value)
}

func (s *Schema) check(name string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.defs[name]; !known {
		return fmt.Errorf("schema of %s has no definition %s", s.revision, name)
	}
	compiled, err := s.compiler.Compile(resource + s.refs + name) // compiled once, then cached
	if err != nil {
		return fmt.Errorf("schema of %s: definition %s: %w", s.revision, name, err)
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("not a %s of %s: %w", name, s.revision, err)
	}
	return nil
}
