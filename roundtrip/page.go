package roundtrip

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A QuestionPage, such as package visit's, asks in a browser if clients cannot, and keeps calls that
// wait for it. A [*protocol.Error] goes to the client. Calls may overlap, on any replica.
type QuestionPage interface {
	// OpenQuestion opens a question under a new id that nobody can guess.
	OpenQuestion(ctx context.Context, q *PageQuestion) (*PageReply, error)
	// FindQuestion returns a question of principal, or nil if it is unknown or its time is over.
	FindQuestion(ctx context.Context, principal protocol.Principal, id string) (*PageReply, error)
	// TakeAnswer takes the answer to a question for one use. It reports false if it was taken and not
	// returned since.
	TakeAnswer(ctx context.Context, principal protocol.Principal, id string) (bool, error)
	ReturnAnswer(ctx context.Context, principal protocol.Principal, id string) error
	// KeepCall keeps the state of a call that has ended with links. For a first call it reports
	// false, and keeps nothing, if another is kept for its Principal and Digest and not taken.
	KeepCall(ctx context.Context, c *PageCall) (kept bool, err error)
	// TakeCall takes the oldest call kept for the Principal and Digest of c whose state is wanted,
	// and returns that state, or nil. Each kept call is taken once.
	TakeCall(ctx context.Context, c *PageCall, wanted func(state []byte) bool) ([]byte, error)
}

// A PageQuestion is a form to show on a page.
type PageQuestion struct {
	Principal protocol.Principal // the user asked, never anonymous
	// Method, Target and Arguments are the call's, and untrusted.
	Method, Target string
	Arguments      json.RawMessage
	Message        string
	Form           json.RawMessage // fits the grammar of elicitation
	Until          time.Time       // no answer counts later; zero: the page decides
}

// A PageReply is the state of a question on a [QuestionPage].
type PageReply struct {
	ID      string // a task waits for this key; the page wakes it after an answer
	Link    string
	Message string
	Form    json.RawMessage
	Answer  json.RawMessage // an elicitation result as clients send it; nil: open
	Given   time.Time       // when it was answered; zero if not known
}

// A PageCall is a call that waits for answers on a [QuestionPage].
type PageCall struct {
	Principal protocol.Principal
	Digest    [32]byte // the same for identical calls: principal, method, target and arguments
	State     []byte
	Until     time.Time
	First     bool // nothing is lost if the call is not kept
}
