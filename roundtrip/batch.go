package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// An Inquiry is a question and the place for what is answered, for [Batch]. It
// is built by [Into] and the Into methods of questions.
type Inquiry interface{ toInquiry() inquiry }

// inquiry is a question of flow style. decode takes the accepted content; an
// error means that it is not what was asked for. Nil: the content is not read.
type inquiry struct {
	question Question
	decode   func(json.RawMessage) error
}

func (i inquiry) toInquiry() inquiry { return i }

// Batch asks several questions in one round and stores their answers where
// [Into] says. It returns nil when all of them are accepted, [ErrPending] when
// some are yet to be asked, and the refusals of the person, joined, when there
// are any; nothing is stored then. Each question is one as [Ask] asks it.
func Batch(ctx context.Context, inquiries ...Inquiry) error {
	list := make([]inquiry, len(inquiries))
	for i, one := range inquiries {
		if one == nil {
			list[i].question.err = errors.New("batch: nil inquiry")
			continue
		}
		list[i] = one.toInquiry()
	}
	return askQuestions(ctx, list...)
}

// Into asks with a form that is derived from the struct T and stores what the
// person entered in dst, which must not be nil.
func Into[T any](dst *T, key, message string, opts ...QuestionOption) Inquiry {
	return formInquiry(dst, Elicit[T](key, message).applyOptions(opts), formOf[T]().decoder)
}

// Into asks the question with a message and stores the person's input in
// dst, which must not be nil.
func (q *FormQuestion[T]) Into(dst *T, message string, opts ...QuestionOption) Inquiry {
	return formInquiry(dst, q.Elicit(message).applyOptions(opts), q.decoder)
}

// Into asks any question and stores what was accepted in dst, as
// [Question.Ask] returns it. Dst may be nil: [Visited], [Sampled] and [Roots]
// read such answers as well.
func (q Question) Into(dst *json.RawMessage, opts ...QuestionOption) Inquiry {
	return q.applyOptions(opts).intoRaw(dst)
}

func (q Question) intoRaw(dst *json.RawMessage) inquiry {
	return inquiry{q, func(content json.RawMessage) error {
		if dst != nil {
			*dst = append(json.RawMessage(nil), content...)
		}
		return nil
	}}
}

// formInquiry stores content that fits the form of T.
func formInquiry[T any](dst *T, q Question, decoder *jsonx.Decoder[T]) inquiry {
	return inquiry{q, func(content json.RawMessage) error {
		v, err := decoder.Decode(content)
		if err != nil {
			// The decoder's error would quote the value.
			return fmt.Errorf("the content does not decode into %T", v)
		}
		*dst = v
		return nil
	}}
}
