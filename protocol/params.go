package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Params are the parameters of a request that a client sends.
type Params interface {
	// RequestMetadata returns the _meta of the request, never nil.
	RequestMetadata() *RequestMeta
	appendMembers(w *objectWriter)
	readMember(key, value []byte) error
	checkComplete() error
}

// RequestMetadata returns m itself.
func (m *RequestMeta) RequestMetadata() *RequestMeta { return m }

// newParams returns empty parameters of the type that method takes, nil for a
// method this package does not know.
func newParams(method string) Params {
	switch method {
	case MethodCallTool:
		return &CallToolParams{}
	case MethodGetPrompt:
		return &GetPromptParams{}
	case MethodReadResource:
		return &ReadResourceParams{}
	case MethodListTools, MethodListPrompts, MethodListResources, MethodListResourceTemplates:
		return &ListParams{}
	case MethodDiscover:
		return &DiscoverParams{}
	case MethodComplete:
		return &CompleteParams{}
	case MethodListen:
		return &ListenParams{}
	case MethodInitialize:
		return &InitializeParams{}
	case MethodPing:
		return &PingParams{}
	case MethodSetLevel:
		return &SetLevelParams{}
	case MethodGetTask, MethodCancelTask:
		return &TaskParams{}
	case MethodUpdateTask:
		return &TaskParams{update: true}
	case MethodSubscribe, MethodUnsubscribe:
		return &SubscribeParams{}
	}
	return nil
}

// DecodeParams reads the parameters of a request, which must have been decoded
// by [DecodeMessage]; they alias raw. An error is an [*Error] with code
// [CodeInvalidParams]; the parameters returned beside it hold whatever _meta
// could be read. For an unknown method it returns nil and a
// [CodeMethodNotFound] error.
func DecodeParams(method string, raw json.RawMessage) (Params, error) {
	p := newParams(method)
	if p == nil {
		return nil, Errorf(CodeMethodNotFound, "method not found: %s", quoteClipped(method))
	}
	meta := p.RequestMetadata()
	var failed error
	if raw != nil {
		failed = readMembers(raw, func(key, value []byte) (err error) {
			if string(key) == "_meta" {
				*meta, err = decodeRequestMeta(value)
				return err
			}
			return p.readMember(key, value)
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
	p.appendMembers(&w)
	if meta := p.RequestMetadata(); !meta.isZero() {
		meta.appendMeta(&w)
	}
	data, err := w.endObject()
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return data, nil
}

// RetryOf returns the answers and the state of the parameters of a method that can ask, to be read
// or set; nil for other parameters.
func RetryOf(p Params) *Retry {
	switch p := p.(type) {
	case *CallToolParams:
		return &p.Retry
	case *GetPromptParams:
		return &p.Retry
	case *ReadResourceParams:
		return &p.Retry
	}
	return nil
}

func (p *CallToolParams) readMember(key, value []byte) error {
	switch string(key) {
	case "name":
		return textMember(&p.Name, key, value)
	case "arguments":
		return objectMember(&p.Arguments, key, value)
	}
	return p.Retry.readRetryMember(key, value)
}

func (p *CallToolParams) checkComplete() error { return requireText("name", p.Name) }

func (p *CallToolParams) appendMembers(w *objectWriter) {
	w.addText("name", p.Name)
	w.addRawObject("arguments", p.Arguments)
	p.Retry.appendRetry(w)
}

func (p *GetPromptParams) readMember(key, value []byte) error {
	switch string(key) {
	case "name":
		return textMember(&p.Name, key, value)
	case "arguments":
		p.Arguments = value
		return jsonx.Members(value, func(key, value []byte) error {
			if value = orAbsent(value); value != nil && jsonx.KindOf(value) != jsonx.String {
				return fmt.Errorf("arguments: %s must be a string", quoteClipped(string(key)))
			}
			return nil
		})
	}
	return p.Retry.readRetryMember(key, value)
}

func (p *GetPromptParams) checkComplete() error { return requireText("name", p.Name) }

func (p *GetPromptParams) appendMembers(w *objectWriter) {
	w.addText("name", p.Name)
	w.addRawObject("arguments", p.Arguments)
	p.Retry.appendRetry(w)
}

func (p *ReadResourceParams) readMember(key, value []byte) error {
	if string(key) == "uri" {
		return textMember(&p.URI, key, value)
	}
	return p.Retry.readRetryMember(key, value)
}

func (p *ReadResourceParams) checkComplete() error { return requireText("uri", p.URI) }

func (p *ReadResourceParams) appendMembers(w *objectWriter) {
	w.addText("uri", p.URI)
	p.Retry.appendRetry(w)
}

func (p *ListParams) readMember(key, value []byte) error {
	if string(key) == "cursor" {
		return textMember(&p.Cursor, key, value)
	}
	return nil
}

func (p *ListParams) checkComplete() error          { return nil }
func (p *ListParams) appendMembers(w *objectWriter) { w.addNonEmptyText("cursor", p.Cursor) }

func (p *DiscoverParams) readMember(_, _ []byte) error { return nil }
func (p *DiscoverParams) checkComplete() error         { return nil }
func (p *DiscoverParams) appendMembers(*objectWriter)  {}

func (p *ListenParams) readMember(key, value []byte) error {
	if string(key) != "notifications" {
		return nil
	}
	if jsonx.KindOf(value) != jsonx.Object {
		return fmt.Errorf("notifications: must be an object")
	}
	return decodeMember(&p.Notifications, key, value)
}

func (p *ListenParams) checkComplete() error { return nil }

func (p *ListenParams) appendMembers(w *objectWriter) {
	w.addValue("notifications", p.Notifications)
}

func (p *CompleteParams) readMember(key, value []byte) error {
	switch string(key) {
	case "ref":
		return p.Ref.decodeFrom(value)
	case "argument":
		return decodeMember(&p.Argument, key, value)
	case "context":
		err := readMembers(value, func(key, value []byte) error {
			if string(key) == "arguments" {
				return decodeMember(&p.Context, key, value)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("context: %w", err)
		}
	}
	return nil
}

func (p *CompleteParams) checkComplete() error {
	if (p.Ref.Prompt == "") == (p.Ref.Template == "") {
		return fmt.Errorf("ref: must name a prompt or a resource")
	}
	return requireText("argument.name", p.Argument.Name)
}

func (p *CompleteParams) appendMembers(w *objectWriter) {
	w.addKey("ref")
	in := beginObject(w.dst)
	if p.Ref.Prompt != "" {
		in.addText("type", "ref/prompt")
		in.addText("name", p.Ref.Prompt)
	} else {
		in.addText("type", "ref/resource")
		in.addText("uri", p.Ref.Template)
	}
	w.dst, _ = in.endObject()
	w.addValue("argument", p.Argument)
	if p.Context != nil {
		w.addValue("context", struct {
			Arguments map[string]string `json:"arguments"`
		}{p.Context})
	}
}

func (r *CompletionRef) decodeFrom(raw []byte) error {
	var typ, name, uri string
	err := readMembers(raw, func(key, value []byte) error {
		switch string(key) {
		case "type":
			return textMember(&typ, key, value)
		case "name":
			return textMember(&name, key, value)
		case "uri":
			return textMember(&uri, key, value)
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("ref: %w", err)
	case typ == "ref/prompt":
		r.Prompt = name
	case typ == "ref/resource":
		r.Template = uri
	default:
		return fmt.Errorf("ref: unknown type %s", quoteClipped(typ))
	}
	return nil
}

func requireText(name, value string) error {
	if value == "" {
		return fmt.Errorf("%s: must be present", name)
	}
	return nil
}
