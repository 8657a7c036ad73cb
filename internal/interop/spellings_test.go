package interop_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

// A spelling is a message of the specification with one member spelled otherwise.
type spelling struct {
	name string // what is spelled otherwise
	text []byte
}

// A speller makes spellings by the schema of a revision.
type speller struct{ definitions map[string]any }

func newSpeller(t *testing.T, revision string) speller {
	t.Helper()
	wiretest.Need(t)
	raw, ok := wiretest.SchemaOf(revision)
	if !ok {
		t.Fatalf("no schema of %s", revision)
	}
	return speller{decodeExact(t, raw).(map[string]any)["$defs"].(map[string]any)}
}

func decodeExact(t *testing.T, raw []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func encodeExact(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// respell returns message, a value of a type of the schema, as it is and in each other spelling:
// each optional member null, and each integer with a fraction of zero.
func (s speller) respell(t *testing.T, typ string, message any) []spelling {
	all := []spelling{{"as published", encodeExact(t, message)}}
	definition := s.definitions[typ].(map[string]any)
	s.walk(definition, message, "", func(name string, set func(any) func()) {
		change := any(nil)
		if path, number, ok := strings.Cut(name, "="); ok {
			name, change = path+" "+number, json.Number(number)
		} else {
			name += " null"
		}
		undo := set(change)
		all = append(all, spelling{strings.TrimPrefix(name, "."), encodeExact(t, message)})
		undo()
	})
	return all
}

// walk calls each for every member that may be spelled otherwise, with what sets it.
func (s speller) walk(schema map[string]any, v any, path string,
	each func(name string, set func(any) func())) {
	schema = s.resolve(schema, v)
	switch v := v.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			old, present := v[name]
			set := func(to any) func() {
				v[name] = to
				return func() {
					if v[name] = old; !present {
						delete(v, name)
					}
				}
			}
			if !slices.Contains(required, any(name)) {
				each(path+"."+name, set)
			}
			if number, ok := old.(json.Number); ok && !strings.Contains(number.String(), ".") {
				each(path+"."+name+"="+number.String()+".0", set)
			}
			if sub, ok := properties[name].(map[string]any); ok && present {
				s.walk(sub, old, path+"."+name, each)
			}
		}
	case []any:
		if items, ok := schema["items"].(map[string]any); ok && len(v) > 0 {
			s.walk(items, v[0], path+"[0]", each)
		}
	}
}

// resolve follows references, and the branch of a choice that names the type of v.
func (s speller) resolve(schema map[string]any, v any) map[string]any {
	for {
		if ref, ok := schema["$ref"].(string); ok {
			schema = s.definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			continue
		}
		branches, _ := schema["anyOf"].([]any)
		found := false
		for _, branch := range branches {
			candidate := s.resolve(branch.(map[string]any), v)
			properties, _ := candidate["properties"].(map[string]any)
			typ, _ := properties["type"].(map[string]any)
			if object, ok := v.(map[string]any); ok && properties != nil &&
				(typ == nil || typ["const"] == object["type"]) {
				schema, found = candidate, true
				break
			}
		}
		if !found {
			return schema
		}
	}
}

// examplesOf returns the published examples of types that match, by type and name.
func examplesOf(t *testing.T, match func(typ string) bool) []wiretest.Example {
	t.Helper()
	wiretest.Need(t)
	all, ok := wiretest.Examples(modern)
	if !ok {
		t.Fatal("no examples")
	}
	return slices.DeleteFunc(all, func(e wiretest.Example) bool { return !match(e.Type) })
}

// A verdictTable says who takes which message.
type verdictTable struct {
	file string
	text strings.Builder
	rows int
}

func newVerdictTable(file, head string) *verdictTable {
	v := &verdictTable{file: file}
	fmt.Fprintf(&v.text, "%s\n\n| Message | Spelled | rondo | go-sdk | mcp-go |\n|---|---|---|---|---|\n",
		head)
	return v
}

// add adds a row. What both others take rondo takes, unless strict has a reason. A reason that is
// not needed any more fails, too.
func (v *verdictTable) add(t *testing.T, message, name string, took [3]bool,
	strict map[string]string, used map[string]bool) {
	t.Helper()
	v.rows++
	words := [3]string{"-", "-", "-"}
	for i := range took {
		if took[i] {
			words[i] = "takes"
		}
	}
	row := message + ": " + name
	if took[1] && took[2] && !took[0] {
		if strict[name] == "" {
			t.Errorf("%s: both others take it, rondo does not", row)
		}
		used[name] = true
		words[0] = "- (" + strict[name] + ")"
	}
	fmt.Fprintf(&v.text, "| %s | %s | %s | %s | %s |\n", message, name, words[0], words[1],
		words[2])
}

// finish prints the table and holds it against the transcript.
func (v *verdictTable) finish(t *testing.T, atLeast int, strict map[string]string,
	used map[string]bool) {
	t.Helper()
	t.Logf("%d rows\n%s", v.rows, v.text.String())
	if v.rows < atLeast {
		t.Errorf("%d rows, want %d at least", v.rows, atLeast)
	}
	for row := range strict {
		if !used[row] {
			t.Errorf("the exception %q is needed no more", row)
		}
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(v.file, []byte(v.text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(v.file)
	if err != nil {
		t.Fatal(err)
	}
	if v.text.String() != string(want) {
		t.Errorf("the table is not that of %s; run with -update and read the difference", v.file)
	}
}
