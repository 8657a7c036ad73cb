package roundtrip

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A Question is one thing to ask, under a key that identifies its answer. Build it with [Elicit],
// [ElicitURL], [ElicitSchema], [CreateMessage], [ListRoots] or a [FormQuestion], and pass it to
// [InputRequired]. It is a value: methods return changed copies.
type Question struct {
	key       string
	request   protocol.InputRequest
	form      *form.Form // of form questions
	expiresIn time.Duration
	carryForm bool // the schema must travel in the state (ElicitSchema)
	askAgain  bool
	reworded  bool        // flow style: changed wording is the same question
	fixed     bool        // flow style: another question under the key ends the flow
	optional  bool        // flow style: the handler can do without an answer
	ways      []event.Way // nil: all
	mark      claims.Mark // flow style: identifies this question
	err       error       // reported by the funnel
}

// A QuestionOption changes how one question is asked, in both styles.
type QuestionOption interface{ applyTo(Question) Question }

type questionOption func(*Question)

func (o questionOption) applyTo(q Question) Question {
	o(&q)
	return q
}

// AnswerWithin limits the time to answer, by default an hour. The shortest of a round applies, up
// to the end of the flow (24 hours by default). It has no effect where Ask waits, in a session.
func AnswerWithin(d time.Duration) QuestionOption {
	return questionOption(func(q *Question) { q.expiresIn = d })
}

// AskAgain asks again after a refusal. Without it, repeating a refused question of guard style ends
// the flow, because a handler that only checks for consent would nag forever, and flow style
// returns the refusal. With it [Ask] repeats refused questions as often as the flow may ask.
// Invalid answers and loops with a key per turn do not need it.
func AskAgain() QuestionOption {
	return questionOption(func(q *Question) { q.askAgain = true })
}

func (q Question) addTo(d *draft) { d.questions = append(d.questions, q) }

// Elicit asks the user to fill in a form derived from the struct T; see [Form]. If the grammar
// cannot express T the call fails with an internal error. Prefer [MustQuestion], which fails at
// startup. A message of over 64 KiB fails in the same way.
func Elicit[T any](key, message string, opts ...QuestionOption) Question {
	typed := formOf[T]()
	q := Question{key: key, form: typed.form}
	if typed.err != nil {
		q.err = fmt.Errorf("question %q: %w", key, typed.err)
		return q
	}
	q.request = &protocol.ElicitForm{Message: message, Schema: typed.form.Schema()}
	return q.checkMessage(message).applyOptions(opts)
}

// ElicitSchema asks the user to fill in a form given as a JSON Schema within the restricted grammar
// of elicitation (client/elicitation, "Requested Schema"), for forms that depend on data, such as
// the caller's accounts. [Form] returns such a schema to start from.
//
// In flow style ask it with [Question.Ask]. In guard style return it and read the answer with
// [RawAnswer]; its schema then travels in the sealed state.
func ElicitSchema(key, message string, schema json.RawMessage, opts ...QuestionOption) Question {
	ofForm, ofQuestion := splitOptions(opts)
	f, err := form.Parse(schema, formOptions(ofForm))
	q := Question{key: key, form: f, carryForm: true}
	if err != nil {
		q.err = fmt.Errorf("question %q: %w", key, err)
		return q
	}
	q.request = &protocol.ElicitForm{Message: message, Schema: f.Schema()}
	return q.checkMessage(message).applyOptions(ofQuestion)
}

func splitOptions(opts []QuestionOption) (ofForm []FormOption, ofQuestion []QuestionOption) {
	for _, opt := range opts {
		if o, ok := opt.(FormOption); ok {
			ofForm = append(ofForm, o)
		} else {
			ofQuestion = append(ofQuestion, opt)
		}
	}
	return ofForm, ofQuestion
}

// ElicitURL asks the user to visit url, for data that must not pass through the client:
// credentials, payments, consent of a third party. An accepted answer means that the user agreed,
// not that the visit is finished; [Await] waits for that, and [Visited] reads the answer.
//
// The URL must be absolute, https or http to a loopback host, without user name and control
// characters, at most 8 KiB, and allowed by [Options].AllowURL. Any other ends the call with an
// internal error that names the question, and nothing is asked.
func ElicitURL(key, message, url string, opts ...QuestionOption) Question {
	q := Question{key: key, request: &protocol.ElicitURL{Message: message, URL: url}}
	return q.checkMessage(message).applyOptions(opts)
}

// checkMessage makes q fail if its message is blank.
func (q Question) checkMessage(message string) Question {
	if strings.TrimSpace(message) == "" {
		q.err = fmt.Errorf("question %q: the message is empty", q.key)
	}
	return q
}

// maxMessageBytes is the longest message of a form or visit: a person reads it, and the gateways of
// package elicitation accept no more.
const maxMessageBytes = 64 << 10

// checkLength refuses a message that is too long to be sent.
func (q *Question) checkLength() error {
	var message string
	switch request := q.request.(type) {
	case *protocol.ElicitForm:
		message = request.Message
	case *protocol.ElicitURL:
		message = request.Message
	}
	if len(message) > maxMessageBytes {
		return fmt.Errorf("question %q: the message of %d bytes is over the limit of %d", q.key,
			len(message), maxMessageBytes)
	}
	return nil
}

// CreateMessage asks the client's model; read the answer with [Sampled]. Do not change the request.
func CreateMessage(key string, request *protocol.CreateMessage, opts ...QuestionOption) Question {
	q := Question{key: key, request: request}
	if request == nil {
		q.request, q.err = nil, fmt.Errorf("question %q: nil request", key)
		return q
	}
	return q.applyOptions(opts)
}

// ListRoots asks which directories the client exposes; read the answer with [Roots].
func ListRoots(key string, opts ...QuestionOption) Question {
	q := Question{key: key, request: &protocol.ListRoots{}}
	return q.applyOptions(opts)
}

// formDigest identifies the form of a question. Other kinds have none: URLs often carry a nonce.
func (q Question) formDigest() [32]byte {
	if q.form == nil {
		return [32]byte{}
	}
	return q.form.Digest()
}

func joinKeys[T any](list []T, key func(T) string) string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = key(v)
	}
	return strings.Join(names, ", ")
}
