package roundtrip

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Question is one thing to ask, under a key that tells its answer apart. It is built by [Elicit],
// [ElicitURL], [ElicitSchema], [CreateMessage], [ListRoots] or a [FormQuestion], and passed to
// [InputRequired]. Questions are values: the methods return changed copies.
type Question struct {
	key       string
	request   protocol.InputRequest
	form      *form.Form // of form questions
	expiresIn time.Duration
	carryForm bool // the schema must travel in the state (ElicitSchema)
	askAgain  bool
	reworded  bool        // flow style: other words are the same question
	fixed     bool        // flow style: another question under the key ends the flow
	optional  bool        // flow style: the handler can do without an answer
	ways      wayset      // by which it may go, zero: all
	mark      claims.Mark // flow style: which question this is
	err       error       // found while building; reported by the funnel
}

// A QuestionOption changes how one question is asked, in guard style ([Elicit] and
// its like) and in flow style ([Ask] and its like).
type QuestionOption interface{ applyTo(Question) Question }

type questionOption func(*Question)

func (o questionOption) applyTo(q Question) Question {
	o(&q)
	return q
}

// AnswerWithin limits how long the client may take to answer, instead of the funnel's default of an
// hour. Of several in a round the shortest holds, and none goes beyond the end of the flow (24
// hours by default). It has no effect where Ask waits, in a session.
func AnswerWithin(d time.Duration) QuestionOption {
	return questionOption(func(q *Question) { q.expiresIn = d })
}

// AskAgain asks again after a refusal in this flow. Without it, repeating a refused question of
// guard style ends the flow, because a handler that only checks for consent would nag for ever, and
// one of flow style returns the refusal. With it [Ask] does not take a refusal for an answer, as
// often as the flow may ask. It is not needed to have an invalid answer corrected, nor for a loop,
// whose turns have keys of their own.
func AskAgain() QuestionOption {
	return questionOption(func(q *Question) { q.askAgain = true })
}

func (q Question) addTo(d *draft) { d.questions = append(d.questions, q) }

// Elicit asks the person to fill in a form that is derived from the struct T; see [Form] for how.
// A T that the form grammar cannot express is found when the handler runs: the call fails with an
// internal error and the observer is told key and field. Prefer [MustQuestion], which finds it when
// the program starts. A message of more than 64 KiB fails so, too, also that of a visit.
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

// ElicitSchema asks the person to fill in a form given as a JSON Schema within the
// restricted grammar of elicitation (client/elicitation, "Requested Schema"): for a form that
// depends on data, such as a choice among the caller's accounts. What [Form] returns is such a
// schema, to begin with.
//
// In flow style ask it with [Question.Ask]. In guard style return it and read the answer with
// [RawAnswer]; its schema travels in the sealed state then.
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

// ElicitURL asks the person to visit url, for what must not pass through the client: credentials,
// payments, consent of a third party. An accepted answer says that the person agreed to go there,
// not that they finished; [Await] waits for the end, and [Visited] reads the answer.
//
// The URL must be absolute and https, or http to a loopback host, without user name and control
// characters, and have at most 8 KiB; [Options].AllowURL may refuse more. Any other ends the call
// with an internal error that names the question, and nothing is asked.
func ElicitURL(key, message, url string, opts ...QuestionOption) Question {
	q := Question{key: key, request: &protocol.ElicitURL{Message: message, URL: url}}
	return q.checkMessage(message).applyOptions(opts)
}

// checkMessage makes q fail if it says nothing to the person.
func (q Question) checkMessage(message string) Question {
	if strings.TrimSpace(message) == "" {
		q.err = fmt.Errorf("question %q: the message is empty", q.key)
	}
	return q
}

// maxMessageBytes is the longest message of a form or a visit: a person reads it, and gateways to
// package elicitation take no more.
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

// CreateMessage asks the client's model for a message; read the answer with
// [Sampled]. The request is not copied and must not be changed afterwards.
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

// formDigest identifies what a form question asks for. Other kinds have none: a
// URL often carries a nonce, and would never look the same twice.
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
