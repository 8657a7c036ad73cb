package protocol

import (
	"cmp"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// urlRequiredText is the message of the specification's example.
const urlRequiredText = "This request requires more information."

// Legacy returns the error -32042 of revision 2025-11-25 (client/elicitation of that revision, "URL
// Elicitation Required Error"). Elicitations must not be empty, and each needs an id and a URL.
func (e *URLElicitationRequiredError) Legacy() (*Error, error) {
	if len(e.Elicitations) == 0 {
		return nil, fmt.Errorf("URL elicitation error: no elicitations")
	}
	w := beginObject(nil)
	w.addKey("elicitations")
	w.dst = append(w.dst, '[')
	for i, u := range e.Elicitations {
		if u == nil || u.ElicitationID == "" || u.URL == "" {
			return nil, fmt.Errorf(
				"URL elicitation error: elicitations[%d] must have an id and a URL", i)
		}
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		in := beginObject(w.dst)
		in.addText("mode", "url")
		in.addText("elicitationId", u.ElicitationID)
		in.addText("url", u.URL)
		in.addText("message", u.Message)
		w.dst, _ = in.endObject()
	}
	w.dst = append(w.dst, ']')
	data, err := w.endObject()
	if err != nil {
		return nil, err
	}
	message := cmp.Or(e.Message, urlRequiredText)
	return &Error{Code: CodeURLElicitationRequired, Message: message, Data: data}, nil
}

// URLElicitations returns a [CodeURLElicitationRequired] error's visits; false: none or unreadable.
func (e *Error) URLElicitations() ([]*ElicitURL, bool) {
	if e == nil || e.Code != CodeURLElicitationRequired {
		return nil, false
	}
	var visits []*ElicitURL
	err := walkMembers(e.Data, func(key, value []byte) error {
		if string(key) != "elicitations" {
			return nil
		}
		return jsonx.Elements(value, func(_ int, raw []byte) error {
			q, err := decodeElicit(raw)
			if err != nil {
				return err
			}
			u, ok := q.(*ElicitURL)
			if !ok {
				return fmt.Errorf("elicitations: only URL mode is allowed")
			}
			visits = append(visits, u)
			return nil
		})
	})
	return visits, err == nil && len(visits) > 0
}
