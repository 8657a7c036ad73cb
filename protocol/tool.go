package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/jsonx"
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
}

// ListToolsResult is one page of tools/list.
type ListToolsResult struct {
	Tools      []Tool
	NextCursor string // empty: the last page
	Cache      CacheHints
	Meta       Meta
}

// CallToolResult is what a tool answers when it is done.
type CallToolResult struct {
	Content []Content
	// StructuredContent is a JSON value, nil when there is none.
	StructuredContent json.RawMessage
	// IsError says that the tool ran and failed; Content tells why.
	IsError bool
	Meta    Meta
}

// CallToolParams are the parameters of tools/call.
type CallToolParams struct {
	Name string
	// Arguments is a JSON object, nil when absent.
	Arguments json.RawMessage
	Retry
	RequestMeta
}

// complete reports what a definition lacks that every reader relies on.
func (t *Tool) complete() error {
	switch {
	case t.Name == "":
		return fmt.Errorf("name: must be present")
	case jsonx.KindOf(t.InputSchema) != jsonx.Object:
		return fmt.Errorf("inputSchema: must be an object")
	case t.OutputSchema != nil && jsonx.KindOf(t.OutputSchema) != jsonx.Object:
		return fmt.Errorf("outputSchema: must be an object")
	}
	return nil
}

// tools appends definitions, none of which may be incomplete.
func (w *objectWriter) tools(list []Tool) {
	if err := allComplete(list); err != nil {
		w.fail("tools", err)
		return
	}
	w.value("tools", list)
}

func decodeTools(raw []byte) (list []Tool, err error) {
	if err = decodeDefinitions(raw, &list); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	return list, nil
}
