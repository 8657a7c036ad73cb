package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

func capabilities(t testing.TB, raw string) protocol.ClientCapabilities {
	t.Helper()
	c, err := protocol.DecodeClientCapabilities([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return c
}

func spelled(t testing.TB, c protocol.ClientCapabilities) string {
	t.Helper()
	raw, err := c.MarshalJSON()
	noError(t, err)
	return string(raw)
}

func TestMissing(t *testing.T) {
	kinds := map[string]protocol.InputRequest{
		"form":     &protocol.ElicitForm{},
		"url":      &protocol.ElicitURL{},
		"sampling": &protocol.CreateMessage{},
		"tools":    &protocol.CreateMessage{Tools: []protocol.Tool{{}}},
		"choice":   &protocol.CreateMessage{ToolChoice: &protocol.ToolChoice{}},
		"context":  &protocol.CreateMessage{IncludeContext: "allServers"},
		"roots":    &protocol.ListRoots{},
	}
	const none = `{}`
	for _, test := range []struct {
		declared string
		missing  map[string]string // unlisted capabilities are not missing
	}{
		{`{}`, map[string]string{
			"form": `{"elicitation":{}}`, "url": `{"elicitation":{"url":{}}}`,
			"sampling": `{"sampling":{}}`, "context": `{"sampling":{}}`,
			"tools": `{"sampling":{"tools":{}}}`, "choice": `{"sampling":{"tools":{}}}`,
			"roots": `{"roots":{}}`,
		}},
		{`{"elicitation":{},"sampling":{},"roots":{}}`, map[string]string{
			"url": `{"elicitation":{"url":{}}}`, "tools": `{"sampling":{"tools":{}}}`,
			"choice": `{"sampling":{"tools":{}}}`,
		}},
		{`{"elicitation":{"form":{}},"sampling":{"context":{}},"roots":{"listChanged":true}}`, map[string]string{
			"url": `{"elicitation":{"url":{}}}`, "tools": `{"sampling":{"tools":{}}}`,
			"choice": `{"sampling":{"tools":{}}}`,
		}},
		{`{"elicitation":{"url":{}},"sampling":{"tools":{}}}`, map[string]string{
			"form": `{"elicitation":{"form":{}}}`, "roots": `{"roots":{}}`,
		}},
		{`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`, nil},
		// A vendor's setting is not a mode: the declaration still means forms.
		{`{"elicitation":{"applyDefaults":true},"sampling":{},"roots":{}}`, map[string]string{
			"url": `{"elicitation":{"url":{}}}`, "tools": `{"sampling":{"tools":{}}}`,
			"choice": `{"sampling":{"tools":{}}}`,
		}},
		{`{"Elicitation":{},"SAMPLING":{},"root":{}}`, map[string]string{
			"form": `{"elicitation":{}}`, "url": `{"elicitation":{"url":{}}}`,
			"sampling": `{"sampling":{}}`, "context": `{"sampling":{}}`,
			"tools": `{"sampling":{"tools":{}}}`, "choice": `{"sampling":{"tools":{}}}`,
			"roots": `{"roots":{}}`,
		}},
	} {
		t.Run(test.declared, func(t *testing.T) {
			c := capabilities(t, test.declared)
			for kind, q := range kinds {
				want := test.missing[kind]
				if want == "" {
					want = none
				}
				missing := c.Missing(q)
				if got := spelled(t, missing); got != want || missing.IsZero() != (want == none) {
					t.Errorf("%s asked for %s lacks %s, want %s", test.declared, kind, got, want)
				}
				if again := c.Union(missing).Missing(q); !again.IsZero() {
					t.Errorf("%s with %s still lacks %s for %s", test.declared, spelled(t, missing),
						spelled(t, again), kind)
				}
				if lacks := c.Lacks(missing); lacks.IsZero() != missing.IsZero() {
					t.Errorf("%s lacks %s of %s", test.declared, spelled(t, lacks),
						spelled(t, missing))
				}
			}
		})
	}
	if missing := (protocol.ClientCapabilities{}).Missing(nil); !missing.IsZero() {
		t.Errorf("a nil question needs %s", missing)
	}
}

func TestLacksAndUnion(t *testing.T) {
	for _, test := range []struct{ have, needed, lacks, union string }{
		{`{}`, `{}`, `{}`, `{}`},
		{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{},"url":{}}}`,
			`{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{},"url":{}}}`},
		{`{"elicitation":{"url":{}}}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`,
			`{"elicitation":{"form":{},"url":{}}}`},
		{`{}`, `{"sampling":{}}`, `{"sampling":{}}`, `{"sampling":{}}`},
		{`{"sampling":{}}`, `{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`,
			`{"sampling":{"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, `{"sampling":{"context":{}}}`, `{"sampling":{"context":{}}}`, `{"sampling":{"context":{},"tools":{}}}`},
		{`{"sampling":{"tools":{}}}`, `{"sampling":{}}`, `{}`, `{"sampling":{"tools":{}}}`},
		{`{}`, `{"roots":{"listChanged":true}}`, `{"roots":{}}`, `{"roots":{"listChanged":true}}`},
		{`{"extensions":{"a":{"v":1}}}`, `{"extensions":{"a":{"v":2},"b":{}}}`,
			`{"extensions":{"b":{}}}`, `{"extensions":{"a":{"v":2},"b":{}}}`},
		{`{"experimental":{"a":{}}}`, `{"experimental":{"a":{}}}`, `{}`,
			`{"experimental":{"a":{}}}`},
	} {
		t.Run(test.have+"_and_"+test.needed, func(t *testing.T) {
			have, needed := capabilities(t, test.have), capabilities(t, test.needed)
			if got := spelled(t, have.Lacks(needed)); got != test.lacks {
				t.Errorf("%s lacks %s of %s, want %s", test.have, got, test.needed, test.lacks)
			}
			if got := spelled(t, have.Union(needed)); got != test.union {
				t.Errorf("%s and %s make %s, want %s", test.have, test.needed, got, test.union)
			}
			if lacks := have.Union(needed).Lacks(needed); !lacks.IsZero() {
				t.Errorf("%s and %s still lack %s", test.have, test.needed, lacks)
			}
			if spelled(t, have) != spelled(t, capabilities(t, test.have)) {
				t.Errorf("%s was changed to %s", test.have, spelled(t, have))
			}
		})
	}
}

// Without a mode nothing is declared; {} would mean forms.
func TestElicitationWithoutAMode(t *testing.T) {
	c := protocol.ClientCapabilities{Elicitation: &protocol.ElicitationCapability{}}
	if got := spelled(t, c); got != `{}` {
		t.Errorf("got %s", got)
	}
	if c.Missing(&protocol.ElicitForm{}).IsZero() {
		t.Error("may be asked to fill in forms")
	}
}

func TestCapabilitiesAreKept(t *testing.T) {
	for _, raw := range []string{
		`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"url":{}}}`,
		`{"elicitation":{"form":{},"url":{}}}`,
		`{"sampling":{}}`, `{"sampling":{"context":{},"tools":{}}}`, `{"roots":{}}`, `{"roots":{"listChanged":true}}`,
		`{"experimental":{"x":{"a":[1.0,"\u00e9"]}},"extensions":{"a":{},"b":{"n":9007199254740993}}}`,
	} {
		if got := spelled(t, capabilities(t, raw)); got != raw {
			t.Errorf("got  %s\nwant %s", got, raw)
		}
		var c protocol.ClientCapabilities
		if err := json.Unmarshal([]byte(raw), &c); err != nil || spelled(t, c) != raw {
			t.Errorf("UnmarshalJSON: %s, %v", c, err)
		}
	}
}

func TestMalformedCapabilities(t *testing.T) {
	for _, raw := range []string{
		``, `null`, `[]`, `"elicitation"`, `{"elicitation":true}`,
		`{"elicitation":[]}`,
		`{"elicitation":{"form":true}}`,
		`{"elicitation":{"url":[]}}`,
		`{"elicitation":{},"elicitation":{"url":{}}}`, `{"elicitation":{"url":{},"\u0075rl":{}}}`,
		`{"sampling":false}`,
		`{"roots":{"listChanged":"yes"}}`,
	} {
		if c, err := protocol.DecodeClientCapabilities([]byte(raw)); err == nil || !c.IsZero() {
			t.Errorf("%s: got %s, error %v", raw, c, err)
		}
	}
}

// Null and non-objects declare nothing.
func TestNullDeclaresNothing(t *testing.T) {
	for raw, want := range map[string]string{
		`{"elicitation":null,"sampling":null,"roots":null}`:    "none",
		`{"elicitation":{"form":null}}`:                        "elicitation",
		`{"elicitation":{"form":null,"url":{}}}`:               "elicitation.url",
		`{"elicitation":{"form":{},"url":null}}`:               "elicitation.form",
		`{"sampling":{"tools":null,"context":{}}}`:             "sampling.context",
		`{"roots":{"listChanged":null}}`:                       "roots",
		`{"experimental":[],"extensions":null}`:                "none",
		`{"experimental":{"a":true,"b":{},"c":null,"d":[{}]}}`: `experimental "b"`,
		`{"extensions":{"a":1,"b":{"c":null}}}`:                `extension "b"`,
	} {
		c, err := protocol.DecodeClientCapabilities([]byte(raw))
		if err != nil || c.String() != want {
			t.Errorf("%s: got %s, %v; want %s", raw, c, err, want)
		}
		lacks := c.Missing(&protocol.ElicitForm{})
		if want == "elicitation" && lacks.IsZero() {
			t.Errorf("%s: may be asked with a form", raw)
		}
	}
}

func TestCapabilitiesString(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                                    "none",
		`{"elicitation":{}}`:                    "elicitation.form",
		`{"elicitation":{"url":{}},"roots":{}}`: "elicitation.url, roots",
		`{"sampling":{"tools":{}},"extensions":{"b":{},"a":{}}}`: `sampling.tools, extension "a", extension "b"`,
		`{"sampling":{},"experimental":{"x":{}}}`:                `sampling, experimental "x"`,
	} {
		if got := capabilities(t, raw).String(); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
