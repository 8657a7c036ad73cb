package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A FormQuestion is a key and a form, checked at startup. Declare it as a package variable with
// [MustQuestion]; asking and reading through it keeps key and type together.
type FormQuestion[T any] struct {
	key     string
	form    *form.Form
	decoder *jsonx.Decoder[T]
}

// MustQuestion returns the question with the given key and a form derived from the struct T. It
// panics, naming the field, if the form grammar cannot express T.
func MustQuestion[T any](key string, opts ...FormOption) *FormQuestion[T] {
	q, err := NewQuestion[T](key, opts...)
	if err != nil {
		panic("roundtrip: MustQuestion: " + err.Error())
	}
	return q
}

// NewQuestion is [MustQuestion] for keys known only at run time: it returns an error.
func NewQuestion[T any](key string, opts ...FormOption) (*FormQuestion[T], error) {
	if key == "" {
		return nil, errors.New("question: empty key")
	}
	f, err := deriveForm[T](opts)
	if err != nil {
		return nil, fmt.Errorf("question %q: %w", key, err)
	}
	return &FormQuestion[T]{key, f, jsonx.NewDecoder[T]()}, nil
}

// Key returns the key of the question.
func (q *FormQuestion[T]) Key() string { return q.key }

// Elicit returns the question with a message for the user.
func (q *FormQuestion[T]) Elicit(message string, opts ...QuestionOption) Question {
	question := Question{key: q.key, form: q.form,
		request: &protocol.ElicitForm{Message: message, Schema: q.form.Schema()}}
	return question.checkMessage(message).applyOptions(opts)
}

// Answer reads the answer to the question, like the function [Answer].
func (q *FormQuestion[T]) Answer(ctx context.Context) Reply[T] {
	return answerForm(ctx, q.key, q.form, q.decoder)
}

// AcceptedContent returns the accepted content, like the function [AcceptedContent].
func (q *FormQuestion[T]) AcceptedContent(ctx context.Context) (T, bool) {
	reply := q.Answer(ctx)
	return reply.Content, reply.Outcome == Accepted
}

// A FormOption changes how [MustQuestion], [NewQuestion], [Form] and [ElicitSchema] check a form.
type FormOption interface {
	QuestionOption
	applyToForm(*form.Options)
}

type formOption func(*form.Options)

func (o formOption) applyToForm(f *form.Options) { o(f) }

func (o formOption) applyTo(q Question) Question {
	q.err = fmt.Errorf("question %q: a FormOption cannot change an existing form", q.key)
	return q
}

// AllowSecrets permits field names that look like secrets (password, token, API key, card number).
// Use it only for false positives: form answers pass through the client in the clear, and the
// protocol forbids asking for secrets this way; use [ElicitURL] for those.
func AllowSecrets() FormOption {
	return formOption(func(o *form.Options) { o.AllowSecrets = true })
}

// OmitFields leaves fields, named as in the form, out of a struct's form; the result has their zero
// values. It applies to [Form], and to [NewQuestion] with the same fields in every round. An
// unknown or repeated name is an error.
func OmitFields(names ...string) FormOption {
	return formOption(func(o *form.Options) { o.Omit = append(o.Omit, names...) })
}

func formOptions(opts []FormOption) form.Options {
	var o form.Options
	for _, opt := range opts {
		if opt != nil {
			opt.applyToForm(&o)
		}
	}
	return o
}

func deriveForm[T any](opts []FormOption) (*form.Form, error) {
	return form.Derive(reflect.TypeFor[T](), formOptions(opts))
}

// Form returns the schema for the struct T, to show, test, or change for [ElicitSchema]. Exported
// fields become properties named as in encoding/json: strings, booleans, numbers (json.Number keeps
// their spelling), string enums and lists of enum values; nothing nested. A field is required
// unless it is a pointer or omits empty values. These tags refine a field:
//
//	jsonschema:"description"      what to enter
//	title:"Region"                a label
//	default:"eu"                  used if the answer lacks the member
//	enum:"eu,us"                  the allowed values
//	enumTitles:"Europe,America"   their labels
//	format:"email"                email, uri, date or date-time
//	minLength, maxLength, minimum, maximum, minItems, maxItems
//
// A misspelled or meaningless tag ("minumum", "min", "pattern", "required") is an error that names
// type, field and tag, because its bound would not be enforced. Other libraries' tags are ignored.
func Form[T any](opts ...FormOption) (json.RawMessage, error) {
	f, err := deriveForm[T](opts)
	if err != nil {
		return nil, err
	}
	return f.Schema(), nil
}

// The variable forms caches the forms that Elicit and Answer derive, one per type. It is the
// package's only global state: pure results, bounded by the number of types.
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
