package roundtriptest

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Flow is a request, the answers of the person, and the expected result.
type Flow struct {
	// Name names the subtest.
	Name    string
	Request Request
	// Answers are what the person answers, by the key of the question. A
	// question without an answer fails the test, and so do an answer without
	// a question and one that is for another kind of question.
	Answers Answers
	// Want is the text of the result: of the text blocks of a tool or prompt, or
	// of the contents of a resource, with newlines between.
	Want string
	// Fails is part of the text of the error with which the flow ends instead:
	// a tool's result with isError, or a JSON-RPC error.
	Fails string
	// Never are effects that must not happen in the flow, such as what was declined.
	Never []string
	// Capabilities are what the client declares, nil: all there are.
	Capabilities *protocol.ClientCapabilities
	// Golden is the file that holds the transcript, "": none.
	Golden string
}

// forJudge returns the flow as package attack takes it.
func (f Flow) forJudge() attack.Flow {
	answers := make(map[string]attack.Answer, len(f.Answers))
	for key, a := range f.Answers {
		answers[key] = a.answer
	}
	return attack.Flow{Request: f.Request.request, Answers: answers, Want: f.Want,
		Fails: f.Fails, Never: f.Never, Capabilities: f.Capabilities}
}

// A Request is what starts a flow. The zero value is none; see [Tool], [Prompt] and [Resource].
type Request struct{ request attack.Request }

func newRequest(method, target string, arguments any) Request {
	return Request{attack.Request{Method: method, Target: target, Arguments: arguments}}
}

// Tool calls a tool. arguments are encoded as JSON; nil: none.
func Tool(name string, arguments any) Request {
	return newRequest(protocol.MethodCallTool, name, arguments)
}

// Prompt gets a prompt.
func Prompt(name string, arguments map[string]string) Request {
	if arguments == nil {
		return newRequest(protocol.MethodGetPrompt, name, nil)
	}
	return newRequest(protocol.MethodGetPrompt, name, arguments)
}

// Resource reads a resource.
func Resource(uri string) Request { return newRequest(protocol.MethodReadResource, uri, nil) }

// Answers are what a person answers, by key.
type Answers map[string]Answer

// An Answer is what a person answers to one question.
type Answer struct{ answer attack.Answer }

// newAnswer returns an answer to questions of some kinds, or the error that the flow reports when
// the question is asked.
func newAnswer(result json.RawMessage, err error, kinds ...protocol.InputKind) Answer {
	return Answer{attack.Answer{Kinds: kinds, Result: result, Err: err}}
}

// Accept fills in a form. content is encoded as a JSON object; nil: without any, as of a person who
// leaves everything to the defaults.
func Accept(content any) Answer {
	if content == nil {
		return newAnswer(json.RawMessage(`{"action":"accept"}`), nil, protocol.KindElicitForm)
	}
	data, err := json.Marshal(content)
	return newAnswer(fmt.Appendf(nil, `{"action":"accept","content":%s}`, data), err,
		protocol.KindElicitForm)
}

// Visit agrees to go to a URL.
func Visit() Answer {
	return newAnswer(json.RawMessage(`{"action":"accept"}`), nil, protocol.KindElicitURL)
}

// Decline says no to a form or a URL, at once. A server that the subject does not run in the
// process of the test takes that for unseen; set its [roundtrip.Options].MinHumanTime to -1.
func Decline() Answer { return newRefusal(`{"action":"decline"}`) }

// Cancel dismisses a form or a URL.
func Cancel() Answer { return newRefusal(`{"action":"cancel"}`) }

func newRefusal(result string) Answer {
	return newAnswer(json.RawMessage(result), nil, protocol.KindElicitForm, protocol.KindElicitURL)
}

// Sampled is what a model says.
func Sampled(text string) Answer {
	data, err := json.Marshal(protocol.CreateMessageResult{
		Role: "assistant", Model: "roundtriptest",
		Content: []protocol.Content{&protocol.TextContent{Text: text}},
	})
	return newAnswer(data, err, protocol.KindCreateMessage)
}

// Roots lists directories.
func Roots(uris ...string) Answer {
	type root struct {
		URI string `json:"uri"`
	}
	roots := make([]root, len(uris))
	for i, uri := range uris {
		roots[i].URI = uri
	}
	data, err := json.Marshal(map[string]any{"roots": roots})
	return newAnswer(data, err, protocol.KindListRoots)
}

// Then is for a question that is asked again: after a, it is answered with next. So a person
// corrects an answer that does not fit the form. An answer is sent as it is, in both eras.
func (a Answer) Then(next Answer) Answer {
	if a.answer.Next != nil {
		next = Answer{*a.answer.Next}.Then(next)
	}
	a.answer.Next = &next.answer
	return a
}
