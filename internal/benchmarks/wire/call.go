package wire

import (
	"bytes"
	"fmt"
	"net/http"
)

// Version is the protocol revision in which peers are compared.
const Version = "2026-07-28"

const (
	prefix = "io.modelcontextprotocol/"
	meta   = `{"` + prefix + `protocolVersion":"` + Version + `","` +
		prefix + `clientInfo":{"name":"bench","version":"1.0.0"},"` +
		prefix + `clientCapabilities":{"elicitation":{"form":{}}}}`

	// DeployArguments are the arguments of Deploy in every measurement.
	DeployArguments = `{"environment":"` + Environment + `","version":"` + Release + `"}`
	// Accept is the answer to every question.
	Accept = `{"action":"accept","content":{"approve":true}}`
)

// Every measurement uses these.
const (
	Environment = "production"
	Release     = "v1.2.3"
	Hello       = "hello, world"
)

// A Call is an encoded tools/call. If it has answers, it has two parts, around the server's state.
type Call struct {
	Tool          string
	before, after string
}

func call(tool, args string) Call {
	return Call{Tool: tool, after: `}}`, before: fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":`+
			`{"name":%q,"arguments":%s,"_meta":%s`, tool, args, meta)}
}

// EchoCall is a plain call.
func EchoCall() Call { return call(Echo, `{"message":"`+Hello+`","upper":false}`) }

// DeployCall is the first leg of Deploy.
func DeployCall() Call { return call(Deploy, DeployArguments) }

// DeployAnswer is the second leg.
func DeployAnswer() Call {
	c := DeployCall()
	c.before += `,"inputResponses":{"` + ConfirmKey + `":` + Accept + `},"requestState":"`
	c.after = `"` + c.after
	return c
}

// Append appends the message to buf. state is escaped, as received, or nil without answers.
func (c Call) Append(buf, state []byte) []byte {
	buf = append(append(buf, c.before...), state...)
	return append(buf, c.after...)
}

// Header returns the headers of a request for a tool.
func Header(tool string) http.Header {
	return http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {Version},
		"Mcp-Method":           {"tools/call"},
		"Mcp-Name":             {tool},
	}
}

// State returns the state in a response, still escaped, or nil if there is none.
func State(response []byte) []byte {
	_, rest, found := bytes.Cut(response, []byte(`"requestState":"`))
	if !found {
		return nil
	}
	state, _, found := bytes.Cut(rest, []byte(`"`)) // states of all peers are base64
	if !found || len(state) == 0 {
		return nil
	}
	return state
}

// Complete is a cheap check for timed loops. TestServers checks responses completely.
func Complete(response []byte) bool {
	return bytes.Contains(response, []byte(`"resultType":"complete"`))
}

// Asks is the same for responses that ask a question.
func Asks(response []byte) bool {
	return bytes.Contains(response, []byte(`"resultType":"input_required"`))
}
