package mcpgo

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// cleanMessage checks a message before mcp-go decodes it. mcp-go ignores the case of
// member names, and takes the last of repeated members, so that the adapter and mcp-go
// could read different answers from one message. Of a modern message mcp-go therefore
// gets only the members with exact names, and an ambiguous request that can have rounds
// is refused. Messages of older revisions pass unchanged, as their clients rely on.
// header is the MCP-Protocol-Version header, empty for lines.
//
// Where refused is not nil it is the error to be sent for id, which is JSON.
func cleanMessage(message []byte,
	header string) (clean []byte, id json.RawMessage, refused *protocol.Error) {
	if !readsAsModern(message, header) {
		return message, nil, nil
	}
	null := json.RawMessage("null")
	if err := jsonx.Check(message); err != nil {
		return nil, null, protocol.Errorf(protocol.CodeParseError, "parse error: %s", err)
	}
	if jsonx.KindOf(message) != jsonx.Object {
		return message, nil, nil // refused by mcp-go
	}
	head, err := decodeObject(message, "jsonrpc", "id", "method", "params", "result", "error")
	if err != nil {
		return nil, null, protocol.Errorf(protocol.CodeParseError, "parse error: %s", err)
	}
	if id = head.findMember("id"); id == nil {
		id = null
	}
	if params := head.findMember("params"); jsonx.KindOf(params) == jsonx.Object &&
		protocol.MultiRoundTrip(head.methodName()) {
		cleaned, refused := cleanParams(params)
		if refused != nil {
			return nil, id, refused
		}
		if cleaned != nil {
			head.setMember("params", cleaned)
		}
	}
	if !head.changed {
		return message, nil, nil
	}
	return head.encodeJSON(), nil, nil
}

// cleanParams returns the parameters of a request that can have rounds without the members
// whose names differ from known ones by case, nil where there are none such.
func cleanParams(params json.RawMessage) (json.RawMessage, *protocol.Error) {
	inner, err := decodeObject(params, "name", "uri", "arguments", "_meta", "task",
		"inputResponses", "requestState")
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "params: %s", err)
	}
	if raw := inner.findMember("inputResponses"); raw != nil && jsonx.KindOf(raw) != jsonx.Object {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "inputResponses: must be an object")
	}
	if raw := inner.findMember("requestState"); raw != nil && jsonx.KindOf(raw) != jsonx.String {
		return nil, protocol.Errorf(protocol.CodeInvalidParams, "requestState: must be a string")
	}
	if !inner.changed {
		return nil, nil
	}
	return inner.encodeJSON(), nil
}

// readsAsModern reports whether mcp-go may treat a message as modern, because of the
// header or of its _meta. It decodes the message as leniently as mcp-go does.
func readsAsModern(message []byte, header string) bool {
	if mcp.IsModernProtocol(header) {
		return true
	}
	var head struct {
		Params struct {
			Meta *mcp.Meta `json:"_meta"`
		} `json:"params"`
	}
	return json.Unmarshal(message, &head) == nil &&
		mcp.IsModernProtocol(head.Params.Meta.ProtocolVersion())
}

// object is a JSON object with its members in order.
type object struct {
	members []member
	changed bool // differs from the JSON that it was decoded from
}

type member struct {
	name  string
	value json.RawMessage
}

// decodeObject decodes an object without the members whose names differ from a known name
// by case alone.
func decodeObject(raw []byte, known ...string) (object, error) {
	var o object
	err := jsonx.Members(raw, func(key, value []byte) error {
		name := string(key)
		for _, k := range known {
			if name != k && strings.EqualFold(name, k) {
				o.changed = true
				return nil
			}
		}
		o.members = append(o.members, member{name, value})
		return nil
	})
	return o, err
}

func (o object) findMember(name string) json.RawMessage {
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (o object) methodName() string {
	text, err := jsonx.Text(o.findMember("method"))
	if err != nil {
		return ""
	}
	return text
}

// setMember replaces the value of an existing member.
func (o *object) setMember(name string, value json.RawMessage) {
	o.changed = true
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = value
		}
	}
}

func (o object) encodeJSON() json.RawMessage {
	out := []byte{'{'}
	for i, m := range o.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonx.AppendText(out, m.name), ':')
		out = append(out, m.value...)
	}
	return append(out, '}')
}

// newTooLongError returns the error for a message over the limit.
func newTooLongError(limit int) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInvalidRequest,
		Message: fmt.Sprintf("the message is longer than %d bytes", limit)}
}
