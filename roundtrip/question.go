package roundtrip

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Question is one thing to ask, under a key that tells its answer apart. It
// is built by [Elicit], [ElicitURL], [RawForm], [CreateMessage], [ListRoots]
// or a [FormQuestion], and passed to [InputRequired]. Questions are values:
// the methods return changed copies.
type Question struct {
	key       string
	request   protocol.InputRequest
	form      *form.Form // of form questions
	carryForm bool       // the schema must travel in the state (RawForm)
	expiresIn time.Duration
	askAgain  bool
	reworded  bool        // flow style: other words are the same question
	optional  bool        // flow style: the handler can do without an answer
	mark      journalMark // flow style: which question this is
	err       error       // found while building; reported by the funnel
}

// ExpiresIn limits how long the client may take to answer, instead of the
// funnel's default of an hour. With several questions in a round the shortest
// of the limits that are set holds. A limit beyond the end of the flow (24
// hours by default) is cut there.
func (q Question) ExpiresIn(d time.Duration) Question {
	q.expiresIn = d
	return q
}

// AskAgain allows the question even though the person has declined or
// cancelled it in this flow. Without it, repeating a refused question ends the
// flow, because a handler that only checks for consent would nag for ever.
func (q Question) AskAgain() Question {
	q.askAgain = true
	return q
}

func (q Question) addTo(d *draft) { d.questions = append(d.questions, q) }

// Elicit asks the person to fill in a form that is derived from the struct T;
// see [Form] for how. The form is derived once a type. A T that the form
// grammar cannot express is found when the handler runs: the call fails with
// an internal error and the observer is told key and field. Prefer
// [MustQuestion], which finds it when the program starts.
func Elicit[T any](key, message string) Question {
	typed := formOf[T]()
	q := Question{key: key, form: typed.form}
	if typed.err != nil {
		q.err = fmt.Errorf("question %q: %w", key, typed.err)
		return q
	}
	q.request = &protocol.ElicitForm{Message: message, Schema: typed.form.Schema()}
	return q
}

// RawForm asks the person to fill in a form given as a JSON Schema within the
// restricted grammar of elicitation (client/elicitation, "Requested Schema").
// Its schema travels in the sealed state; read the answer with [RawAnswer].
func RawForm(key, message string, schema json.RawMessage, opts ...FormOption) Question {
	f, err := form.Parse(schema, formOptions(opts))
	q := Question{key: key, form: f, carryForm: true}
	if err != nil {
		q.err = fmt.Errorf("question %q: %w", key, err)
		return q
	}
	q.request = &protocol.ElicitForm{Message: message, Schema: f.Schema()}
	return q
}

// ElicitURL asks the person to visit url, for what must not pass through the
// client: credentials, payments, consent of a third party. An accepted answer
// says that the person agreed to go there, not that they finished; there is no
// completion notification on the modern wire. [Await] waits for the end; see
// [Outcome] for reading the answer.
//
// The URL must be absolute and https, or http to a loopback host, without user
// name and control characters, and have at most 8 KiB; [Options].AllowURL may
// refuse more. Any other ends the call with an internal error that names the
// question, and nothing is asked.
func ElicitURL(key, message, url string) Question {
	return Question{key: key, request: &protocol.ElicitURL{Message: message, URL: url}}
}

// CreateMessage asks the client's model for a message; read the answer with
// [Sampled]. The request is not copied and must not be changed afterwards.
func CreateMessage(key string, request *protocol.CreateMessage) Question {
	q := Question{key: key, request: request}
	if request == nil {
		q.request, q.err = nil, fmt.Errorf("question %q: nil request", key)
	}
	return q
}

// ListRoots asks which directories the client exposes; read the answer with
// [Roots].
func ListRoots(key string) Question {
	return Question{key: key, request: &protocol.ListRoots{}}
}

// A FormQuestion is a key and a form, checked when the program starts. Declare
// one as a package variable with [MustQuestion], ask it and read its answer
// through it: key and type cannot drift apart.
type FormQuestion[T any] struct {
	key     string
	form    *form.Form
	decoder *jsonx.Decoder[T]
}

// MustQuestion returns the question with the given key whose form is derived
// from the struct T. It panics, naming the field, when the form grammar cannot
// express T: a mistake of the program, found when it starts.
func MustQuestion[T any](key string, opts ...FormOption) *FormQuestion[T] {
	if key == "" {
		panic("roundtrip: MustQuestion: empty key")
	}
	f, err := deriveForm[T](opts)
	if err != nil {
		panic(fmt.Sprintf("roundtrip: MustQuestion %q: %v", key, err))
	}
	return &FormQuestion[T]{key, f, jsonx.NewDecoder[T]()}
}

// Key returns the key of the question.
func (q *FormQuestion[T]) Key() string { return q.key }

// Elicit returns the question with a message for the person.
func (q *FormQuestion[T]) Elicit(message string) Question {
	return Question{key: q.key, form: q.form, request: &protocol.ElicitForm{Message: message, Schema: q.form.Schema()}}
}

// Answer reads the answer to the question, as the function [Answer] does.
func (q *FormQuestion[T]) Answer(ctx context.Context) Reply[T] {
	return answerForm(ctx, q.key, q.form, q.decoder)
}

// AcceptedContent returns the accepted content, as the function
// [AcceptedContent] does.
func (q *FormQuestion[T]) AcceptedContent(ctx context.Context) (T, bool) {
	reply := q.Answer(ctx)
	return reply.Content, reply.Outcome == Accepted
}

// A FormOption changes how a form is checked.
type FormOption func(*form.Options)

// AllowSecrets permits field names that look like secrets (password, token,
// API key, card number). Form answers pass through the client in the clear;
// the protocol forbids asking for secrets this way and [ElicitURL] is what it
// offers instead, so use this only for a name that is misunderstood.
func AllowSecrets() FormOption {
	return func(o *form.Options) { o.AllowSecrets = true }
}

func formOptions(opts []FormOption) form.Options {
	var o form.Options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func deriveForm[T any](opts []FormOption) (*form.Form, error) {
	return form.Derive(reflect.TypeFor[T](), formOptions(opts))
}

// Form returns the schema that the struct T is asked with, for programs that
// want to show or test it. Exported fields become properties named as
// encoding/json names them; strings, booleans, numbers, string enums and lists
// of enum values can be asked for, nothing nested. A field is required unless
// it is a pointer or omits empty values. These tags refine a field:
//
//	jsonschema:"description"      what to enter
//	title:"Region"                a label
//	default:"eu"                  used where the person enters nothing
//	enum:"eu,us"                  the values to choose from
//	enumTitles:"Europe,America"   their labels
//	format:"email"                email, uri, date or date-time
//	minLength, maxLength, minimum, maximum, minItems, maxItems
//
// A tag that looks like one of these and is not ("minumum", "min", "pattern",
// "required"), and one that makes no sense, is an error: it would be a bound that
// does not hold. Tags of other libraries are left alone. The error names type,
// field and tag.
func Form[T any](opts ...FormOption) (json.RawMessage, error) {
	f, err := deriveForm[T](opts)
	if err != nil {
		return nil, err
	}
	return f.Schema(), nil
}

// forms holds the forms that Elicit and Answer derive inside handlers, one a
// type. It is the package's only state: a cache of pure results, bounded by
// the number of types in the program.
var forms sync.Map // reflect.Type → *typedForm

type typedForm[T any] struct {
	form    *form.Form
	decoder *jsonx.Decoder[T]
	err     error
}

func formOf[T any]() *typedForm[T] {
	t := reflect.TypeFor[T]()
	if cached, ok := forms.Load(t); ok {
		return cached.(*typedForm[T])
	}
	f, err := form.Derive(t, form.Options{})
	typed := &typedForm[T]{f, jsonx.NewDecoder[T](), err}
	forms.Store(t, typed)
	return typed
}
