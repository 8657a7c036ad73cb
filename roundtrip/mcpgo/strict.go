package mcpgo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// strict reads a message before mcp-go does. mcp-go takes a member for another
// that differs in case, and of two with one name the last; where the two halves
// of a round trip are concerned that lets a client say two things at once. A
// modern request that can have rounds therefore keeps of its envelope only the
// members that are spelled exactly, and is refused where it is ambiguous. All
// else passes as it is: what older revisions made of it is not changed. modern
// is what the transport makes of the message: over HTTP its header decides, on
// a stream of lines that it speaks of a revision at all.
//
// The error, if any, is to be sent for id, which is JSON.
func strict(message []byte, modern bool) (clean []byte, id json.RawMessage, refused *protocol.Error) {
	if !modern {
		return message, nil, nil
	}
	null := json.RawMessage("null")
	if err := jsonx.Check(message); err != nil {
		return nil, null, protocol.Errorf(protocol.CodeParseError, "parse error: %s", err)
	}
	if jsonx.KindOf(message) != jsonx.Object {
		return message, nil, nil // mcp-go refuses it
	}
	head, err := membersOf(message, "jsonrpc", "id", "method", "params")
	if err != nil || head.method() == "" || !protocol.MultiRoundTrip(head.method()) {
		return message, nil, nil
	}
	if id = head.value("id"); id == nil {
		id = null
	}
	params := head.value("params")
	if jsonx.KindOf(params) != jsonx.Object {
		return message, nil, nil
	}
	inner, err := membersOf(params, "name", "uri", "arguments", "_meta", "task", "inputResponses", "requestState")
	if err != nil {
		return message, nil, nil
	}
	if !modernMeta(inner.value("_meta")) && !head.dropped && !inner.dropped {
		return message, nil, nil
	}
	if raw := inner.value("inputResponses"); raw != nil && jsonx.KindOf(raw) != jsonx.Object {
		return nil, id, protocol.Errorf(protocol.CodeInvalidParams, "inputResponses: must be an object")
	}
	if raw := inner.value("requestState"); raw != nil && jsonx.KindOf(raw) != jsonx.String {
		return nil, id, protocol.Errorf(protocol.CodeInvalidParams, "requestState: must be a string")
	}
	if !head.dropped && !inner.dropped {
		return message, nil, nil
	}
	head.set("params", inner.encode())
	return head.encode(), nil, nil
}

// modernLine reports whether a line may be of a revision without handshake.
func modernLine(line []byte) bool {
	return bytes.Contains(line, []byte(protocol.MetaProtocolVersion))
}

// modernMeta reports whether _meta names a revision without handshake.
func modernMeta(meta json.RawMessage) bool {
	raw, ok := protocol.Meta(meta).Get(protocol.MetaProtocolVersion)
	if !ok {
		return false
	}
	version, err := jsonx.Text(raw)
	return err == nil && mcp.IsModernProtocol(version)
}

// object is a JSON object, its members in order.
type object struct {
	members []member
	dropped bool // a member was, because it only looks like a known one
}

type member struct {
	name  string
	value json.RawMessage
}

// membersOf takes an object apart, without the members that differ from one of
// the known names by case alone.
func membersOf(raw []byte, known ...string) (object, error) {
	var o object
	err := jsonx.Members(raw, func(key, value []byte) error {
		name := string(key)
		for _, k := range known {
			if name != k && strings.EqualFold(name, k) {
				o.dropped = true
				return nil
			}
		}
		o.members = append(o.members, member{name, value})
		return nil
	})
	return o, err
}

func (o object) value(name string) json.RawMessage {
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (o object) method() string {
	text, err := jsonx.Text(o.value("method"))
	if err != nil {
		return ""
	}
	return text
}

func (o object) set(name string, value json.RawMessage) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = value
		}
	}
}

func (o object) encode() json.RawMessage {
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

// tooLong is what a message over the limit is answered with.
func tooLong(limit int) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInvalidRequest, Message: fmt.Sprintf("the message is longer than %d bytes", limit)}
}
