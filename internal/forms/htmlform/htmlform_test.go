package htmlform_test

import (
	"net/url"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/htmlform"
)

// Any submission is a valid answer, or has faults to show.
func FuzzContent(f *testing.F) {
	for _, property := range []string{`{"type":"string","minLength":2,"default":"ab"}`,
		`{"type":"integer","minimum":1}`, `{"type":"number","exclusiveMaximum":2}`,
		`{"type":"boolean"}`, `{"enum":["","a"]}`, `{"enum":[1,2],"enumNames":["a","b"]}`,
		`{"type":"string","format":"email","pattern":"^a"}`,
		`{"type":"array","minItems":1,"items":{"type":"string","enum":["a","b"]},"default":["a"]}`,
	} {
		for _, body := range []string{"", "field.x=", "field.x=a", "field.x=1&field.x=a", "field.x=%00",
			"field.x=&field.x=a&field.x=b", "field.x=%0D%0Aa;=", "field.y=1.5&field.x=true"} {
			f.Add(`{"type":"object","properties":{"x":`+property+`,"y":`+property+
				`},"required":["y"]}`, body)
		}
	}
	f.Fuzz(func(t *testing.T, schema, body string) {
		parsed, err := form.ParsePeer([]byte(schema))
		if err != nil {
			return
		}
		given, _ := url.ParseQuery(body)
		shown, err := htmlform.New(parsed, given)
		if err != nil {
			t.Fatalf("%s cannot be shown: %v", schema, err)
		}
		content, err := shown.Content()
		faulty := shown.Fault != ""
		for _, field := range shown.Fields {
			faulty = faulty || field.Fault != ""
		}
		if faulty != (err != nil) {
			t.Errorf("%s, %s: %v, and the page shows a fault: %v", schema, body, err, faulty)
		}
		if err == nil {
			if err := parsed.Check(content); err != nil {
				t.Errorf("%s, %s: %s does not fit: %v", schema, body, content, err)
			}
		}
	})
}

func TestTextsOfStrangersAreMarked(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\tc":                  "a\nb\tc",
		"\u202ea\x1b[31m\r\a":      `\u202ea\x1b[31m\r\a`,
		"\u0645\u06cc\u200c\u062e": "\u0645\u06cc\u200c\u062e", // valid Persian
		"\xff":                     "\uFFFD",
	} {
		if got := htmlform.Text(text, 100); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := htmlform.Text("ééé", 5); got != "éé…" {
		t.Errorf("got %q", got)
	}
}
