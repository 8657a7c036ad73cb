package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Params are the parameters of a client's request.
type Params interface {
	// RequestMetadata returns the _meta of the request, never nil.
	RequestMetadata() *RequestMeta
	coded
}

// RequestMetadata returns m itself.
func (m *RequestMeta) RequestMetadata() *RequestMeta { return m }

// DecodeParams decodes the parameters of a request that [DecodeMessage] returned; they alias raw.
// On a [CodeInvalidParams] error it also returns parameters with the readable part of _meta. For an
// unknown method it returns nil and a [CodeMethodNotFound] error.
func DecodeParams(method string, raw json.RawMessage) (Params, error) {
	known, ok := methods[method]
	if !ok {
		return nil, Errorf(CodeMethodNotFound, "method not found: %s", quoteClipped(method))
	}
	p := known.newParams()
	if p, ok := p.(*TaskParams); ok {
		p.update = method == MethodUpdateTask
	}
	meta := p.RequestMetadata()
	var failed error
	if raw != nil {
		failed = readMembers(raw, func(key, value []byte) (err error) {
			if string(key) == "_meta" {
				*meta, err = decodeRequestMeta(value)
				return err
			}
			return p.codeMembers(nil, member{key, value, nil})
		})
	}
	if failed == nil {
		failed = p.checkComplete()
	}
	if failed != nil {
		return p, Errorf(CodeInvalidParams, "invalid params: %v", failed)
	}
	return p, nil
}

// EncodeParams returns the JSON text of p.
func EncodeParams(p Params) (json.RawMessage, error) {
	w := beginObject(make([]byte, 0, startBytes))
	w.keepError(p.codeMembers(&w, member{}))
	if meta := p.RequestMetadata(); !meta.isZero() {
		meta.appendMeta(&w)
	}
	data, err := w.endObject()
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return data, nil
}

// RetryOf returns the answers and state within p, to be read or set, or nil if p cannot have any.
func RetryOf(p Params) *Retry {
	if p, ok := p.(interface{ retryOf() *Retry }); ok {
		return p.retryOf()
	}
	return nil
}

func (m *RequestMeta) checkComplete() error                    { return nil }
func (m *RequestMeta) codeMembers(*objectWriter, member) error { return nil }

func (p *CallToolParams) checkComplete() error { return requireText("name", p.Name) }

func (p *CallToolParams) codeMembers(w *objectWriter, m member) error {
	if w == nil { // in each request, so the members below are not tried one by one
		switch string(m.key) {
		case "name":
			return textMember(&p.Name, m.key, m.value)
		case "arguments":
			return objectMember(&p.Arguments, m.key, m.value)
		}
	}
	return firstError(
		w.codeText(m, "name", &p.Name),
		w.codeObject(m, "arguments", &p.Arguments),
		p.Retry.codeRetry(w, m))
}

func (p *GetPromptParams) checkComplete() error {
	if p.Arguments != nil {
		err := jsonx.Members(p.Arguments, func(key, value []byte) error {
			if value = orAbsent(value); value != nil && jsonx.KindOf(value) != jsonx.String {
				return fmt.Errorf("arguments: %s must be a string", quoteClipped(string(key)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return requireText("name", p.Name)
}

func (p *GetPromptParams) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeText(m, "name", &p.Name),
		w.codeObject(m, "arguments", &p.Arguments),
		p.Retry.codeRetry(w, m))
}

func (p *ReadResourceParams) checkComplete() error { return requireText("uri", p.URI) }

func (p *ReadResourceParams) codeMembers(w *objectWriter, m member) error {
	return firstError(w.codeText(m, "uri", &p.URI), p.Retry.codeRetry(w, m))
}

func (p *ListParams) codeMembers(w *objectWriter, m member) error {
	return w.codeNonEmptyText(m, "cursor", &p.Cursor)
}

func (p *ListenParams) codeMembers(w *objectWriter, m member) error {
	return w.codeValue(m, "notifications", &p.Notifications, true)
}

func (p *CompleteParams) checkComplete() error {
	if (p.Prompt == "") == (p.Template == "") {
		return fmt.Errorf("ref: must name a prompt or a resource")
	}
	return requireText("argument.name", p.Argument)
}

func (p *CompleteParams) codeMembers(w *objectWriter, m member) (err error) {
	ref := completionRef{"ref/resource", "", p.Template}
	if p.Prompt != "" {
		ref = completionRef{"ref/prompt", p.Prompt, ""}
	}
	argument, known := completionArgument{p.Argument, p.Value}, completionContext{p.Context}
	err = firstError(
		w.codeValue(m, "ref", &ref, true),
		w.codeValue(m, "argument", &argument, true),
		w.codeValue(m, "context", &known, p.Context != nil))
	p.Argument, p.Value, p.Context = argument.Name, argument.Value, known.Arguments
	if err == nil && m.reads("ref") {
		switch ref.Type {
		case "ref/prompt":
			p.Prompt = ref.Name
		case "ref/resource":
			p.Template = ref.URI
		default:
			err = fmt.Errorf("ref: unknown type %s", quoteClipped(ref.Type))
		}
	}
	return err
}

type completionRef struct {
	Type string `json:"type"`
	Name string `json:"name,omitzero"`
	URI  string `json:"uri,omitzero"`
}

type completionArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type completionContext struct {
	Arguments map[string]string `json:"arguments"`
}

func requireText(name, value string) error {
	if value == "" {
		return fmt.Errorf("%s: must be present", name)
	}
	return nil
}
