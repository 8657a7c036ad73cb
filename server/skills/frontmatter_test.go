package skills_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/skills"
)

// listed returns the frontmatter that skills/list has for a manifest.
func listed(t *testing.T, manifest string) (string, error) {
	t.Helper()
	srv, err := server.New(&server.Options{Info: servertest.Info()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := skills.Add(srv, folder("x/SKILL.md", manifest)); err != nil {
		return "", err
	}
	result, err := ask(t, connect(t, srv, protocol.Modern), "skills/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	front := result["skills"].([]any)[0].(map[string]any)["frontmatter"].(map[string]any)
	if front["name"] != "x" || front["description"] == "" {
		t.Errorf("%q: %v", manifest, front)
	}
	value, err := json.Marshal(front["v"])
	if err != nil {
		t.Fatal(err)
	}
	return string(value), nil
}

func TestFrontmatterIsToldAsParsersOfYAMLReadIt(t *testing.T) {
	for yaml, want := range map[string]string{
		"v: plain words, it's":              `"plain words, it's"`,
		"v: a#b # comment":                  `"a#b"`,
		"v: http://x/y:1":                   `"http://x/y:1"`,
		"v: 1.2.3":                          `"1.2.3"`,
		"v: 12":                             `12`,
		"v: -1.50":                          `-1.5`,
		"v: true":                           `true`,
		"v: 'it''s: 1' # c":                 `"it's: 1"`,
		`v: "a\n\"b\""`:                     `"a\n\"b\""`,
		"v: [a, b c, 1]":                    `["a","b c",1]`,
		"v: []":                             `[]`,
		"v:":                                `null`,
		"v:\n  # c\n  a: 1\n  b:\n    c: d": `{"a":1,"b":{"c":"d"}}`,
		"v:\n- a\n- 'b'":                    `["a","b"]`,
		"v:\n  - a\n  - b\nw: 1":            `["a","b"]`,
		"v: one\n  two\n  three # c":        `"one two three"`,
		"v: |\n  one\n    two\n\n  three\n": `"one\n  two\n\nthree\n"`,
		"v: |-\n  one\n":                    `"one"`,
		"v: >\n  one\n  two\n\n  three\n":   `"one two\nthree\n"`,
		"v: >-\n  one\n  two\nw: x":         `"one two"`,
	} {
		for _, newline := range []string{"\n", "\r\n"} {
			manifest := strings.ReplaceAll("---\nname: x\ndescription: d\n"+yaml+
				"\n---\nBody\n---\n", "\n", newline)
			if got, err := listed(t, manifest); err != nil || got != want {
				t.Errorf("%q: %s, %v; want %s", yaml, got, err, want)
			}
		}
	}
}

func TestFrontmatterThatParsersReadDifferentlyIsRefused(t *testing.T) {
	for _, yaml := range []string{"v: yes", "v: Null", "v: ~", "v: 010", "v: 1e3", "v: 1_000",
		"v: 2024-01-02", "v: 12:30", "v: .inf", "v: &a b", "v: *a", "v: !!str b", "v: a: b",
		"v: {a: b}",
		"v: [a, [b]]", "v: [a", "v: 'a", `v: "\x41"`, "v: 'a\n  b'", "v: @a", "v: - a", "v: ? a",
		"v: a\n\n  b", "v: a\n  # c\n  b", "v: a\n  b: c", "v: >\n  a\n    b\n  c", "v: |2\n  a",
		"v: |+\n  a", "v: |\n\n  a", "v:\n  a: b\n c: d", "v: a\nv: b", "name: y", "\tv: a",
		"v:\ta",
		"v:\n  - a: b\n    c: d", "? v", "v", "- v", "<<: v", "v: a\x00", "true: a", "yes: a",
		"...",
		"v:\n a:\n  b:\n   c:\n    d:\n     e:\n      f:\n       g:\n        h: i"} {
		got, err := listed(t, "---\nname: x\ndescription: d\n"+yaml+"\n---\n")
		if err == nil {
			t.Errorf("%q: %s", yaml, got)
		}
	}
}

func FuzzFrontmatter(f *testing.F) {
	for _, yaml := range []string{"v: >-\n  a\n\n  b", "v:\n - a\n - 'b'", "v: [a, 1]",
		"v: |\n  x"} {
		f.Add(yaml)
	}
	f.Fuzz(func(t *testing.T, yaml string) {
		_, _ = listed(t, "---\nname: x\ndescription: d\n"+yaml+"\n---\n")
	})
}
