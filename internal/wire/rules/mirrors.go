package rules

// This file reads the x-mcp-header annotations of tool schemas (basic/transports/streamable-http,
// "Custom Headers from Tool Parameters"). Clients compute the headers, servers check them.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ParamPrefix starts the name of every mirrored header.
const ParamPrefix = "Mcp-Param-"

// maxParams limits the headers of one tool: servers and proxies limit headers to a few kilobytes.
const maxParams = 64

// A Mirror is one argument mirrored into a header.
type Mirror struct {
	Name string   // of the header, without ParamPrefix
	Path []string // properties that lead to the argument
	Type string   // "string", "integer" or "boolean"
}

// Mirrors are the mirrored arguments of one tool. They are immutable.
type Mirrors []Mirror

// ParseMirrors reads the annotations of a checked input schema. An invalid annotation makes the
// tool definition invalid: the error names the property and the rule.
func ParseMirrors(schema []byte) (Mirrors, error) {
	if !bytes.Contains(schema, []byte("x-mcp-header")) && !bytes.Contains(schema, []byte(`\u`)) {
		return nil, nil // the usual case, without walking the schema
	}
	var w walker
	if err := w.walkSchema(schema, nil, true); err != nil {
		return nil, fmt.Errorf("x-mcp-header: %w", err)
	}
	return w.table, nil
}

type walker struct{ table Mirrors }

// walkSchema walks one schema. reachable means that only properties keywords lead to it, so that an
// instance has exactly one value there.
func (w *walker) walkSchema(raw []byte, path []string, reachable bool) error {
	if jsonx.KindOf(raw) != jsonx.Object {
		return nil // true and false are schemas too
	}
	var annotation []byte
	typ := ""
	err := jsonx.Members(raw, func(key, value []byte) error {
		switch string(key) {
		case "x-mcp-header":
			annotation = value
		case "type":
			typ, _ = jsonx.Text(value)
		}
		return w.walkKeyword(string(key), value, path, reachable)
	})
	if err != nil || annotation == nil {
		return err
	}
	if !reachable || len(path) == 0 {
		return fmt.Errorf("annotation at a place that is not a chain of properties")
	}
	return w.addParam(annotation, path, typ)
}

func (w *walker) walkKeyword(key string, value []byte, path []string, reachable bool) error {
	switch key {
	case "const", "enum", "default", "examples", "x-mcp-header":
		return nil // data, not schemas
	case "properties":
		return jsonx.Members(value, func(name, sub []byte) error {
			return w.walkSchema(sub, append(path[:len(path):len(path)], string(name)), reachable)
		})
	case "$defs", "definitions", "patternProperties", "dependentSchemas":
		return jsonx.Members(value,
			func(_, sub []byte) error { return w.walkSchema(sub, nil, false) })
	}
	switch jsonx.KindOf(value) {
	case jsonx.Object:
		return w.walkSchema(value, nil, false)
	case jsonx.Array:
		return jsonx.Elements(value,
			func(_ int, sub []byte) error { return w.walkSchema(sub, nil, false) })
	}
	return nil
}

func (w *walker) addParam(annotation []byte, path []string, typ string) error {
	where := strings.Join(path, ".")
	name, err := jsonx.Text(annotation)
	switch {
	case err != nil:
		return fmt.Errorf("%s: must be a string", where)
	case !IsToken(name):
		return fmt.Errorf(
			"%s: must be a header name: one or more letters, digits or any of !#$%%&'*+-.^_`|~",
			where)
	case typ != "string" && typ != "integer" && typ != "boolean":
		return fmt.Errorf("%s: only a string, integer or boolean can be mirrored", where)
	case len(w.table) == maxParams:
		return errors.New("more than 64 mirrored properties")
	}
	for _, other := range w.table {
		if strings.EqualFold(other.Name, name) {
			return fmt.Errorf("%s: header name %s is used twice", where, name)
		}
	}
	w.table = append(w.table, Mirror{name, path, typ})
	return nil
}

// IsToken reports whether s is a field name of RFC 9110, section 5.1.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
