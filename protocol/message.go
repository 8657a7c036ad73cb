package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
)

// A Message is a [*Request], a [*Notification] or a [*Response].
type Message interface{ isMessage() }

// A Request asks for a [Response] with the same ID.
type Request struct {
	ID     ID
	Method string
	Params json.RawMessage // a JSON object, nil when absent
	// Repaired means that the received text had invalid Unicode, see [DecodeMessage].
	Repaired bool
	// Mirror repeats values that HTTP transports copy into headers, so that they need not parse
	// Params. Senders fill it; in received requests it is empty.
	Mirror Mirror
}

// A Notification expects no response.
type Notification struct {
	Method string
	Params json.RawMessage // a JSON object, nil when absent
}

// A Response answers the request with the same ID, which is zero if that id was unreadable.
type Response struct {
	ID     ID
	Result json.RawMessage
	Error  *Error
}

// Mirror holds the values that Streamable HTTP copies into headers
// (basic/transports/streamable-http, "Request Metadata").
type Mirror struct {
	Version Version         // MCP-Protocol-Version
	Name    string          // Mcp-Name; empty if the method has none
	Params  []MirroredParam // Mcp-Param-*
}

// A MirroredParam is a tool argument with x-mcp-header. The transport encodes the value.
type MirroredParam struct{ Name, Value string }

func (*Request) isMessage()      {}
func (*Notification) isMessage() {}
func (*Response) isMessage()     {}

// DecodeMessage decodes one JSON-RPC message, which aliases data. Only if data has invalid Unicode,
// which is read as U+FFFD where no safety depends on it, the message is a copy. If an entry of a
// list in a result is nested too deep, only [DecodeResult] refuses it.
//
// Errors are an [*Error] with code [CodeParseError] for invalid JSON, or [CodeInvalidRequest] for
// JSON that is not a message. If the kind of message is still known, a message is returned as well:
// a [*Request] or [*Response] with only the ID, so that the refusal can name it, or an empty
// [*Notification], which needs no answer.
func DecodeMessage(data []byte) (Message, error) {
	var raw messageMembers
	repaired := false
	err := jsonx.CheckMembers(data, raw.readMember)
	if e, ok := err.(*jsonx.SyntaxError); ok && (e.IsText() || e.IsDepth()) &&
		jsonx.KindOf(data) == jsonx.Object {
		repaired = true
		err = jsonx.CheckMembers(jsonx.Repair(data, careOf), raw.readMember)
	}
	if err != nil {
		return refusedMessage(data),
			&Error{Code: CodeParseError, Message: "parse error: " + err.Error()}
	}
	if jsonx.KindOf(data) != jsonx.Object {
		return nil, &Error{
			Code:    CodeInvalidRequest,
			Message: "invalid request: a message must be one JSON object",
		}
	}
	m, err := raw.decodeMessage()
	if err != nil {
		return refusedMessage(data),
			&Error{Code: CodeInvalidRequest, Message: "invalid request: " + err.Error()}
	}
	if request, ok := m.(*Request); ok {
		request.Repaired = repaired
	}
	return m, nil
}

// refusedMessage returns the message beside an error of [DecodeMessage].
func refusedMessage(data []byte) Message {
	var ids, methods, answers int
	var id ID
	whole := jsonx.OuterMembers(data, func(key, value []byte) {
		switch string(key) {
		case "id":
			if ids++; jsonx.Check(value) == nil {
				id, _ = ParseID(value)
			}
		case "method":
			methods++
		case "result", "error":
			answers++
		}
	})
	switch {
	case whole && ids == 0 && methods == 1 && answers == 0:
		return &Notification{}
	case ids != 1 || id.IsZero():
		return nil
	case answers > 0 && methods == 0:
		return &Response{ID: id.Value()}
	}
	return &Request{ID: id}
}

// Within an error, where data may hold URLs to visit.
const inError jsonx.Care = 1 << 7

const inResult jsonx.Care = 1 << 5 // directly within a result

const ofTools jsonx.Care = 1 << 6 // in data of tools, whose names mean nothing here

// careOf is the [jsonx.Repair] rule for messages. Invalid Unicode is refused, not repaired, in ids,
// names, URIs, states and answers, because they are compared or passed on.
func careOf(parent jsonx.Care, depth int, name []byte, first byte) jsonx.Care {
	const keepAll = jsonx.KeepText | jsonx.KeepNames
	if parent&^inError == keepAll || parent == ofTools {
		return parent
	}
	isText, outer := first == '"', depth == 2 // outer: a member of params, result or error
	switch string(name) {
	case "jsonrpc", "id", "method", "name", "uri", "uriTemplate", "url", "src", "websiteUrl",
		"requestState", "action", "cursor", "nextCursor", "taskId", "requestId", "toolUseId",
		"elicitationId", "progressToken",
		MetaProtocolVersion, MetaSubscriptionID:
		if isText {
			return jsonx.KeepText
		}
	case "inputResponses", "resourceSubscriptions", "taskIds":
		return keepAll
	case "content": // of an answer; in a tool result it is a list
		if outer && first == '{' {
			return keepAll
		}
		fallthrough
	case "contents", "tools", "prompts", "resources", "resourceTemplates":
		if parent == inResult {
			return jsonx.Entries
		}
	case "result":
		if depth == 1 {
			return inResult
		}
	case "inputRequests":
		return jsonx.KeepNames
	case "error":
		if depth == 1 {
			return inError
		}
	case "structuredContent":
		return ofTools
	case "arguments", "data":
		if outer && parent != inError {
			return ofTools
		}
	}
	return parent & inError
}

type messageMembers struct{ jsonrpc, id, method, params, result, err []byte }

func (m *messageMembers) readMember(key, value []byte) error {
	switch string(key) {
	case "jsonrpc":
		m.jsonrpc = value
	case "id":
		m.id = value
	case "method":
		m.method = value
	case "params":
		m.params = orAbsent(value)
	case "result":
		m.result = orAbsent(value)
	case "error":
		m.err = orAbsent(value)
	}
	return nil
}

func (m *messageMembers) decodeMessage() (Message, error) {
	if string(m.jsonrpc) != `"2.0"` {
		return nil, fmt.Errorf(`jsonrpc must be "2.0"`)
	}
	if m.method == nil {
		return m.decodeResponse()
	}
	if m.result != nil || m.err != nil {
		return nil, fmt.Errorf("method together with result or error")
	}
	text, err := jsonx.TextBytes(m.method)
	if err != nil {
		return nil, fmt.Errorf("method must be a string")
	}
	method := internMethod(text)
	if m.params != nil && jsonx.KindOf(m.params) != jsonx.Object {
		return nil, fmt.Errorf("params must be an object")
	}
	if m.id == nil {
		return &Notification{Method: method, Params: m.params}, nil
	}
	id, err := ParseID(m.id)
	if err != nil {
		return nil, err
	}
	return &Request{ID: id, Method: method, Params: m.params}, nil
}

func (m *messageMembers) decodeResponse() (Message, error) {
	r := &Response{Result: m.result}
	switch {
	case m.result == nil && m.err == nil:
		return nil, fmt.Errorf("none of method, result and error is present")
	case m.result != nil && m.err != nil:
		return nil, fmt.Errorf("result together with error")
	case m.result != nil && jsonx.KindOf(m.result) != jsonx.Object:
		return nil, fmt.Errorf("result must be an object")
	}
	if m.err != nil {
		var err error
		if r.Error, err = decodeError(m.err); err != nil {
			return nil, err
		}
	}
	// JSON-RPC sends a null id if the request's id was unreadable; the schema omits the id.
	if m.id == nil || (r.Error != nil && string(m.id) == "null") {
		if r.Error == nil {
			return nil, fmt.Errorf("result without id")
		}
		return r, nil
	}
	id, err := ParseID(m.id)
	r.ID = id.Value()
	return r, err
}

// AppendMessage appends m as JSON on one line. Params and Result must be JSON objects; they are
// copied without insignificant white space and further checks. It returns dst and an error when m
// is nil, a request has no id, or a response has neither an error nor both a result and an id.
func AppendMessage(dst []byte, m Message) ([]byte, error) {
	switch m := m.(type) {
	case *Request:
		if m == nil || m.ID.IsZero() {
			return dst, fmt.Errorf("request: nil or without an id")
		}
		out := growForMessage(dst, len(m.ID.text)+len(m.Method)+len(m.Params))
		out = rpc.AppendRequest(out, m.ID.text, m.Method)
		return appendParams(dst, out, m.Method, m.Params)
	case *Notification:
		if m == nil {
			return dst, fmt.Errorf("notification: nil")
		}
		out := growForMessage(dst, len(m.Method)+len(m.Params))
		return appendParams(dst, rpc.AppendNotification(out, m.Method), m.Method, m.Params)
	case *Response:
		switch {
		case m == nil:
			return dst, fmt.Errorf("response: nil")
		case m.Error == nil && (m.ID.IsZero() || jsonx.KindOf(m.Result) != jsonx.Object):
			return dst, fmt.Errorf("response %s: must have an error, "+
				"or an id and a result that is a JSON object", m.ID)
		}
		return appendResponse(growForMessage(dst, len(m.ID.text)+len(m.Result)), m), nil
	}
	return dst, fmt.Errorf("message: unknown type %T", m)
}

// growForMessage reserves room for a message with n bytes of content.
func growForMessage(dst []byte, n int) []byte {
	const envelopeBytes = 64
	return slices.Grow(dst, envelopeBytes+n)
}

// appendParams completes the message begun in out. On error it returns the slice before unchanged.
func appendParams(before, out []byte, method string, params json.RawMessage) ([]byte, error) {
	if params != nil {
		if jsonx.KindOf(params) != jsonx.Object {
			return before, fmt.Errorf("%s: params must be a JSON object", quoteClipped(method))
		}
		out = append(out, `,"params":`...)
		out = jsonx.AppendCompact(out, params)
	}
	return append(out, '}'), nil
}

func appendResponse(dst []byte, r *Response) []byte {
	if r.Error != nil {
		dst = appendError(rpc.BeginError(dst, r.ID.text), r.Error)
	} else {
		dst = jsonx.AppendCompact(rpc.BeginResult(dst, r.ID.text), r.Result)
	}
	return append(dst, '}')
}
