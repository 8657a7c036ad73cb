package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Prompt is the definition of a prompt template (server/prompts).
type Prompt struct {
	Name        string                     `json:"name"`
	Title       string                     `json:"title,omitzero"`
	Description string                     `json:"description,omitzero"`
	Icons       []Icon                     `json:"icons,omitempty"`
	Arguments   []PromptArgument           `json:"arguments,omitempty"`
	Meta        Meta                       `json:"_meta,omitzero"`
	Extra       map[string]json.RawMessage `json:",embed"`
}

// A PromptArgument is one argument that a prompt takes.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    Role
	Content Content
}

// ListPromptsResult is one page of prompts/list.
type ListPromptsResult struct {
	Prompts    []Prompt
	NextCursor string // empty: the last page
	Cache      CacheHints
	Meta       Meta

	origin *origin // nil: of this program
}

// GetPromptResult is a prompt, filled in.
type GetPromptResult struct {
	Description string
	Messages    []PromptMessage
	Meta        Meta

	origin *origin // nil: of this program
}

// GetPromptParams are the parameters of prompts/get.
type GetPromptParams struct {
	Name string
	// Arguments is a JSON object of strings, nil when absent.
	Arguments json.RawMessage
	Retry
	RequestMeta
}

func (w *objectWriter) addPromptMessages(messages []PromptMessage) {
	w.addKey("messages")
	w.dst = append(w.dst, '[')
	for i, m := range messages {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		in := beginObject(w.dst)
		in.addRole(m.Role)
		in.addKey("content")
		var err error
		if in.dst, err = appendContent(in.dst, m.Content); err != nil {
			in.recordError("content", err)
		}
		if w.dst, err = in.endObject(); err != nil {
			w.recordError(fmt.Sprintf("messages[%d]", i), err)
		}
	}
	w.dst = append(w.dst, ']')
}

func decodePromptMessages(raw []byte, report reporter) ([]PromptMessage, error) {
	return decodeMessageList(raw, func(m *PromptMessage, key, value []byte) (err error) {
		switch string(key) {
		case "role":
			err = roleMember(&m.Role, key, value)
		case "content":
			m.Content, err = decodeContent(value, report)
		}
		return err
	}, func(m *PromptMessage) bool { return m.Role != "" && m.Content != nil })
}

// decodeMessageList decodes an array of messages, member by member. complete reports whether a
// message has all that it must have.
func decodeMessageList[M any](raw []byte, readMember func(m *M, key, value []byte) error,
	complete func(*M) bool) ([]M, error) {
	messages := []M{}
	err := jsonx.Elements(raw, func(i int, value []byte) error {
		var m M
		err := readMembers(value, func(key, value []byte) error {
			return readMember(&m, key, value)
		})
		if err == nil && !complete(&m) {
			err = fmt.Errorf("role and content must be present")
		}
		if err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		messages = append(messages, m)
		return nil
	})
	return messages, err
}

func (p *Prompt) checkComplete() error { return requireText("name", p.Name) }

func (r *GetPromptResult) appendMembers(w *objectWriter, v Version) {
	w.addNonEmptyText("description", r.Description)
	w.addPromptMessages(downgradeMessages(v, r.Messages))
	w.addRawObject("_meta", r.Meta)
}

func decodeGetPrompt(data []byte, report reporter) (Result, error) {
	r := &GetPromptResult{}
	err := readMembers(data, func(key, value []byte) (err error) {
		switch string(key) {
		case "description":
			err = textMember(&r.Description, key, value)
		case "messages":
			r.Messages, err = decodePromptMessages(value, report)
		case "_meta":
			err = objectMember(&r.Meta, key, value)
		}
		return err
	})
	if err == nil && r.Messages == nil {
		err = fmt.Errorf("messages: must be present")
	}
	return r, err
}

func (r *ListPromptsResult) appendMembers(w *objectWriter, v Version) {
	w.addCacheableList(v, "prompts", orEmpty(r.Prompts), r.NextCursor, r.Cache, r.Meta)
}

func decodeListPrompts(data []byte, report reporter) (Result, error) {
	r := &ListPromptsResult{}
	return r, decodeList(data, "prompts", &r.Prompts, &r.NextCursor, &r.Cache, &r.Meta,
		report)
}
