package roundtriptest

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Flow is a request, the user's answers, and the expected result.
type Flow struct {
	Name    string // of the subtest
	Request Request
	// Answers are the user's answers, by question key. A question without an answer, an answer
	// without a question, and an answer for another kind of question fail the test.
	Answers Answers
	// Want is the result's text: text blocks, or a resource's contents, joined by newlines.
	Want string
	// Fails, for a flow that fails, is part of the text of its error result or JSON-RPC error.
	Fails        string
	Never        []string                     // effects that happen only in other flows
	Capabilities *protocol.ClientCapabilities // the client's; nil: all
	Golden       string                       // file with the transcript; "": none
}

func (f Flow) forJudge() attack.Flow {
	answers := make(map[string]attack.Answer, len(f.Answers))
	for key, a := range f.Answers {
		answers[key] = a.answer
	}
	return attack.Flow{Request: f.Request.request, Answers: answers, Want: f.Want,
		Fails: f.Fails, Never: f.Never, Capabilities: f.Capabilities}
}

// A Request starts a flow. The zero value is invalid; see [Tool], [Prompt] and [Resource].
type Request struct{ request attack.Request }

func newRequest(method, target string, arguments any) Request {
	return Request{attack.Request{Method: method, Target: target, Arguments: arguments}}
}

// Tool calls a tool. arguments are encoded as JSON; nil means none.
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

// Answers are a user's answers, by question key.
type Answers map[string]Answer

// An Answer is a user's answer to one question.
type Answer struct{ answer attack.Answer }

// newAnswer returns an answer to some kinds of questions, or the error to report when asked.
func newAnswer(result json.RawMessage, err error, kinds ...protocol.InputKind) Answer {
	return Answer{attack.Answer{Kinds: kinds, Result: result, Err: err}}
}

// Accept fills in a form with content, encoded as JSON. Nil means none, so that defaults apply.
func Accept(content any) Answer {
	if content == nil {
		return newAnswer(json.RawMessage(`{"action":"accept"}`), nil, protocol.KindElicitForm)
	}
	data, err := json.Marshal(content)
	return newAnswer(fmt.Appendf(nil, `{"action":"accept","content":%s}`, data), err,
		protocol.KindElicitForm)
}

// Visit agrees to visit a URL.
func Visit() Answer {
	return newAnswer(json.RawMessage(`{"action":"accept"}`), nil, protocol.KindElicitURL)
}

// Decline declines a form or a URL, at once. A server outside the test's process treats so fast an
// answer as unseen, unless its [roundtrip.Options].MinHumanTime is -1.
func Decline() Answer { return newRefusal(`{"action":"decline"}`) }

// Cancel dismisses a form or a URL.
func Cancel() Answer { return newRefusal(`{"action":"cancel"}`) }

func newRefusal(result string) Answer {
	return newAnswer(json.RawMessage(result), nil, protocol.KindElicitForm, protocol.KindElicitURL)
}

// Sampled answers with a model's text.
func Sampled(text string) Answer {
	data, err := json.Marshal(protocol.CreateMessageResult{
		Role: "assistant", Model: "roundtriptest",
		Content: []protocol.Content{&protocol.TextContent{Text: text}},
	})
	return newAnswer(data, err, protocol.KindCreateMessage)
}

// Roots answers with directories.
func Roots(uris ...string) Answer {
	roots := make([]protocol.Root, len(uris))
	for i, uri := range uris {
		roots[i].URI = uri
	}
	data, err := json.Marshal(map[string]any{"roots": roots})
	return newAnswer(data, err, protocol.KindListRoots)
}

// Optional says that the tool may go on without this answer. [Attack] then does not refuse it.
func (a Answer) Optional() Answer {
	a.answer.Optional = true
	return a
}

// Then answers a repetition of the question with next, to correct an invalid answer a.
func (a Answer) Then(next Answer) Answer {
	if a.answer.Next != nil {
		next = Answer{*a.answer.Next}.Then(next)
	}
	a.answer.Next = &next.answer
	return a
}
