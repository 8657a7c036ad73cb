package protocol_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
)

// strictNulls are optional members in which null is refused, since safety depends on them.
var strictNulls = []string{"inputRequests", "inputResponses", "requestState"}

// Each example, including questions, answers and notifications, is read with each optional member
// null, and with each integer spelled with a zero fraction. Only the strict members are refused.
func TestExamplesInOtherSpellings(t *testing.T) {
	wiretest.Need(t)
	raw, ok := wiretest.SchemaOf(string(protocol.Latest))
	if !ok {
		t.Fatal("no schema")
	}
	examples, _ := wiretest.Examples(string(protocol.Latest))
	definitions := decodeExactly(t, raw).(map[string]any)["$defs"].(map[string]any)
	spelled, refused := 0, map[string]bool{}
	for _, e := range examples {
		read := published[e.Type]
		if read == nil {
			continue
		}
		message := decodeExactly(t, e.JSON)
		r := respeller{definitions, func(object map[string]any, member, spelling string) {
			spelled++
			text, err := json.Marshal(message)
			noError(t, err)
			strict := spelling == "null" && slices.Contains(strictNulls, member) &&
				object["resultType"] != "complete" // asks nothing and is read without them
			if _, err := read(text); strict != (err != nil) {
				t.Errorf("%s/%s, %s %s: %v", e.Type, e.Name, member, spelling, err)
			}
			if strict {
				refused[member] = true
			}
		}}
		r.walk(definitions[e.Type].(map[string]any), message)
	}
	if got := slices.Sorted(maps.Keys(refused)); !slices.Equal(got, strictNulls) || spelled < 800 {
		t.Errorf("%d spellings, refused are %q, want %q", spelled, got, strictNulls)
	}
}

func decodeExactly(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	noError(t, d.Decode(&v))
	return v
}

// A respeller changes one member of a message at a time.
type respeller struct {
	definitions map[string]any
	try         func(object map[string]any, member, spelling string)
}

func (r respeller) walk(schema map[string]any, v any) {
	schema = r.resolve(schema, v)
	switch v := v.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		others, _ := schema["additionalProperties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			old, present := v[name]
			if !slices.Contains(required, any(name)) {
				v[name] = nil
				r.try(v, name, "null")
			}
			if number, ok := old.(json.Number); ok && !strings.Contains(number.String(), ".") {
				v[name] = number + ".0"
				r.try(v, name, string(number)+".0")
			}
			if v[name] = old; !present {
				delete(v, name)
			}
		}
		for name, member := range v {
			if sub, ok := properties[name].(map[string]any); ok {
				r.walk(sub, member)
			} else if others != nil {
				r.walk(others, member)
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for _, item := range v {
				r.walk(items, item)
			}
		}
	}
}

// resolve follows references, and picks the choice that matches v's constants and requires most.
func (r respeller) resolve(schema map[string]any, v any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return r.resolve(r.definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), v)
	}
	object, _ := v.(map[string]any)
	branches, _ := schema["anyOf"].([]any)
	best := -1
	for _, branch := range branches {
		candidate := r.resolve(branch.(map[string]any), v)
		properties, _ := candidate["properties"].(map[string]any)
		required, _ := candidate["required"].([]any)
		if object != nil && len(required) > best && isLike(object, properties, required) {
			schema, best = candidate, len(required)
		}
	}
	return schema
}

func isLike(object, properties map[string]any, required []any) bool {
	for _, name := range required {
		if _, present := object[name.(string)]; !present {
			return false
		}
	}
	for name, value := range object {
		property, _ := properties[name].(map[string]any)
		if want, isConst := property["const"]; isConst && want != value {
			return false
		}
	}
	return true
}
