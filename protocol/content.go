package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Content is one block of content. Results and prompts have [*TextContent], [*ImageContent],
// [*AudioContent], [*ResourceLink] or [*EmbeddedResource], sampling also [*ToolUse] and
// [*ToolResult]; blocks of other types are [*OtherContent].
type Content interface {
	appendJSON(dst []byte) ([]byte, error)
}

// TextContent is text.
type TextContent struct {
	Text        string       `json:"text"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
}

// ImageContent is an image, encoded as base64 on the wire.
type ImageContent struct {
	Data        []byte       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
}

// AudioContent is sound, encoded as base64 on the wire.
type AudioContent struct {
	Data        []byte       `json:"data"`
	MIMEType    string       `json:"mimeType"`
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
}

// ResourceLink points to a resource that the client may read.
type ResourceLink struct{ Resource }

// EmbeddedResource is the content of a resource.
type EmbeddedResource struct {
	Resource    ResourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitzero"`
	Meta        Meta             `json:"_meta,omitzero"`
}

// ToolUse is a model's request to call a tool (client/sampling).
type ToolUse struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Meta  Meta            `json:"_meta,omitzero"`
}

// ToolResult answers a [ToolUse] in a conversation with a model.
type ToolResult struct {
	ToolUseID         string
	Content           []Content
	StructuredContent json.RawMessage // nil when absent
	IsError           bool
	Meta              Meta
}

// OtherContent is a block of an unknown type, kept as received.
type OtherContent struct{ Raw json.RawMessage }

// Annotations tell clients how to treat content.
type Annotations struct {
	Audience     []Role   `json:"audience,omitempty"`
	Priority     *float64 `json:"priority,omitzero"`
	LastModified string   `json:"lastModified,omitzero"`

	Extra map[string]json.RawMessage `json:",embed"`
}

// A Role is the speaker in a conversation.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

func (c *TextContent) appendJSON(dst []byte) ([]byte, error) {
	w := beginObject(dst)
	w.addText("type", "text")
	w.keepError(c.codeMembers(&w, member{}))
	return w.endObject()
}

func (c *TextContent) checkComplete() error { return nil }

func (c *TextContent) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeText(m, "text", &c.Text),
		w.codeValue(m, "annotations", &c.Annotations, c.Annotations != nil),
		w.codeMeta(m, &c.Meta))
}

func (c *ImageContent) appendJSON(dst []byte) ([]byte, error) {
	return appendTyped(dst, "image", c)
}

func (c *AudioContent) appendJSON(dst []byte) ([]byte, error) {
	return appendTyped(dst, "audio", c)
}

func (c *ToolUse) appendJSON(dst []byte) ([]byte, error) {
	w := beginObject(dst)
	w.addText("type", "tool_use")
	w.keepError(c.codeMembers(&w, member{}))
	return w.endObject()
}

func (c *ToolUse) checkComplete() error {
	if c.ID == "" || c.Name == "" || c.Input == nil {
		return fmt.Errorf("tool use: id, name and input must be present")
	}
	return nil
}

func (c *ToolUse) codeMembers(w *objectWriter, m member) error {
	input := &c.Input
	if w != nil && c.Input == nil {
		input = &json.RawMessage{'{', '}'}
	}
	return firstError(
		w.codeText(m, "id", &c.ID),
		w.codeText(m, "name", &c.Name),
		w.codeObject(m, "input", input),
		w.codeMeta(m, &c.Meta))
}

func (c *ResourceLink) appendJSON(dst []byte) ([]byte, error) {
	if _, ok := c.Extra["type"]; ok {
		return dst, fmt.Errorf("resource link: extra member type")
	}
	return appendTyped(dst, "resource_link", &c.Resource)
}

func (c *EmbeddedResource) appendJSON(dst []byte) ([]byte, error) {
	return appendTyped(dst, "resource", c)
}

func (c *ToolResult) appendJSON(dst []byte) ([]byte, error) {
	w := beginObject(dst)
	w.addText("type", "tool_result")
	w.keepError(c.codeMembers(&w, member{}))
	return w.endObject()
}

func (c *ToolResult) checkComplete() error { return nil }

func (c *ToolResult) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeText(m, "toolUseId", &c.ToolUseID),
		w.codeContents(m, &c.Content),
		w.codeStructured(m, &c.StructuredContent),
		w.codeFlag(m, "isError", &c.IsError),
		w.codeMeta(m, &c.Meta))
}

func (c *OtherContent) appendJSON(dst []byte) ([]byte, error) {
	if err := jsonx.Check(c.Raw); err != nil || jsonx.KindOf(c.Raw) != jsonx.Object {
		return dst, fmt.Errorf("content: raw block must be a JSON object")
	}
	return jsonx.AppendCompact(dst, c.Raw), nil
}

func appendTyped(dst []byte, typ string, v any) ([]byte, error) {
	w := beginObject(dst)
	w.addText("type", typ)
	// v encodes as a non-empty object: its brace becomes the comma after the type.
	at := len(w.dst)
	var err error
	if w.dst, err = jsonx.AppendEncode(w.dst, v); err != nil {
		return w.dst, err
	}
	w.dst[at] = ','
	return w.dst, nil
}

// addContent appends an array of blocks; nil is an empty array.
func (w *objectWriter) addContent(name string, blocks []Content) {
	w.addKey(name)
	w.dst = append(w.dst, '[')
	for i, block := range blocks {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		dst, err := appendContent(w.dst, block)
		if w.dst = dst; err != nil {
			w.recordError(fmt.Sprintf("%s[%d]", name, i), err)
		}
	}
	w.dst = append(w.dst, ']')
}

// appendContent refuses nil blocks, typed or not, and foreign implementations.
func appendContent(dst []byte, block Content) ([]byte, error) {
	switch block.(type) {
	case *TextContent, *ImageContent, *AudioContent, *ResourceLink, *EmbeddedResource, *ToolUse,
		*ToolResult, *OtherContent:
		if reflect.ValueOf(block).IsNil() {
			return dst, fmt.Errorf("nil %T", block)
		}
		return block.appendJSON(dst)
	}
	return dst, fmt.Errorf("unknown block type %T", block)
}

// decodeContents reads an array of blocks. Some servers send null for an empty array.
func decodeContents(raw []byte, about *provenance) ([]Content, error) {
	if jsonx.KindOf(raw) == jsonx.Null {
		return []Content{}, nil
	}
	return decodeSome(raw, "content", about, func(value []byte) (Content, error) {
		return decodeContent(value, about)
	})
}

// Allocated once: a list may have millions of such blocks.
var (
	errNoBlock = errors.New("must be an object")
	errNoType  = errors.New("block without a type")
)

func decodeContent(raw []byte, about *provenance) (Content, error) {
	if jsonx.KindOf(raw) != jsonx.Object {
		return nil, errNoBlock
	}
	typ := ""
	err := readMembers(raw, func(key, value []byte) error {
		if string(key) == "type" {
			return textMember(&typ, key, value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch typ {
	case "text":
		return decodeText(raw, about)
	case "image":
		return decodeBlock(raw, &ImageContent{})
	case "audio":
		return decodeBlock(raw, &AudioContent{})
	case "resource_link":
		return decodeResourceLink(raw)
	case "resource":
		c := &EmbeddedResource{}
		if err := jsonx.Decode(raw, c); err != nil {
			return nil, err
		}
		return c, requireText("resource.uri", c.Resource.URI)
	case "tool_use":
		c := &ToolUse{}
		return c, readObject(raw, c, nil)
	case "tool_result":
		c := &ToolResult{}
		return c, readObject(raw, c, about)
	case "":
		return nil, errNoType
	}
	return &OtherContent{Raw: append(json.RawMessage(nil), raw...)}, nil
}

func decodeBlock[C Content](raw []byte, block C) (Content, error) {
	if err := jsonx.Decode(raw, block); err != nil {
		return nil, err
	}
	return block, nil
}

func decodeText(raw []byte, about *provenance) (Content, error) {
	c := &TextContent{}
	found := false
	err := readMembers(raw, func(key, value []byte) error {
		found = found || string(key) == "text"
		return c.codeMembers(nil, member{key, value, nil})
	})
	if err == nil && !found {
		about.notef("content: a block of text without text is read as empty")
	}
	return c, err
}

func decodeResourceLink(raw []byte) (Content, error) {
	c := &ResourceLink{}
	if err := jsonx.Decode(raw, &c.Resource); err != nil {
		return nil, err
	}
	// The type belongs to the block, not to the resource.
	if delete(c.Extra, "type"); len(c.Extra) == 0 {
		c.Extra = nil
	}
	return c, c.checkComplete()
}
