package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// Params are the parameters of a request that a client sends.
type Params interface {
	// RequestMetadata returns the _meta of the request, never nil.
	RequestMetadata() *RequestMeta
	members(w *objectWriter)
	member(key, value []byte) error
	complete() error
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
		return nil, Errorf(CodeMethodNotFound, "method not found: %s", clip(method))
	}
	meta := p.RequestMetadata()
	var failed error
	if raw != nil {
		failed = jsonx.Members(raw, func(key, value []byte) (err error) {
			if string(key) == "_meta" {
				*meta, err = decodeRequestMeta(value)
				return err
			}
			return p.member(key, value)
		})
	}
	if failed == nil {
		failed = p.complete()
	}
	if failed != nil {
		return p, Errorf(CodeInvalidParams, "invalid params: %v", failed)
	}
	return p, nil
}

// EncodeParams returns the JSON text of p.
func EncodeParams(p Params) (json.RawMessage, error) {
	w := beginObject(make([]byte, 0, startBytes))
	p.members(&w)
	if meta := p.RequestMetadata(); !meta.isZero() {
		meta.append(&w)
	}
	data, err := w.end()
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return data, nil
}

func (p *CallToolParams) member(key, value []byte) error {
	switch string(key) {
	case "name":
		return textMember(&p.Name, key, value)
	case "arguments":
		return objectMember(&p.Arguments, key, value)
	}
	return p.Retry.member(key, value)
}

func (p *CallToolParams) complete() error { return present("name", p.Name) }

func (p *CallToolParams) members(w *objectWriter) {
	w.text("name", p.Name)
	w.object("arguments", p.Arguments)
	p.Retry.append(w)
}

func (p *GetPromptParams) member(key, value []byte) error {
	switch string(key) {
	case "name":
		return textMember(&p.Name, key, value)
	case "arguments":
		p.Arguments = value
		return jsonx.Members(value, func(key, value []byte) error {
			if jsonx.KindOf(value) != jsonx.String {
				return fmt.Errorf("arguments: %s must be a string", clip(string(key)))
			}
			return nil
		})
	}
	return p.Retry.member(key, value)
}

func (p *GetPromptParams) complete() error { return present("name", p.Name) }

func (p *GetPromptParams) members(w *objectWriter) {
	w.text("name", p.Name)
	w.object("arguments", p.Arguments)
	p.Retry.append(w)
}

func (p *ReadResourceParams) member(key, value []byte) error {
	if string(key) == "uri" {
		return textMember(&p.URI, key, value)
	}
	return p.Retry.member(key, value)
}

func (p *ReadResourceParams) complete() error { return present("uri", p.URI) }

func (p *ReadResourceParams) members(w *objectWriter) {
	w.text("uri", p.URI)
	p.Retry.append(w)
}

func (p *ListParams) member(key, value []byte) error {
	if string(key) == "cursor" {
		return textMember(&p.Cursor, key, value)
	}
	return nil
}

func (p *ListParams) complete() error         { return nil }
func (p *ListParams) members(w *objectWriter) { w.optional("cursor", p.Cursor) }

func (p *DiscoverParams) member(_, _ []byte) error { return nil }
func (p *DiscoverParams) complete() error          { return nil }
func (p *DiscoverParams) members(*objectWriter)    {}

func (p *ListenParams) member(key, value []byte) error {
	if string(key) != "notifications" {
		return nil
	}
	if jsonx.KindOf(value) != jsonx.Object {
		return fmt.Errorf("notifications: must be an object")
	}
	return decodeMember(&p.Notifications, key, value)
}

func (p *ListenParams) complete() error         { return nil }
func (p *ListenParams) members(w *objectWriter) { w.value("notifications", p.Notifications) }

func (p *CompleteParams) member(key, value []byte) error {
	switch string(key) {
	case "ref":
		return p.Ref.decode(value)
	case "argument":
		return decodeMember(&p.Argument, key, value)
	case "context":
		err := jsonx.Members(value, func(key, value []byte) error {
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

func (p *CompleteParams) complete() error {
	if (p.Ref.Prompt == "") == (p.Ref.Template == "") {
		return fmt.Errorf("ref: must name a prompt or a resource")
	}
	return present("argument.name", p.Argument.Name)
}

func (p *CompleteParams) members(w *objectWriter) {
	w.key("ref")
	in := beginObject(w.dst)
	if p.Ref.Prompt != "" {
		in.text("type", "ref/prompt")
		in.text("name", p.Ref.Prompt)
	} else {
		in.text("type", "ref/resource")
		in.text("uri", p.Ref.Template)
	}
	w.dst, _ = in.end()
	w.value("argument", p.Argument)
	if p.Context != nil {
		w.value("context", struct {
			Arguments map[string]string `json:"arguments"`
		}{p.Context})
	}
}

func (r *CompletionRef) decode(raw []byte) error {
	var typ, name, uri string
	err := jsonx.Members(raw, func(key, value []byte) error {
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
		return fmt.Errorf("ref: unknown type %s", clip(typ))
	}
	return nil
}

func present(name, value string) error {
	if value == "" {
		return fmt.Errorf("%s: must be present", name)
	}
	return nil
}
