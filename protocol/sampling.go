package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// CreateMessage asks the client's model for a message (client/sampling).
type CreateMessage struct {
	Messages         []SamplingMessage
	MaxTokens        int64
	SystemPrompt     string
	IncludeContext   string // "none", "thisServer", "allServers" or unset
	Temperature      *float64
	StopSequences    []string
	ModelPreferences *ModelPreferences
	Metadata         json.RawMessage // a JSON object, nil when absent
	Tools            []Tool
	ToolChoice       *ToolChoice
	Meta             Meta
}

// A SamplingMessage is one message of a conversation with a model.
type SamplingMessage struct {
	Role    Role
	Content []Content
	Meta    Meta
}

// ModelPreferences describe the wanted model, with priorities from 0 to 1.
type ModelPreferences struct {
	Hints                []ModelHint `json:"hints,omitempty"`
	CostPriority         *float64    `json:"costPriority,omitzero"`
	SpeedPriority        *float64    `json:"speedPriority,omitzero"`
	IntelligencePriority *float64    `json:"intelligencePriority,omitzero"`
}

// A ModelHint is a part of a model's name.
type ModelHint struct {
	Name string `json:"name,omitzero"`
}

// ToolChoice says whether the model may, must or must not use tools.
type ToolChoice struct {
	Mode string `json:"mode,omitzero"` // "auto", "required" or "none"
}

// CreateMessageResult answers a [CreateMessage].
type CreateMessageResult struct {
	Role       Role
	Content    []Content
	Model      string
	StopReason string // may be empty
	Meta       Meta
}

// Kind returns [KindCreateMessage].
func (*CreateMessage) Kind() InputKind { return KindCreateMessage }

func (q *CreateMessage) appendParams(dst []byte, _ Version) ([]byte, error) {
	w := beginObject(dst)
	w.keepError(q.codeMembers(&w, member{}))
	return w.endObject()
}

func (q *CreateMessage) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeSamplingMessages(m, &q.Messages),
		w.codeValue(m, "modelPreferences", &q.ModelPreferences, q.ModelPreferences != nil),
		w.codeNonEmptyText(m, "systemPrompt", &q.SystemPrompt),
		w.codeNonEmptyText(m, "includeContext", &q.IncludeContext),
		w.codeValue(m, "temperature", &q.Temperature, q.Temperature != nil),
		w.codeInteger(m, "maxTokens", &q.MaxTokens),
		w.codeValue(m, "stopSequences", &q.StopSequences, len(q.StopSequences) > 0),
		w.codeObject(m, "metadata", &q.Metadata),
		w.codeTools(m, &q.Tools),
		w.codeValue(m, "toolChoice", &q.ToolChoice, q.ToolChoice != nil),
		w.codeMeta(m, &q.Meta))
}

func (w *objectWriter) codeSamplingMessages(m member, p *[]SamplingMessage) (err error) {
	switch {
	case m.reads("messages") && jsonx.KindOf(m.value) != jsonx.Array:
		err = fmt.Errorf("messages: must be an array")
	case m.reads("messages"):
		*p, err = decodeMessages[SamplingMessage](m.value, nil)
	case w != nil:
		addMessages(w, *p, (*SamplingMessage).codeMembers)
	}
	return err
}

// addSamplingContent writes a single block without an array, which old revisions do not know.
func (w *objectWriter) addSamplingContent(blocks []Content) {
	if len(blocks) != 1 {
		w.addContent("content", blocks)
		return
	}
	w.addKey("content")
	var err error
	if w.dst, err = appendContent(w.dst, blocks[0]); err != nil {
		w.recordError("content", err)
	}
}

func decodeCreateMessage(raw []byte) (InputRequest, error) {
	q := &CreateMessage{}
	hasMaxTokens := false
	err := readMembers(raw, func(key, value []byte) error {
		hasMaxTokens = hasMaxTokens || string(key) == "maxTokens"
		return q.codeMembers(nil, member{key, value, nil})
	})
	if err != nil {
		return nil, err
	}
	if q.Messages == nil || !hasMaxTokens {
		return nil, fmt.Errorf("messages and maxTokens must be present")
	}
	return q, nil
}

func (s *SamplingMessage) checkComplete() error {
	if s.Role == "" || s.Content == nil {
		return errIncompleteMessage
	}
	return nil
}

func (s *SamplingMessage) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeRole(m, &s.Role),
		w.codeSamplingContent(m, &s.Content),
		w.codeMeta(m, &s.Meta))
}

func (w *objectWriter) codeSamplingContent(m member, p *[]Content) (err error) {
	if m.reads("content") {
		*p, err = decodeSamplingContent(m.value)
	} else if w != nil {
		w.addSamplingContent(*p)
	}
	return err
}

func decodeSamplingContent(raw []byte) ([]Content, error) {
	if jsonx.KindOf(raw) == jsonx.Array {
		return decodeContents(raw, nil)
	}
	block, err := decodeContent(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return []Content{block}, nil
}

// DecodeCreateMessageResult reads the answer to a [CreateMessage], with role, content and model.
func DecodeCreateMessageResult(raw []byte) (*CreateMessageResult, error) {
	return decodeAnswer[CreateMessageResult](raw, "sampling")
}

func (r *CreateMessageResult) checkComplete() error {
	if r.Role == "" || r.Content == nil || r.Model == "" {
		return fmt.Errorf("role, content and model must be present")
	}
	return nil
}

func (r *CreateMessageResult) codeMembers(w *objectWriter, m member) error {
	return firstError(
		w.codeRole(m, &r.Role),
		w.codeSamplingContent(m, &r.Content),
		w.codeText(m, "model", &r.Model),
		w.codeNonEmptyText(m, "stopReason", &r.StopReason),
		w.codeMeta(m, &r.Meta))
}

// MarshalJSON returns the answer as a JSON object.
func (r CreateMessageResult) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	w.keepError(r.codeMembers(&w, member{}))
	return w.endObject()
}
