package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Tool is the definition of a tool (server/tools). Schemas and unknown members are kept as sent.
type Tool struct {
	Name         string                     `json:"name"`
	Title        string                     `json:"title,omitzero"`
	Description  string                     `json:"description,omitzero"`
	Icons        []Icon                     `json:"icons,omitempty"`
	InputSchema  json.RawMessage            `json:"inputSchema"`
	OutputSchema json.RawMessage            `json:"outputSchema,omitzero"`
	Annotations  *ToolAnnotations           `json:"annotations,omitzero"`
	Meta         Meta                       `json:"_meta,omitzero"`
	Extra        map[string]json.RawMessage `json:",embed"`
}

// ToolAnnotations are hints about a tool's behaviour, as trustworthy as the server. Nil is unset.
type ToolAnnotations struct {
	Title           string `json:"title,omitzero"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool  `json:"destructiveHint,omitzero"`
	IdempotentHint  *bool  `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitzero"`

	Extra map[string]json.RawMessage `json:",embed"`
}

// ListToolsResult is one page of tools/list.
type ListToolsResult struct {
	Tools      []Tool
	NextCursor string // empty on the last page
	Cache      CacheHints
	Meta       Meta

	provenance
}

// CallToolResult is the final answer of a tool.
type CallToolResult struct {
	Content           []Content
	StructuredContent json.RawMessage // a JSON value, nil when absent
	IsError           bool            // the tool ran and failed; Content tells why
	Meta              Meta

	provenance
}

// CallToolParams are the parameters of tools/call.
type CallToolParams struct {
	Name      string
	Arguments json.RawMessage // a JSON object, nil when absent
	Retry
	RequestMeta
}

func (t *Tool) checkComplete() error {
	switch {
	case t.Name == "":
		return fmt.Errorf("name: must be present")
	case jsonx.KindOf(t.InputSchema) != jsonx.Object:
		return fmt.Errorf("inputSchema: must be an object")
	case orAbsent(t.OutputSchema) != nil && jsonx.KindOf(t.OutputSchema) != jsonx.Object:
		return fmt.Errorf("outputSchema: must be an object")
	}
	return nil
}

// codeTools encodes or decodes the tools that a model may use; all must be complete.
func (w *objectWriter) codeTools(m member, list *[]Tool) error {
	err := w.codeValue(m, "tools", list, len(*list) > 0)
	if err == nil && (w != nil || m.reads("tools")) {
		err = nameMember([]byte("tools"), checkDefinitions(*list))
	}
	return err
}

// checkComplete refuses an empty object. Some servers omit content beside structured content.
func (r *CallToolResult) checkComplete() error {
	if r.StructuredContent != nil {
		return nil
	}
	return requireList("content", r.Content)
}

func (r *CallToolResult) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeContents(m, &r.Content),
		w.codeStructured(m, &r.StructuredContent),
		w.codeFlag(m, "isError", &r.IsError),
		w.codeMeta(m, &r.Meta))
}

func (r *ListToolsResult) checkComplete() error { return requireList("tools", r.Tools) }

func (r *ListToolsResult) codeMembers(w *objectWriter, m member) error {
	list := &r.Tools
	if w != nil {
		if err := checkDefinitions(r.Tools); err != nil {
			return fmt.Errorf("tools%w", err)
		}
		spelled := downgradeTools(w.version, r.Tools)
		list = &spelled
	}
	err := codeList(w, m, "tools", list, &r.NextCursor, &r.Cache, &r.Meta)
	if m.reads("tools") {
		for i := range r.Tools {
			r.Tools[i].OutputSchema = orAbsent(r.Tools[i].OutputSchema)
		}
	}
	return err
}

// downgradeTools returns the definitions as version v has them, without changing tools: legacy
// revisions allow only objects as output.
func downgradeTools(v Version, tools []Tool) []Tool {
	if v.Era() == Modern {
		return tools
	}
	spelled := tools
	for i := range tools {
		if len(tools[i].OutputSchema) == 0 || describesObject(tools[i].OutputSchema) {
			continue
		}
		if &spelled[0] == &tools[0] {
			spelled = slices.Clone(tools)
		}
		spelled[i].OutputSchema = nil
	}
	return spelled
}

func describesObject(schema []byte) bool {
	object := false
	err := walkMembers(schema, func(key, value []byte) error {
		if string(key) == "type" {
			text, err := jsonx.TextBytes(value)
			object = err == nil && string(text) == "object"
		}
		return nil
	})
	return err == nil && object
}
