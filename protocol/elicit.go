package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// ElicitForm asks the user to fill in a form (client/elicitation).
type ElicitForm struct {
	Message string
	Schema  json.RawMessage // requestedSchema: a flat JSON Schema object
	Meta    Meta
}

// ElicitURL asks the user to visit a URL, for data that must not pass through the client
// (client/elicitation, "URL Mode").
type ElicitURL struct {
	Message       string
	URL           string
	ElicitationID string // revision 2025-11-25 only
	Meta          Meta
}

// An ElicitAction is the user's reaction to a question.
type ElicitAction string

// The actions.
const (
	ActionAccept  ElicitAction = "accept"
	ActionDecline ElicitAction = "decline"
	ActionCancel  ElicitAction = "cancel"
)

// ElicitResult answers an [ElicitForm] or [ElicitURL].
type ElicitResult struct {
	Action ElicitAction
	// Content is an object of form values, nil when absent. It is not validated against a schema.
	Content json.RawMessage
	Meta    Meta
}

// Kind returns [KindElicitForm].
func (*ElicitForm) Kind() InputKind { return KindElicitForm }

// Kind returns [KindElicitURL].
func (*ElicitURL) Kind() InputKind { return KindElicitURL }

func (q *ElicitForm) appendParams(dst []byte, v Version) ([]byte, error) {
	w := beginObject(dst)
	// Revisions before 2025-11-25 have no mode member.
	if v >= V20251125 {
		w.addText("mode", "form")
	}
	w.addText("message", q.Message)
	if len(q.Schema) == 0 {
		w.recordError("requestedSchema", fmt.Errorf("must be present"))
	}
	w.addRawObject("requestedSchema", q.Schema)
	w.addRawObject("_meta", q.Meta)
	return w.endObject()
}

func (q *ElicitURL) appendParams(dst []byte, v Version) ([]byte, error) {
	w := beginObject(dst)
	if v < V20251125 {
		w.recordError("mode", fmt.Errorf("revision %s knows no URL elicitation", v))
	}
	w.addText("mode", "url")
	w.addText("message", q.Message)
	if q.URL == "" {
		w.recordError("url", fmt.Errorf("must not be empty"))
	}
	w.addText("url", q.URL)
	if v.Era() == Legacy {
		if q.ElicitationID == "" {
			w.recordError("elicitationId", fmt.Errorf("must not be empty in revision %s", v))
		}
		w.addText("elicitationId", q.ElicitationID)
	}
	w.addRawObject("_meta", q.Meta)
	return w.endObject()
}

func decodeElicit(raw []byte) (InputRequest, error) {
	var mode, message, url, id string
	var schema json.RawMessage
	var meta Meta
	hasMessage := false
	err := readMembers(raw, func(key, value []byte) error {
		switch string(key) {
		case "mode":
			return textMember(&mode, key, value)
		case "message":
			hasMessage = true
			return textMember(&message, key, value)
		case "url":
			return textMember(&url, key, value)
		case "elicitationId":
			return textMember(&id, key, value)
		case "requestedSchema":
			return objectMember(&schema, key, value)
		case "_meta":
			return objectMember(&meta, key, value)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case !hasMessage:
		return nil, fmt.Errorf("message: must be present")
	case mode == "url" && url == "":
		return nil, fmt.Errorf("url: must be present")
	case mode == "url":
		return &ElicitURL{Message: message, URL: url, ElicitationID: id, Meta: meta}, nil
	case mode != "" && mode != "form":
		return nil, fmt.Errorf("mode: unknown mode %s", quoteClipped(mode))
	case schema == nil:
		return nil, fmt.Errorf("requestedSchema: must be present")
	}
	return &ElicitForm{Message: message, Schema: schema, Meta: meta}, nil
}

// DecodeElicitResult reads the answer to an elicitation. The action must be one of the three, and
// the content of an accept an object, null or absent.
func DecodeElicitResult(raw []byte) (*ElicitResult, error) {
	return decodeAnswer[ElicitResult](raw, "elicitation")
}

func (r *ElicitResult) checkComplete() error {
	switch r.Action {
	case ActionAccept:
		if r.Content != nil && jsonx.KindOf(r.Content) != jsonx.Object {
			return fmt.Errorf("content: must be an object")
		}
	case ActionDecline, ActionCancel:
		r.Content = nil // declined input is not an answer
	default:
		return fmt.Errorf("action: unknown action %s", quoteClipped(string(r.Action)))
	}
	return nil
}

func (r *ElicitResult) codeMembers(w *objectWriter, m member) error {
	switch {
	case m.reads("action"):
		return actionMember(&r.Action, m.key, m.value)
	case m.reads("content"):
		r.Content = orAbsent(m.value) // here content is not a list of blocks
	case w != nil:
		w.addText("action", string(r.Action))
		w.addRawObject("content", r.Content)
	}
	return w.codeMeta(m, &r.Meta)
}

// actionMember reads the action, without allocating for a known action; the caller refuses others.
func actionMember(dst *ElicitAction, key, value []byte) error {
	text, err := jsonx.TextBytes(value)
	if err != nil {
		return fmt.Errorf("%s: must be a string", key)
	}
	switch ElicitAction(text) {
	case ActionAccept:
		*dst = ActionAccept
	case ActionDecline:
		*dst = ActionDecline
	case ActionCancel:
		*dst = ActionCancel
	default:
		*dst = ElicitAction(text)
	}
	return nil
}

// MarshalJSON returns the answer as a JSON object, without the content of a refusal.
func (r ElicitResult) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	w.keepError(firstError(r.checkComplete(), r.codeMembers(&w, member{})))
	return w.endObject()
}
