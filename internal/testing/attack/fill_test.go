package attack_test

import (
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// TestFilledFormsAreValid checks filled content by the form's own rules.
func TestFilledFormsAreValid(t *testing.T) {
	for name, properties := range map[string]string{
		"texts": `"a":{"type":"string"},"b":{"type":"string","minLength":40},` +
			`"c":{"type":"string","maxLength":3}`,
		"formats": `"a":{"type":"string","format":"email"},"b":{"type":"string","format":"uri"},` +
			`"c":{"type":"string","format":"date"},"d":{"type":"string","format":"date-time"}`,
		"numbers": `"a":{"type":"integer","minimum":7},"b":{"type":"number","maximum":-2.5},` +
			`"c":{"type":"number","minimum":0.25,"maximum":0.5},"d":{"type":"integer"}`,
		"choices": `"a":{"type":"string","enum":["no","yes"]},` +
			`"b":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}`,
		"several": `"a":{"type":"array","items":{"type":"string","enum":["x","y"]},"minItems":2},` +
			`"b":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}`,
		"consent": `"a":{"type":"boolean","default":false}`,
	} {
		t.Run(name, func(t *testing.T) {
			schema := `{"type":"object","properties":{` + properties + `}}`
			f, err := form.ParsePeer([]byte(schema))
			testkit.NoError(t, err)
			content, err := attack.FillForm(json.RawMessage(schema))
			testkit.NoError(t, err)
			if _, err := f.Accept(content); err != nil {
				t.Errorf("%s: %v", content, err)
			}
		})
	}
}

func TestConsentIsChosen(t *testing.T) {
	content, err := attack.FillForm(json.RawMessage(
		`{"properties":{"sure":{"enum":["no","Yes"]},"really":{"type":"boolean"}}}`))
	if got, want := string(content), `{"really":true,"sure":"Yes"}`; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// Only words that differ between two flows of one era may differ.
func TestSameButFresh(t *testing.T) {
	for name, test := range map[string]struct {
		text, first, second string
		want                bool
	}{
		"equal":           {"Sure?", "Sure?", "Sure?", true},
		"nonce":           {"go to /a?n=3-z", "go to /a?n=1-x", "go to /a?n=2-y", true},
		"another word":    {"Really?", "Sure?", "Sure?", false},
		"beside a nonce":  {"pay 9 n=3", "pay 5 n=1", "pay 5 n=2", false},
		"more words":      {"Sure? n=3 now", "Sure? n=1", "Sure? n=2", false},
		"nonce of a path": {"https://b/3", "https://a/1", "https://a/2", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := attack.SameButFresh(test.text, test.first, test.second); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
