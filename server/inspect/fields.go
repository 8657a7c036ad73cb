package inspect

import (
	"encoding/json"
	"net/url"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/htmlform"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// readFields returns a schema's form fields, filled in, or false if it is no flat form.
func readFields(schema json.RawMessage, given url.Values) (fields []htmlform.Field, ok bool) {
	parsed, err := form.ParsePeer(schema)
	if err != nil {
		return nil, false
	}
	shown, err := htmlform.New(parsed, given)
	return shown.Fields, err == nil
}

// contentOf returns the entered JSON object: the text of the field "json" or else of the fields.
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
