package elicitation

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A question is what an upstream asks, read and checked. It aliases params.
type question struct {
	params  json.RawMessage
	kind    protocol.InputKind
	message string
	schema  json.RawMessage // of a form
	url, id string          // of a visit; id is the upstream's elicitationId
	meta    protocol.Meta
	token   protocol.ProgressToken
}

// parseQuestion reads the parameters of elicitation/create.
func (r *Router) parseQuestion(params json.RawMessage) (*question, *Error) {
	o := &r.opts
	if len(params) > o.MaxSchemaBytes+maxOutsideSchema {
		return nil, invalidQuestionError(ReasonTooLarge, fmt.Errorf("larger than %d bytes", o.MaxSchemaBytes+maxOutsideSchema))
	}
	if err := jsonx.Check(params); err != nil {
		return nil, invalidQuestionError(ReasonInvalidQuestion, err)
	}
	if jsonx.KindOf(params) != jsonx.Object {
		return nil, invalidQuestionError(ReasonInvalidQuestion, fmt.Errorf("params must be an object"))
	}
	decoded, err := protocol.DecodeInputRequest(protocol.MethodElicit, params)
	if err != nil {
		return nil, invalidQuestionError(ReasonInvalidQuestion, err)
	}
	q := &question{params: params, kind: decoded.Kind()}
	switch d := decoded.(type) {
	case *protocol.ElicitForm:
		q.message, q.schema, q.meta = d.Message, d.Schema, d.Meta
	case *protocol.ElicitURL:
		q.message, q.url, q.id, q.meta = d.Message, d.URL, d.ElicitationID, d.Meta
	}
	if q.token, err = readProgressToken(json.RawMessage(q.meta)); err != nil {
		return nil, invalidQuestionError(ReasonInvalidQuestion, err)
	}
	return q, r.checkSchema(q)
}

// checkSchema holds a form against the limits, and where content is to be
// enforced against the grammar, too.
func (r *Router) checkSchema(q *question) *Error {
	o := &r.opts
	if q.kind != protocol.KindElicitForm {
		return nil
	}
	if len(q.schema) > o.MaxSchemaBytes {
		return invalidQuestionError(ReasonTooLarge, fmt.Errorf("requestedSchema: larger than %d bytes", o.MaxSchemaBytes))
	}
	if jsonDepth(q.schema) > o.MaxSchemaDepth {
		return invalidQuestionError(ReasonTooLarge, fmt.Errorf("requestedSchema: nested deeper than %d", o.MaxSchemaDepth))
	}
	if o.Validation == ValidateEnforce {
		if _, err := r.forms.parse(q.schema); err != nil {
			return invalidQuestionError(ReasonInvalidQuestion, err)
		}
	}
	return nil
}

func readProgressToken(meta json.RawMessage) (token protocol.ProgressToken, err error) {
	if meta == nil {
		return token, nil
	}
	err = jsonx.Members(meta, func(key, value []byte) (err error) {
		if string(key) == protocol.MetaProgressToken {
			token, err = protocol.ParseID(value)
		}
		return err
	})
	return token, err
}

// jsonDepth is how deep raw, checked JSON, nests: {} is 1.
func jsonDepth(raw []byte) int {
	deepest, now, text := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// encodeParams spells the question for a client of revision v. What the upstream
// wrote is passed on as it is, members that this package does not know included,
// except that the progress token is token, the elicitationId is visitID, and
// what revision v or the mode does not have is left out.
func (q *question) encodeParams(v protocol.Version, token protocol.ID, visitID string) (json.RawMessage, error) {
	dst := append(make([]byte, 0, len(q.params)+128), '{')
	err := jsonx.Members(q.params, func(key, value []byte) error {
		switch string(key) {
		case "_meta", "elicitationId":
			return nil // written below
		case "task":
			return nil // no task is declared, so it is to be ignored
		case "mode":
			if v < protocol.V20251125 {
				return nil
			}
		case "url":
			if q.kind != protocol.KindElicitURL {
				return nil // has passed no policy
			}
		case "requestedSchema":
			if q.kind != protocol.KindElicitForm {
				return nil // has passed no limits
			}
			if v < protocol.V20251125 {
				down, err := form.DowngradeTo20250618(value)
				if err == nil {
					value = down
				} // else the client gets it as it is: it may know more than its revision
			}
		case "message":
		default:
			if misspellsMember(key) {
				return fmt.Errorf("%q differs from a member of elicitation/create in case alone", key)
			}
		}
		dst = append(jsonx.AppendTextBytes(dst, key), ':')
		dst = append(jsonx.AppendCompact(dst, value), ',')
		return nil
	})
	if err != nil {
		return nil, err
	}
	if q.kind == protocol.KindElicitURL && visitID != "" && v.Era() == protocol.Legacy {
		dst = append(jsonx.AppendText(append(dst, `"elicitationId":`...), visitID), ',')
	}
	dst = append(dst, `"_meta":{`...)
	if dst, err = appendRelayedMeta(dst, q.meta); err != nil {
		return nil, err
	}
	dst = append(dst, `"progressToken":`...)
	dst = append(dst, token.String()...)
	return append(dst, '}', '}'), nil
}

// misspellsMember tells whether a client that ignores case, as many do, could take the
// member for one that this package has checked.
func misspellsMember(key []byte) bool {
	for _, name := range [...]string{"mode", "message", "requestedSchema", "url", "elicitationId", "_meta", "task"} {
		if strings.EqualFold(string(key), name) {
			return true
		}
	}
	return false
}
