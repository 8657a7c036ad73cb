package protocol

import (
	"encoding/json"
	"errors"
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
	NextCursor string // empty on the last page
	Cache      CacheHints
	Meta       Meta

	provenance
}

// GetPromptResult is a prompt with its arguments filled in.
type GetPromptResult struct {
	Description string
	Messages    []PromptMessage
	Meta        Meta

	provenance
}

// GetPromptParams are the parameters of prompts/get.
type GetPromptParams struct {
	Name      string
	Arguments json.RawMessage // a JSON object of strings, nil when absent
	Retry
	RequestMeta
}

func addMessages[T any](
	w *objectWriter, messages []T, code func(message *T, w *objectWriter, m member) error,
) {
	w.addKey("messages")
	w.dst = append(w.dst, '[')
	for i := range messages {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		in := beginObject(w.dst)
		in.keepError(code(&messages[i], &in, member{}))
		var err error
		if w.dst, err = in.endObject(); err != nil {
			w.recordError(fmt.Sprintf("messages[%d]", i), err)
		}
	}
	w.dst = append(w.dst, ']')
}

func (p *PromptMessage) checkComplete() error {
	if p.Role == "" || p.Content == nil {
		return errIncompleteMessage
	}
	return nil
}

func (p *PromptMessage) codeMembers(w *objectWriter, m member) (err error) {
	if err := w.codeRole(m, &p.Role); err != nil {
		return err
	}
	if m.reads("content") {
		p.Content, err = decodeContent(m.value, m.about)
	} else if w != nil {
		w.addKey("content")
		w.dst, err = appendContent(w.dst, p.Content)
		err = nameMember([]byte("content"), err)
	}
	return err
}

var errIncompleteMessage = errors.New("role and content must be present")

func decodeMessages[T any, P codedPointer[T]](raw []byte, about *provenance) ([]T, error) {
	list := []T{}
	err := jsonx.Elements(raw, func(i int, value []byte) error {
		var message T
		if err := readObject(value, P(&message), about); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		list = append(list, message)
		return nil
	})
	return list, err
}

func (p *Prompt) checkComplete() error { return requireText("name", p.Name) }

func (r *GetPromptResult) checkComplete() error { return requireList("messages", r.Messages) }

func (r *GetPromptResult) codeMembers(w *objectWriter, m member) (err error) {
	if m.reads("messages") {
		r.Messages, err = decodeMessages[PromptMessage](m.value, m.about)
		return err
	}
	err = w.codeNonEmptyText(m, "description", &r.Description)
	if w != nil {
		addMessages(w, downgradeMessages(w.version, r.Messages), (*PromptMessage).codeMembers)
	}
	return firstError(err, w.codeMeta(m, &r.Meta))
}

func (r *ListPromptsResult) checkComplete() error { return requireList("prompts", r.Prompts) }

func (r *ListPromptsResult) codeMembers(w *objectWriter, m member) error {
	return codeList(w, m, "prompts", &r.Prompts, &r.NextCursor, &r.Cache, &r.Meta)
}
