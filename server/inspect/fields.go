package inspect

import (
	"encoding/json"
	"net/url"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/htmlform"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// readFields returns the inputs for a schema, filled with what was given before or else with the
// defaults. It reports false for schemas that are no flat form.
func readFields(schema json.RawMessage, given url.Values) (fields []htmlform.Field, ok bool) {
	parsed, err := form.ParsePeer(schema)
	if err != nil {
		return nil, false
	}
	shown, err := htmlform.New(parsed, given)
	return shown.Fields, err == nil
}

// contentOf returns what was entered, as a JSON object: the text of the field "json" where there
// is one, and else the fields.
func contentOf(schema json.RawMessage, given url.Values) (json.RawMessage, error) {
	if raw := given.Get("json"); raw != "" {
		return json.RawMessage(raw), jsonx.Check([]byte(raw))
	}
	parsed, err := form.ParsePeer(schema)
	if err != nil {
		return json.RawMessage("{}"), nil
	}
	shown, err := htmlform.New(parsed, given)
	if err != nil {
		return json.RawMessage("{}"), nil
	}
	return shown.Content()
}
