package wire

import (
	"fmt"
	"net/http"
	"strings"
)

// Version is the revision of the protocol that is compared.
const Version = "2026-07-28"

const (
	prefix = "io.modelcontextprotocol/"
	// Meta is the metadata of every request.
	Meta = `{"` + prefix + `protocolVersion":"` + Version + `","` + prefix + `clientInfo":{"name":"bench","version":"1.0.0"},"` +
		prefix + `clientCapabilities":{"elicitation":{"form":{}}}}`
	deployArgs = `{"environment":"` + Environment + `","version":"` + Release + `"}`
)

// What is deployed, and where, in every measurement.
const (
	Environment = "production"
	Release     = "v1.2.3"
	Hello       = "hello, world"
)

// A Call is a tools/call ready to be sent. One that answers questions is kept
// in two parts, between which the state belongs that the server returned.
type Call struct {
	Tool          string
	before, after string
}

func call(tool, args, rest string) Call {
	return Call{Tool: tool, before: fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":%s%s`, tool, args, Meta, rest), after: `}}`}
}

func answer(tool, args, answers string) Call {
	c := call(tool, args, `,"inputResponses":`+answers+`,"requestState":"`)
	c.after = `"` + c.after
	return c
}

// Append appends the message to buf. State is as it came over the wire, still
// escaped; nil for calls that answer nothing.
func (c Call) Append(buf, state []byte) []byte {
	buf = append(append(buf, c.before...), state...)
	return append(buf, c.after...)
}

// Header returns the headers of the request for a tool.
func Header(tool string) http.Header {
	return http.Header{
		"Content-Type":         {"application/json"},
		"Accept":               {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {Version},
		"Mcp-Method":           {"tools/call"},
		"Mcp-Name":             {tool},
	}
}

// EchoCall is a plain call.
func EchoCall() Call { return call(Echo, `{"message":"`+Hello+`","upper":false}`, "") }

// DeployCall is the first leg of Deploy.
func DeployCall() Call { return call(Deploy, deployArgs, "") }

// DeployAnswer is the second leg, with a note of that many bytes in the answer.
func DeployAnswer(note int) Call {
	return answer(Deploy, deployArgs, `{"`+ConfirmKey+`":`+accept(note)+`}`)
}

// SurveyCall is the first leg of Survey.
func SurveyCall(n int) Call { return call(Survey, surveyArgs(n), "") }

// SurveyAnswer is the second leg of Survey: all n are accepted.
func SurveyAnswer(n int) Call {
	answers := make([]string, n)
	for i := range answers {
		answers[i] = fmt.Sprintf("%q:%s", SurveyKey(i), accept(0))
	}
	return answer(Survey, surveyArgs(n), "{"+strings.Join(answers, ",")+"}")
}

func surveyArgs(n int) string { return fmt.Sprintf(`{"environment":%q,"n":%d}`, Environment, n) }

func accept(note int) string {
	if note == 0 {
		return `{"action":"accept","content":{"approve":true}}`
	}
	return `{"action":"accept","content":{"approve":true,"note":"` + strings.Repeat("x", note) + `"}}`
}

// SinkText is a call of Sink with a string of size bytes.
func SinkText(size int) Call {
	const text = "lorem ipsum dolor sit amet. "
	return call(Sink, `{"message":"`+strings.Repeat(text, size/len(text)+1)[:size]+`"}`, "")
}

// SinkObjects is a call of Sink with about size bytes of small objects.
func SinkObjects(size int) Call {
	var b strings.Builder
	b.WriteString(`{"message":"m","data":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item %d","price":%d.5,"tags":["a","b"],"ok":true}`, i, i, i)
	}
	b.WriteString(`]}`)
	return call(Sink, b.String(), "")
}
