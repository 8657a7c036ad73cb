package attack

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// The constant filling fills strings. No honest result contains it by accident.
const filling = "mcpattack"

// fillAnswer returns an answer that gives the server what it asks for.
func fillAnswer(q protocol.InputRequest) (json.RawMessage, error) {
	switch q := q.(type) {
	case *protocol.ElicitForm:
		content, err := fillForm(q.Schema)
		return fmt.Appendf(nil, `{"action":"accept","content":%s}`, content), err
	case *protocol.ElicitURL:
		return json.RawMessage(`{"action":"accept"}`), nil
	case *protocol.CreateMessage:
		return json.Marshal(protocol.CreateMessageResult{Role: protocol.Assistant, Model: filling,
			Content: []protocol.Content{&protocol.TextContent{Text: filling}}})
	case *protocol.ListRoots:
		return json.RawMessage(`{"roots":[{"uri":"file:///` + filling + `"}]}`), nil
	}
	return nil, fmt.Errorf("a %T is not known", q)
}

type formField struct {
	Type      string
	Format    string
	Enum      []json.RawMessage
	OneOf     []formChoice
	AnyOf     []formChoice // schema of items
	Items     *formField
	Default   json.RawMessage
	Minimum   *float64
	Maximum   *float64
	MinLength int
	MaxLength *int
	MinItems  int
}

type formChoice struct{ Const json.RawMessage }

// fillForm returns content that a schema accepts, as if from a person who agrees.
func fillForm(schema json.RawMessage) (json.RawMessage, error) {
	var form struct{ Properties map[string]formField }
	if err := json.Unmarshal(schema, &form); err != nil {
		return nil, fmt.Errorf("the form: %w", err)
	}
	content := make(map[string]any, len(form.Properties))
	for name, field := range form.Properties {
		content[name] = field.fillField()
	}
	return json.Marshal(content)
}

func (f *formField) fillField() any {
	if choices := joinChoices(f.Enum, f.OneOf); len(choices) > 0 {
		return chooseConsent(choices)
	}
	switch f.Type {
	case "boolean":
		return true
	case "integer", "number":
		return f.fillNumber()
	case "array":
		if f.Items == nil {
			return []any{}
		}
		choices := joinChoices(f.Items.Enum, f.Items.AnyOf)
		return choices[:min(max(1, f.MinItems), len(choices))]
	}
	return f.fillText()
}

func (f *formField) fillNumber() any {
	n := 1.0
	if f.Maximum != nil {
		n = min(n, math.Floor(*f.Maximum))
	}
	if f.Minimum != nil {
		n = max(n, math.Ceil(*f.Minimum))
	}
	if f.Type == "number" && f.Maximum != nil && n > *f.Maximum {
		return *f.Maximum // no integer is in range
	}
	return n
}

func (f *formField) fillText() string {
	text := filling
	switch f.Format {
	case "email":
		text += "@example.com"
	case "uri":
		text = "https://example.com/" + text
	case "date":
		return "2026-01-02"
	case "date-time":
		return "2026-01-02T03:04:05Z"
	}
	if missing := f.MinLength - len(text); missing > 0 {
		text += strings.Repeat("x", min(missing, 10_000)) // the server chooses the length
	}
	if f.MaxLength != nil && *f.MaxLength >= 0 && len(text) > *f.MaxLength {
		text = text[:*f.MaxLength]
	}
	return text
}

func joinChoices(enum []json.RawMessage, choices []formChoice) []json.RawMessage {
	all := slices.Clone(enum)
	for _, c := range choices {
		all = append(all, c.Const)
	}
	return all
}

func chooseConsent(choices []json.RawMessage) json.RawMessage {
	for _, choice := range choices {
		var text string
		if json.Unmarshal(choice, &text) != nil {
			continue
		}
		switch strings.ToLower(text) {
		case "yes", "y", "ok", "true", "accept", "allow", "approve", "confirm":
			return choice
		}
	}
	return choices[0]
}
