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
	q, err := NewQuestion[T](key, opts...)
	if err != nil {
		panic("roundtrip: MustQuestion: " + err.Error())
	}
	return q
}

// NewQuestion is [MustQuestion] for keys that a program learns when it runs: it
// returns an error where that panics.
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

// Elicit returns the question with a message for the person.
func (q *FormQuestion[T]) Elicit(message string, opts ...QuestionOption) Question {
	question := Question{key: q.key, form: q.form,
		request: &protocol.ElicitForm{Message: message, Schema: q.form.Schema()}}
	return question.checkMessage(message).applyOptions(opts)
}

// Answer reads the answer to the question, as the function [Answer] does.
func (q *FormQuestion[T]) Answer(ctx context.Context) Reply[T] {
	return answerForm(ctx, q.key, q.form, q.decoder)
}

// AcceptedContent returns the accepted content, as the function [AcceptedContent] does.
func (q *FormQuestion[T]) AcceptedContent(ctx context.Context) (T, bool) {
	reply := q.Answer(ctx)
	return reply.Content, reply.Outcome == Accepted
}

// A FormOption changes how a form is checked. It goes into [MustQuestion], [NewQuestion], [Form]
// and [ElicitSchema]; anywhere else the question fails.
type FormOption interface {
	QuestionOption
	applyToForm(*form.Options)
}

type formOption func(*form.Options)

func (o formOption) applyToForm(f *form.Options) { o(f) }

func (o formOption) applyTo(q Question) Question {
	q.err = fmt.Errorf("question %q: a FormOption cannot change a form that is made", q.key)
	return q
}

// AllowSecrets permits field names that look like secrets (password, token, API key, card number).
// Form answers pass through the client in the clear, and the protocol forbids asking for secrets
// this way, so use this only for a name that is misunderstood; [ElicitURL] is for secrets.
func AllowSecrets() FormOption {
	return formOption(func(o *form.Options) { o.AllowSecrets = true })
}

// OmitFields leaves fields out of the form of a struct, by their names in the form: what the caller
// has said already is not asked for again. In what is returned they are zero. It goes into [Form],
// and into [NewQuestion] where the missing fields are known at run time; such a question must have
// the same fields in every round. A name that no field has, or that is given twice, is an error.
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

// Form returns the schema that the struct T is asked with, for programs that want to show it, to
// test it, or to change it for [ElicitSchema]. Exported fields become properties named as
// encoding/json names them; strings, booleans, numbers (json.Number keeps their spelling), string
// enums and lists of enum values can be asked for, nothing nested. A field is required unless it is
// a pointer or omits empty values. These tags refine a field:
//
//	jsonschema:"description"      what to enter
//	title:"Region"                a label
//	default:"eu"                  used where the answer has no such member
//	enum:"eu,us"                  the values to choose from
//	enumTitles:"Europe,America"   their labels
//	format:"email"                email, uri, date or date-time
//	minLength, maxLength, minimum, maximum, minItems, maxItems
//
// A tag that looks like one of these and is not ("minumum", "min", "pattern", "required"), and one
// that makes no sense, is an error: it would be a bound that does not hold. Tags of other libraries
// are left alone. The error names type, field and tag.
func Form[T any](opts ...FormOption) (json.RawMessage, error) {
	f, err := deriveForm[T](opts)
	if err != nil {
		return nil, err
	}
	return f.Schema(), nil
}

// forms holds the forms that Elicit and Answer derive inside handlers, one a type. It is the
// package's only state: a cache of pure results, bounded by the number of types in the program.
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
