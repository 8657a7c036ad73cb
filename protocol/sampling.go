package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// CreateMessage asks the client's model for a message (client/sampling).
type CreateMessage struct {
	Messages     []SamplingMessage
	MaxTokens    int64
	SystemPrompt string
	// IncludeContext is "none", "thisServer" or "allServers"; empty: unsaid.
	IncludeContext   string
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

// ModelPreferences say what kind of model is wanted, priorities from 0 to 1.
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

// ToolChoice decides whether the model may, must or must not use tools.
type ToolChoice struct {
	Mode string `json:"mode,omitzero"` // "auto", "required" or "none"
}

// CreateMessageResult answers a [CreateMessage].
type CreateMessageResult struct {
	Role       Role
	Content    []Content
	Model      string
	StopReason string // empty: unsaid
	Meta       Meta
}

// Kind returns [KindCreateMessage].
func (*CreateMessage) Kind() InputKind { return KindCreateMessage }

func (*CreateMessage) isInputRequest() {}

func (q *CreateMessage) appendParams(dst []byte, _ Version) ([]byte, error) {
	w := beginObject(dst)
	w.addKey("messages")
	w.dst = append(w.dst, '[')
	for i, m := range q.Messages {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		in := beginObject(w.dst)
		in.addRole(m.Role)
		in.addSamplingContent(m.Content)
		in.addRawObject("_meta", m.Meta)
		var err error
		if w.dst, err = in.endObject(); err != nil {
			w.recordError(fmt.Sprintf("messages[%d]", i), err)
		}
	}
	w.dst = append(w.dst, ']')
	if q.ModelPreferences != nil {
		w.addValue("modelPreferences", q.ModelPreferences)
	}
	w.addNonEmptyText("systemPrompt", q.SystemPrompt)
	w.addNonEmptyText("includeContext", q.IncludeContext)
	if q.Temperature != nil {
		w.addValue("temperature", *q.Temperature)
	}
	w.addInteger("maxTokens", q.MaxTokens)
	if len(q.StopSequences) > 0 {
		w.addValue("stopSequences", q.StopSequences)
	}
	w.addRawObject("metadata", q.Metadata)
	if len(q.Tools) > 0 {
		w.addTools(q.Tools)
	}
	if q.ToolChoice != nil {
		w.addValue("toolChoice", q.ToolChoice)
	}
	w.addRawObject("_meta", q.Meta)
	return w.endObject()
}

// addSamplingContent writes a single block bare, as every revision understands;
// only several blocks need the array of newer revisions.
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
	var hasMessages, hasMaxTokens bool
	err := readMembers(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "messages":
			hasMessages = true
			if q.Messages, err = decodeSamplingMessages(value); jsonx.KindOf(value) != jsonx.Array {
				err = fmt.Errorf("messages: must be an array")
			}
		case "maxTokens":
			hasMaxTokens = true
			if q.MaxTokens, err = jsonx.Int(value); err != nil {
				err = fmt.Errorf("maxTokens: must be an integer")
			}
		case "systemPrompt":
			err = textMember(&q.SystemPrompt, key, value)
		case "includeContext":
			err = textMember(&q.IncludeContext, key, value)
		case "temperature":
			err = decodeMember(&q.Temperature, key, value)
		case "stopSequences":
			err = decodeMember(&q.StopSequences, key, value)
		case "modelPreferences":
			err = decodeMember(&q.ModelPreferences, key, value)
		case "metadata":
			err = objectMember(&q.Metadata, key, value)
		case "tools":
			q.Tools, err = decodeTools(value)
		case "toolChoice":
			err = decodeMember(&q.ToolChoice, key, value)
		case "_meta":
			err = objectMember(&q.Meta, key, value)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if !hasMessages || !hasMaxTokens {
		return nil, fmt.Errorf("messages and maxTokens must be present")
	}
	return q, nil
}

func decodeSamplingMessages(raw []byte) ([]SamplingMessage, error) {
	return decodeMessageList(raw, func(m *SamplingMessage, key, value []byte) (err error) {
		switch string(key) {
		case "role":
			err = roleMember(&m.Role, key, value)
		case "content":
			m.Content, err = decodeSamplingContent(value)
		case "_meta":
			err = objectMember(&m.Meta, key, value)
		}
		return err
	}, func(m *SamplingMessage) bool { return m.Role != "" && m.Content != nil })
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

// DecodeCreateMessageResult reads the answer to a [CreateMessage]. Role,
// content and model must be there.
func DecodeCreateMessageResult(raw []byte) (*CreateMessageResult, error) {
	r := &CreateMessageResult{}
	err := readChecked(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "role":
			err = roleMember(&r.Role, key, value)
		case "content":
			r.Content, err = decodeSamplingContent(value)
		case "model":
			err = textMember(&r.Model, key, value)
		case "stopReason":
			err = textMember(&r.StopReason, key, value)
		case "_meta":
			err = objectMember(&r.Meta, key, value)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sampling result: %w", err)
	}
	if r.Role == "" || r.Content == nil || r.Model == "" {
		return nil, fmt.Errorf("sampling result: role, content and model must be present")
	}
	return r, nil
}

// MarshalJSON returns the JSON object of the answer.
func (r CreateMessageResult) MarshalJSON() ([]byte, error) {
	w := beginObject(nil)
	w.addRole(r.Role)
	w.addSamplingContent(r.Content)
	w.addText("model", r.Model)
	w.addNonEmptyText("stopReason", r.StopReason)
	w.addRawObject("_meta", r.Meta)
	return w.endObject()
}
