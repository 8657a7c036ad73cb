package roundtrip

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// A QuestionPage, such as package visit's, asks in a browser if clients cannot. Calls may overlap.
type QuestionPage interface {
	// AskOnPage returns the user's answer and withholds it from other Takers, or opens the
	// question, once, and returns its link. A [*protocol.Error] goes to the client.
	AskOnPage(ctx context.Context, q *PageQuestion) (*PageReply, error)
	// ReturnAnswer gives the Taker's answer back, for the next call with the same Binding.
	ReturnAnswer(ctx context.Context, q *PageQuestion) error
}

// A PageQuestion is a form to show on a page.
type PageQuestion struct {
	// Binding is a digest of everything the answer applies to: principal, method, target,
	// arguments, key, form and wording of the question, and the answers before it.
	Binding   [32]byte
	Taker     string             // identifies the flow's round; a replay has the same
	Principal protocol.Principal // the user asked, never anonymous
	// Method, Target and Arguments are the call's, and untrusted.
	Method, Target string
	Arguments      json.RawMessage
	Message        string
	Form           json.RawMessage // fits the grammar of elicitation
	answers        [32]byte        // digest of the answers before it
}

// A PageReply is the state of a question on a [QuestionPage].
type PageReply struct {
	Answer json.RawMessage // an elicitation result as clients send it; nil: open
	Link   string          // the same until the question is answered
	Key    string          // a task waits for this key; the page wakes it after an answer
}
