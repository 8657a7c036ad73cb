package roundtrip

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// A QuestionPage puts questions to people in a browser, where their client does not show them.
// Package visit has one. Calls may overlap.
type QuestionPage interface {
	// AskOnPage returns the answer that the person has given on the page and takes it: another
	// Taker gets none of it. Where there is no answer it opens the question, once, and returns the
	// link. A [*protocol.Error] goes to the client.
	AskOnPage(ctx context.Context, q *PageQuestion) (*PageReply, error)
	// ReturnAnswer gives back the answer that the Taker has: the next call with the same Binding
	// gets it. It is for calls that end because they have more to ask.
	ReturnAnswer(ctx context.Context, q *PageQuestion) error
}

// A PageQuestion is a form that is put to the person of a call on a page.
type PageQuestion struct {
	// Binding is a digest of all that an answer is for: the principal, the method, its target and
	// arguments, the key, the form and the words of the question, and the answers before it.
	Binding [32]byte
	// Taker names the round of the flow that asks: one that is sent again is the same.
	Taker string
	// Principal is who is asked, never anonymous.
	Principal protocol.Principal
	// Method, Target and Arguments are those of the call: strangers may have chosen them.
	Method, Target string
	Arguments      json.RawMessage
	// Message and Form are what is asked. Form fits the grammar of elicitation.
	Message string
	Form    json.RawMessage
}

// A PageReply is what a [QuestionPage] knows of a question.
type PageReply struct {
	// Answer is the result of an elicitation as a client sends it, nil while there is none.
	Answer json.RawMessage
	// Link is where the question is open. It is the same until the question is answered.
	Link string
	// Key is what a task waits for while the question is open: the page wakes it when it is
	// answered.
	Key string
}
