package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// A Message is a [*Request], a [*Notification] or a [*Response].
type Message interface{ message() }

// A Request asks for a [Response] with the same ID.
type Request struct {
	ID     ID
	Method string
	// Params is the JSON object of parameters, nil when there is none.
	Params json.RawMessage
	// Mirror repeats what HTTP transports copy into headers. It is not part of
	// the message: senders fill it so that a transport need not parse Params,
	// receivers find it empty.
	Mirror Mirror
}

// A Notification expects no answer.
type Notification struct {
	Method string
	// Params is the JSON object of parameters, nil when there is none.
	Params json.RawMessage
}

// A Response answers the request with the same ID, with a Result or an Error.
// ID is zero when the request's id could not be read.
type Response struct {
	ID     ID
	Result json.RawMessage
	Error  *Error
}

// Mirror holds the values that Streamable HTTP copies from the body into
// headers (basic/transports/streamable-http, "Request Metadata").
type Mirror struct {
	Version Version         // MCP-Protocol-Version
	Name    string          // Mcp-Name; empty where the method has none
	Params  []MirroredParam // Mcp-Param-*
}

// A MirroredParam is one tool argument that its schema marks with
// x-mcp-header. Value is the plain value; the transport encodes it.
type MirroredParam struct{ Name, Value string }

func (*Request) message()      {}
func (*Notification) message() {}
func (*Response) message()     {}

// DecodeMessage reads one JSON-RPC message. The returned message aliases data.
//
// A failure is an [*Error] with code [CodeParseError] when data is not strict
// JSON, or [CodeInvalidRequest] when it is not a message. In the second case
// the message is not nil if an id could be read: it is then a [*Request] that
// holds nothing but that ID, so that the refusal can echo it.
func DecodeMessage(data []byte) (Message, error) {
	var env envelope
	if err := jsonx.CheckMembers(data, env.member); err != nil {
		return nil, &Error{Code: CodeParseError, Message: "parse error: " + err.Error()}
	}
	if jsonx.KindOf(data) != jsonx.Object {
		return nil, &Error{Code: CodeInvalidRequest, Message: "invalid request: a message must be one JSON object"}
	}
	m, err := env.message()
	if err != nil {
		refusal := &Error{Code: CodeInvalidRequest, Message: "invalid request: " + err.Error()}
		if id, idErr := ParseID(env.id); env.id != nil && idErr == nil {
			return &Request{ID: id}, refusal
		}
		return nil, refusal
	}
	return m, nil
}

// envelope holds the raw members of a message; nil means absent. Its member never
// fails.
type envelope struct{ jsonrpc, id, method, params, result, err []byte }

func (e *envelope) member(key, value []byte) error {
	switch string(key) {
	case "jsonrpc":
		e.jsonrpc = value
	case "id":
		e.id = value
	case "method":
		e.method = value
	case "params":
		e.params = value
	case "result":
		e.result = value
	case "error":
		e.err = value
	}
	return nil
}

func (e *envelope) message() (Message, error) {
	if string(e.jsonrpc) != `"2.0"` {
		return nil, fmt.Errorf(`jsonrpc must be "2.0"`)
	}
	if e.method == nil {
		return e.response()
	}
	if e.result != nil || e.err != nil {
		return nil, fmt.Errorf("method together with result or error")
	}
	text, err := jsonx.TextBytes(e.method)
	if err != nil {
		return nil, fmt.Errorf("method must be a string")
	}
	method := internMethod(text)
	if e.params != nil && jsonx.KindOf(e.params) != jsonx.Object {
		return nil, fmt.Errorf("params must be an object")
	}
	if e.id == nil {
		return &Notification{Method: method, Params: e.params}, nil
	}
	id, err := ParseID(e.id)
	if err != nil {
		return nil, err
	}
	return &Request{ID: id, Method: method, Params: e.params}, nil
}

func (e *envelope) response() (Message, error) {
	r := &Response{Result: e.result}
	switch {
	case e.result == nil && e.err == nil:
		return nil, fmt.Errorf("none of method, result and error is present")
	case e.result != nil && e.err != nil:
		return nil, fmt.Errorf("result together with error")
	case e.result != nil && jsonx.KindOf(e.result) != jsonx.Object:
		return nil, fmt.Errorf("result must be an object")
	}
	if e.err != nil {
		var err error
		if r.Error, err = decodeError(e.err); err != nil {
			return nil, err
		}
	}
	// JSON-RPC lets an error response carry null where the id of the request
	// could not be read; the schema leaves the member out. Both mean "no id".
	if e.id == nil || (r.Error != nil && string(e.id) == "null") {
		if r.Error == nil {
			return nil, fmt.Errorf("result without id")
		}
		return r, nil
	}
	var err error
	r.ID, err = ParseID(e.id)
	return r, err
}

// AppendMessage appends the JSON text of m, on one line, to dst. Params and
// Result, which must be JSON objects, are re-emitted as they are, less
// insignificant white space; what lies within them is not checked again. It is
// an error, and dst is returned as it was, when m is nil, a request has no id,
// or a response has neither an error nor both a result and an id.
func AppendMessage(dst []byte, m Message) ([]byte, error) {
	switch m := m.(type) {
	case *Request:
		if m == nil || m.ID.IsZero() {
			return dst, fmt.Errorf("request: nil or without an id")
		}
		out := append(roomFor(dst, len(m.ID.text)+len(m.Method)+len(m.Params)), `{"jsonrpc":"2.0","id":`...)
		out = append(out, m.ID.text...)
		out = append(out, `,"method":`...)
		return appendMethod(dst, out, m.Method, m.Params)
	case *Notification:
		if m == nil {
			return dst, fmt.Errorf("notification: nil")
		}
		out := append(roomFor(dst, len(m.Method)+len(m.Params)), `{"jsonrpc":"2.0","method":`...)
		return appendMethod(dst, out, m.Method, m.Params)
	case *Response:
		switch {
		case m == nil:
			return dst, fmt.Errorf("response: nil")
		case m.Error == nil && (m.ID.IsZero() || jsonx.KindOf(m.Result) != jsonx.Object):
			return dst, fmt.Errorf("response %s: must have an error, or an id and a result that is a JSON object", m.ID)
		}
		return appendResponse(roomFor(dst, len(m.ID.text)+len(m.Result)), m), nil
	}
	return dst, fmt.Errorf("message: unknown type %T", m)
}

// roomFor returns dst with room for a message whose parts take n bytes.
func roomFor(dst []byte, n int) []byte {
	const frame = 64 // what is around the parts
	return slices.Grow(dst, frame+n)
}

// appendMethod appends to out what requests and notifications share; before is
// returned on error.
func appendMethod(before, out []byte, method string, params json.RawMessage) ([]byte, error) {
	out = jsonx.AppendText(out, method)
	if params != nil {
		if jsonx.KindOf(params) != jsonx.Object {
			return before, fmt.Errorf("%s: params must be a JSON object", clip(method))
		}
		out = append(out, `,"params":`...)
		out = jsonx.AppendCompact(out, params)
	}
	return append(out, '}'), nil
}

// BeginRequest appends to dst what precedes the params in the JSON text of a
// request with that id, which must not be zero. [AppendInputParams] and a closing
// brace complete a question: this saves the copy that [AppendMessage] makes.
func BeginRequest(dst []byte, id ID, method string) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id.text...)
	dst = jsonx.AppendText(append(dst, `,"method":`...), method)
	return append(dst, `,"params":`...)
}

// BeginResponse appends to dst what precedes the result in the JSON text of a
// response with that id. [AppendResult] and a closing brace complete it: this
// saves those who encode the result themselves the copy that [AppendMessage]
// makes.
func BeginResponse(dst []byte, id ID) []byte {
	return append(appendResponseID(dst, id), `,"result":`...)
}

func appendResponseID(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !id.IsZero() {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id.text...)
	}
	return dst
}

func appendResponse(dst []byte, r *Response) []byte {
	dst = appendResponseID(dst, r.ID)
	if r.Error != nil {
		dst = append(dst, `,"error":`...)
		dst = appendError(dst, r.Error)
	} else {
		dst = append(dst, `,"result":`...)
		dst = jsonx.AppendCompact(dst, r.Result)
	}
	return append(dst, '}')
}
