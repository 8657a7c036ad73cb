package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// reportRepair reports parsed arguments or, without names, repaired text.
//
//go:noinline
func (s *Server) reportRepair(ctx context.Context, request *Request, arguments ...string) {
	s.opts.Observer.Observe(ctx,
		event.MessageRepaired{Where: request.eventWhere(), Arguments: arguments})
}

// parseTexts returns arguments with JSON texts parsed (see [Options].ParseArguments) and their
// names, or nil if the result does not match the schema either.
func (t *tool) parseTexts(arguments json.RawMessage) (json.RawMessage, []string) {
	if len(t.noText) == 0 || jsonx.Check(arguments) != nil {
		return nil, nil
	}
	var names []string
	parsed := []byte("{")
	_ = jsonx.Members(arguments, func(name, value []byte) error {
		if t.noText[string(name)] && jsonx.KindOf(value) == jsonx.String {
			if text, err := jsonx.TextBytes(value); err == nil && jsonx.Check(text) == nil {
				value, names = text, append(names, string(name))
			}
		}
		if len(parsed) > 1 {
			parsed = append(parsed, ',')
		}
		parsed = append(append(jsonx.AppendTextBytes(parsed, name), ':'), value...)
		return nil
	})
	if names != nil {
		arguments, err := t.readArguments(append(parsed, '}'), false) // they may nest too deep now
		if err == nil {
			return arguments, names
		}
	}
	return nil, nil
}

// propertiesWithoutText returns the properties of a schema that admit no string.
func propertiesWithoutText(schema json.RawMessage) map[string]bool {
	var root map[string]any
	_ = jsonx.Unmarshal(schema, &root) // the schema has been compiled
	without := map[string]bool{}
	properties, _ := root["properties"].(map[string]any)
	for name, property := range properties {
		without[name] = refusesText(root, property)
	}
	return without
}

// refusesText reports whether a schema surely refuses text. Compiling refused circular references.
func refusesText(root map[string]any, schema any) bool {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		path := strings.Split(ref, "/")
		if len(path) != 3 || path[0] != "#" {
			return false
		}
		definitions, _ := root[path[1]].(map[string]any)
		return refusesText(root, definitions[path[2]])
	}
	switch types := s["type"].(type) {
	case string:
		return types != "string"
	case []any:
		return !slices.Contains(types, "string")
	}
	choices, _ := s["anyOf"].([]any)
	if choices == nil {
		choices, _ = s["oneOf"].([]any)
	}
	return len(choices) > 0 && !slices.ContainsFunc(choices, func(choice any) bool {
		return !refusesText(root, choice)
	})
}
