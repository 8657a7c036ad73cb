package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The published schemas leave objects open. This file refuses unnamed members, which may be another
// era's or misspelled, and what only the specification's text forbids.

// The method modern reports whether the revision is one without sessions.
func (s *Schema) modern() bool { return s.revision >= "2026-07-28" }

// The method closed refuses members that neither the definition nor foreign names.
func (s *Schema) closed(what string, object map[string]any, def definition,
	foreign ...string) error {
	known := append(s.properties(def), "_meta")
	for _, name := range slices.Sorted(maps.Keys(object)) {
		// Tasks belong to an extension that this check does not support.
		if (name == "task" || !slices.Contains(known, name)) && !slices.Contains(foreign, name) {
			return fmt.Errorf("%s has no %s in %s", s.revision, name, what)
		}
	}
	return nil
}

// envelope refuses objects that are no kind of message, or two kinds.
func envelope(object map[string]any) error {
	count := 0
	for _, name := range []string{"method", "result", "error"} {
		if _, ok := object[name]; ok {
			count++
		}
	}
	if count != 1 {
		return fmt.Errorf("a message has exactly one of method, result and error, not %d", count)
	}
	for name := range object {
		if !slices.Contains([]string{"jsonrpc", "id", "method", "params", "result", "error"},
			name) {
			return fmt.Errorf("JSON-RPC has no member %q in a message", name)
		}
	}
	return nil
}

func (s *Schema) callRules(kind, name, method string, object map[string]any,
	foreign []string) error {
	params, isObject := object["params"].(map[string]any)
	if _, present := object["params"]; present && !isObject {
		return fmt.Errorf("the params of %s are an object", method)
	}
	if method == "notifications/progress" {
		// Revision 2025-03-26 added it. Clients of 2024-11-05 get it, too, and may ignore it.
		foreign = append(slices.Clone(foreign), "message")
	}
	if err := s.closed("a "+kind+" "+method, params, s.defs[name].Properties["params"],
		foreign...); err != nil {
		return err
	}
	return s.metaRules(params)
}

// metaRules refuses keys of _meta that belong to the negotiation of a session.
func (s *Schema) metaRules(object map[string]any) error {
	meta, _ := object["_meta"].(map[string]any)
	if s.modern() {
		return nil
	}
	for _, name := range []string{"protocolVersion", "clientInfo", "clientCapabilities", "logLevel",
		"serverInfo", "subscriptionId"} {
		if _, ok := meta["io.modelcontextprotocol/"+name]; ok {
			return fmt.Errorf("%s has no %s in _meta", s.revision, name)
		}
	}
	return nil
}

// resultRules returns the definition that fits the result.
func (s *Schema) resultRules(answers string, result map[string]any,
	foreign []string) (name string, _ error) {
	name, ok := s.results[answers]
	if !ok {
		return "", fmt.Errorf("a result answers a request, and %s has none called %q", s.revision,
			answers)
	}
	if err := s.metaRules(result); err != nil {
		return "", err
	}
	what := "the answer to " + answers
	switch {
	case !s.modern(), result["resultType"] == "complete":
	case result["resultType"] != "input_required":
		return "", fmt.Errorf("%s has no resultType %v", s.revision, result["resultType"])
	case !slices.Contains([]string{"tools/call", "prompts/get", "resources/read"}, answers):
		return "", fmt.Errorf("the answer to %s cannot be input_required", answers)
	default:
		// The published union accepts any resultType, as InputRequiredResult's is no constant.
		name, what = "InputRequiredResult", "an input_required result"
		requests, hasRequests := result["inputRequests"]
		if _, hasState := result["requestState"]; !hasRequests && !hasState {
			return "", errors.New("an input_required result has at least one of inputRequests " +
				"and requestState")
		}
		if err := questionRules(requests); err != nil {
			return "", err
		}
	}
	return name, s.closed(what, result, s.defs[name], foreign...)
}

// questionRules refuses, in carried questions, an id or the elicitationId of pushed questions.
func questionRules(requests any) error {
	questions, _ := requests.(map[string]any)
	for key, question := range questions {
		object, _ := question.(map[string]any)
		for name := range object {
			if name != "method" && name != "params" {
				return fmt.Errorf("input request %q has no %s", key, name)
			}
		}
		params, _ := object["params"].(map[string]any)
		if _, ok := params["elicitationId"]; ok {
			return fmt.Errorf("input request %q has no elicitationId", key)
		}
	}
	return nil
}

func (s *Schema) errorRules(object map[string]any, foreign []string) (code int64, _ error) {
	said, ok := object["error"].(map[string]any)
	if !ok {
		return 0, errors.New("an error is an object")
	}
	members := definition{Properties: map[string]definition{"code": {}, "message": {}, "data": {}}}
	if err := s.closed("an error", said, members, foreign...); err != nil {
		return 0, err
	}
	number, _ := said["code"].(json.Number)
	code, err := number.Int64()
	switch {
	case err != nil:
		return 0, fmt.Errorf("the error code is no integer of 64 bits: %w", err)
	case code == -32042 && s.revision != "2025-11-25":
		return 0, fmt.Errorf("%s has no error -32042: asking for a URL visit is a result there "+
			"or not known at all", s.revision)
	case code >= -32022 && code <= -32020 && !s.modern():
		return 0, fmt.Errorf("%s has no error %d", s.revision, code)
	}
	return code, nil
}

// properties returns the property names of a definition and its parts.
func (s *Schema) properties(d definition) (names []string) {
	if d.Ref != "" {
		return s.properties(s.defs[strings.TrimPrefix(d.Ref, s.refs)])
	}
	names = slices.Collect(maps.Keys(d.Properties))
	for _, part := range slices.Concat(d.AnyOf, d.AllOf) {
		names = append(names, s.properties(part)...)
	}
	return names
}
