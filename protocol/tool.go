package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Tool is the definition of a tool (server/tools). Schemas and unknown
// members relay verbatim.
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

// ToolAnnotations are hints about what a tool does; clients must not trust
// them more than the server that sends them. Nil means unsaid.
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
	NextCursor string // empty: the last page
	Cache      CacheHints
	Meta       Meta

	origin *origin // nil: of this program
}

// CallToolResult is what a tool answers when it is done.
type CallToolResult struct {
	Content []Content
	// StructuredContent is a JSON value, nil when there is none.
	StructuredContent json.RawMessage
	// IsError means that the tool ran and failed; Content tells why.
	IsError bool
	Meta    Meta

	origin *origin // nil: of this program
}

// CallToolParams are the parameters of tools/call.
type CallToolParams struct {
	Name string
	// Arguments is a JSON object, nil when absent.
	Arguments json.RawMessage
	Retry
	RequestMeta
}

// checkComplete returns an error for a definition that lacks a member which every reader needs.
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

// addTools appends definitions, none of which may be incomplete.
func (w *objectWriter) addTools(list []Tool) {
	if err := checkDefinitions(list); err != nil {
		w.recordError("tools", err)
		return
	}
	w.addValue("tools", list)
}

func decodeTools(raw []byte) (list []Tool, err error) {
	if err = jsonx.Decode(raw, &list); err == nil {
		err = checkDefinitions(list)
	}
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return list, nil
}

func (r *CallToolResult) appendMembers(w *objectWriter, v Version) {
	w.addContent("content", downgradeContent(v, r.Content))
	// Legacy revisions know structured content that is an object only.
	if v.Era() == Modern || jsonx.KindOf(r.StructuredContent) == jsonx.Object {
		w.addRaw("structuredContent", r.StructuredContent)
	}
	w.addFlag("isError", r.IsError)
	w.addRawObject("_meta", r.Meta)
}

func decodeCallTool(data []byte, report reporter) (Result, error) {
	r := &CallToolResult{}
	content := false
	err := readMembers(data, func(key, value []byte) (err error) {
		switch string(key) {
		case "content":
			content = true
			r.Content, err = decodeContents(value, report)
		case "structuredContent":
			r.StructuredContent = value
		case "isError":
			if r.IsError, err = jsonx.Boolean(value); err != nil {
				err = fmt.Errorf("isError: must be a boolean")
			}
		case "_meta":
			err = objectMember(&r.Meta, key, value)
		}
		return err
	})
	// An empty object is not a success. Servers in use leave content out when there is structured
	// content.
	if err == nil && !content && r.StructuredContent == nil {
		err = fmt.Errorf("content: must be present")
	}
	return r, err
}

func (r *ListToolsResult) appendMembers(w *objectWriter, v Version) error {
	if err := checkDefinitions(r.Tools); err != nil {
		return fmt.Errorf("tools%w", err)
	}
	w.addCacheableList(v, "tools", downgradeTools(v, orEmpty(r.Tools)), r.NextCursor, r.Cache,
		r.Meta)
	return nil
}

func decodeListTools(data []byte, report reporter) (Result, error) {
	r := &ListToolsResult{}
	err := decodeList(data, "tools", &r.Tools, &r.NextCursor, &r.Cache, &r.Meta, report)
	for i := range r.Tools {
		r.Tools[i].OutputSchema = orAbsent(r.Tools[i].OutputSchema)
	}
	return r, err
}

// downgradeTools returns the definitions as version v has them: legacy revisions allow output
// schemas of objects only. It does not change tools.
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
