package client

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// An Origin says where a question comes from, so that a person can be told who
// asks and why.
type Origin struct {
	// Key is the server's name for the question, unique within its round. With a
	// legacy server it is the id of its request, or of the visit.
	Key string
	// Method and Target are the request that the server will not complete
	// without an answer: its method, and the name of the tool or prompt or the
	// URI of the resource. Both are empty when a legacy server does not say.
	Method, Target string
	// Round counts from 1 the rounds of the call, with a legacy server its
	// questions; 0 when it does not say to what request they belong.
	Round int
}

// A FormQuestion asks the person to fill in a form.
type FormQuestion struct {
	Origin
	// Message is the server's text. It must not be trusted.
	Message string
	// Schema is the form: a flat JSON Schema object, checked to be one.
	Schema json.RawMessage
	Meta   protocol.Meta

	form *form.Form
}

// Check reports why content, a JSON object, may not be sent as the answer to
// q: the error names the field. Fields that are left out and have a default
// count as filled in.
func (q *FormQuestion) Check(content json.RawMessage) error {
	_, err := q.completeContent(content)
	return err
}

// fill completes content with defaults and validates it.
func (q *FormQuestion) completeContent(content json.RawMessage) (json.RawMessage, error) {
	if len(content) == 0 {
		content = json.RawMessage(`{}`)
	}
	if err := jsonx.Check(content); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	if jsonx.KindOf(content) != jsonx.Object {
		return nil, fmt.Errorf("content: must be a JSON object")
	}
	return q.form.Accept(content)
}

// A URLQuestion asks the person to visit a URL. The answer says whether the
// person agreed to, not what happened there. Servers of revision 2025-11-25 may
// refuse a request until somebody has been there (-32042): the request is then
// sent again as soon as the handler accepts, once for each visit, so a handler
// that can tell should return when the person is done.
type URLQuestion struct {
	Origin
	// Message is the server's text. It must not be trusted.
	Message string
	// URL has passed [Options.AllowURL].
	URL  string
	Meta protocol.Meta
}

// A SamplingQuestion asks for a message of a model.
type SamplingQuestion struct {
	Origin
	// Request is what is asked for. Its IncludeContext is empty unless
	// [Options.SamplingContext] is declared.
	Request protocol.CreateMessage
}

// A RootsQuestion asks which directories the server may work on.
type RootsQuestion struct {
	Origin
	Meta protocol.Meta
}

// Accept returns the answer of a person who agreed. Content is the form's
// values as a struct, a map or JSON text, nil for none; it must encode as a
// JSON object.
func Accept(content any) (*protocol.ElicitResult, error) {
	data, err := objectOf(content)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: data}, nil
}

// Decline returns the answer of a person who said no.
func Decline() *protocol.ElicitResult {
	return &protocol.ElicitResult{Action: protocol.ActionDecline}
}

// Cancel returns the answer of a person who dismissed the question.
func Cancel() *protocol.ElicitResult {
	return &protocol.ElicitResult{Action: protocol.ActionCancel}
}

// objectOf encodes an author's value as a JSON object. Nil, which includes nil
// maps and pointers, is absent; a json.RawMessage is taken as it is.
func objectOf(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		if err := jsonx.Check(v); err != nil {
			return nil, err
		}
		return v, requireObject(v)
	}
	data, err := jsonx.Marshal(v)
	if err != nil {
		return nil, err
	}
	if jsonx.KindOf(data) == jsonx.Null {
		return nil, nil
	}
	return data, requireObject(data)
}

func requireObject(data json.RawMessage) error {
	if kind := jsonx.KindOf(data); kind != jsonx.Object {
		return fmt.Errorf("must be a JSON object, got %s", kind)
	}
	return nil
}
