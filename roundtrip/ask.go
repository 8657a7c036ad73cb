package roundtrip

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Ask puts a form that is derived from the struct T to the person and returns what they entered,
// defaults filled in. See [Form] for the grammar.
//
// In a modern revision Ask does not wait. Without an answer it returns [ErrPending], cancels the
// context of the handler with that cause, and the funnel asks, whatever the handler returns. With
// the answer the handler runs again from its start: all code before an Ask runs once more in every
// round ([Memo] keeps what was computed, [IdempotencyKey] tells others that it is the same again).
// On a connection of a legacy revision Ask waits for the person, at most for the funnel's
// HumanTimeout.
//
// The key names the question in the flow and must be the same in every round; two questions under
// one key in one run of the handler are an error. An answer to a question of another kind, form or
// wording is asked for once more; if the question differs again the flow ends with an error that
// names the key. [Reworded] allows for wording.
//
// An answer that does not fit the form is asked for once more, with the reason in front of the
// message: "Amount must be at least 0.01. How much?". After 3 of them in a row the flow ends with
// an error that names the rule. So it is in guard style.
//
// A person who refuses gives a [*DeclinedError] or [*CancelledError], and a client that refuses
// without showing the question an [*UnseenError]. Returned by the handler they end the flow with
// words that people can read: as an error result of a tool, elsewhere as code 23220, and 23225
// where nobody has seen the question. Outside of a handler Ask returns [ErrNoRound]. Calls may
// overlap; questions that goroutines ask at the same time are asked in one round. A flow asks in as
// many rounds as the funnel's Limits.Rounds allows.
func Ask[T any](ctx context.Context, key, message string, opts ...QuestionOption) (T, error) {
	return newFormAsk[T](key, message, opts).ask(ctx)
}

// Ask asks the question with a message for the person, as the function [Ask] does.
func (q *FormQuestion[T]) Ask(ctx context.Context, message string,
	opts ...QuestionOption) (T, error) {
	return q.newAsk(message, opts).ask(ctx)
}

// AskURL asks the person to visit url, as [ElicitURL] does. Nil means that they
// agreed to go there, not that they are done; [Await] waits for that. The URL must be the
// same in every round: make what is fresh in it with [Nonce]. Another URL than the one that
// was agreed to ends the flow, with an error that the client can read, and is not asked for.
func AskURL(ctx context.Context, key, message, url string, opts ...QuestionOption) error {
	return askQuestion(ctx, &inquiry{question: ElicitURL(key, message, url).applyOptions(opts)})
}

// AskMessage asks the client's model for a message. The request must not be changed
// afterwards, and be the same in every round.
//
// A person who does not want the model to be asked has no decline: in a session the client answers
// with an error, which ends the call unless the question is [IfPossible]; in a modern revision it
// does not send the call again. Few clients have a model to ask: see [CanAsk].
func AskMessage(ctx context.Context, key string, request *protocol.CreateMessage,
	opts ...QuestionOption) (*protocol.CreateMessageResult, error) {
	return askDecoded(ctx, &inquiry{question: CreateMessage(key, request).applyOptions(opts)},
		protocol.DecodeCreateMessageResult)
}

// AskRoots asks which directories the client exposes.
func AskRoots(ctx context.Context, key string, opts ...QuestionOption) ([]protocol.Root, error) {
	result, err := askDecoded(ctx, &inquiry{question: ListRoots(key).applyOptions(opts)},
		protocol.DecodeListRootsResult)
	if err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// Ask asks any question in flow style. It returns what was accepted: the content of a form with its
// defaults filled in, an empty object for a visit to a URL, the whole result of sampling and roots.
// The schema of an [ElicitSchema] does not travel in the state, since the handler brings it in
// every round; so Ask alone can read the answer, and [RawAnswer] cannot.
func (q Question) Ask(ctx context.Context, opts ...QuestionOption) (json.RawMessage, error) {
	return askDecoded(ctx, &inquiry{question: q.applyOptions(opts)},
		func(raw []byte) (json.RawMessage, error) { return bytes.Clone(raw), nil })
}

// Reworded, for flow style, takes an answer for that to the question even if the message, the URL
// or the text for the model have changed since. Without it the person is asked again, once: consent
// to one text is no consent to another. Kind and form must be the same always.
func Reworded() QuestionOption {
	return questionOption(func(q *Question) { q.reworded = true })
}

// IfPossible has a question of flow style fail instead of ending the flow where nobody can be
// asked: the call that asks returns a [*PushError], and the handler goes on. On a connection of a
// legacy revision it also returns other failures to ask: the client's *protocol.Error, or an error
// without a type of its own, as where nobody answers in time. Refusals are as ever. A handler may
// treat every error as "not answered": in a round that asks, where it is [ErrPending], the
// handler's result is thrown away. Where only the client's capabilities matter [CanAsk] is simpler.
func IfPossible() QuestionOption {
	return questionOption(func(q *Question) { q.optional = true })
}

func (q Question) applyOptions(opts []QuestionOption) Question {
	for _, opt := range opts {
		if opt != nil {
			q = opt.applyTo(q)
		}
	}
	return q
}

// An inquiry is a question of flow style. decode takes the accepted content; an error means that
// it is not what was asked for. Nil: the content is not read.
type inquiry struct {
	question Question
	decode   func(json.RawMessage) error
}

// askDecoded asks a question and returns what decode makes of the accepted content.
func askDecoded[T any](ctx context.Context, one *inquiry,
	decode func([]byte) (T, error)) (T, error) {
	var content, zero T
	one.decode = func(raw json.RawMessage) (err error) {
		content, err = decode(raw)
		return err
	}
	if err := askQuestion(ctx, one); err != nil {
		return zero, err
	}
	return content, nil
}

// A formAsk is a form that is asked for and its content. It is in a piece of memory of its own,
// since questions that are passed by value take a kilobyte of the stack of a call that waits.
type formAsk[T any] struct {
	inquiry inquiry
	content T
}

// newFormAsk returns the question that [Ask] asks. It is not inlined, for the same reason.
//
//go:noinline
func newFormAsk[T any](key, message string, opts []QuestionOption) *formAsk[T] {
	a := &formAsk[T]{}
	a.inquiry.question = Elicit[T](key, message).applyOptions(opts)
	a.decodeWith(formOf[T]().decoder)
	return a
}

//go:noinline
func (q *FormQuestion[T]) newAsk(message string, opts []QuestionOption) *formAsk[T] {
	a := &formAsk[T]{}
	a.inquiry.question = q.Elicit(message).applyOptions(opts)
	a.decodeWith(q.decoder)
	return a
}

// decodeWith has content that fits the form of T stored.
func (a *formAsk[T]) decodeWith(decoder *jsonx.Decoder[T]) {
	a.inquiry.decode = func(content json.RawMessage) error {
		v, err := decoder.Decode(content)
		if err != nil {
			// The decoder's error would quote the value.
			return fmt.Errorf("the content does not decode into %T", v)
		}
		a.content = v
		return nil
	}
}

func (a *formAsk[T]) ask(ctx context.Context) (T, error) {
	if err := askQuestion(ctx, &a.inquiry); err != nil {
		var zero T
		return zero, err
	}
	return a.content, nil
}

// CanAsk reports whether a question of a kind can be put to the client of the handler that ctx is
// of, in its revision and with the capabilities that it declares. It is false outside of a handler.
// A question that uses more than its kind, such as tools in sampling or a format that an older
// revision does not know, may still be refused; [IfPossible] covers those, too.
func CanAsk(ctx context.Context, kind protocol.InputKind) bool {
	r, q := runFrom(ctx), sampleQuestion(kind)
	if r == nil || q == nil {
		return false
	}
	return kind == protocol.KindElicitForm && r.canUsePage() ||
		r.askingMode().checkAskable(&r.questioner, q) == nil
}

// sampleQuestion returns a plain question of a kind, nil for an unknown one.
func sampleQuestion(kind protocol.InputKind) protocol.InputRequest {
	switch kind {
	case protocol.KindElicitForm:
		return &protocol.ElicitForm{Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	case protocol.KindElicitURL:
		return &protocol.ElicitURL{}
	case protocol.KindCreateMessage:
		return &protocol.CreateMessage{}
	case protocol.KindListRoots:
		return &protocol.ListRoots{}
	}
	return nil
}

// checkOptional returns the error of a call in flow style that cannot be asked
// and whose handler can do without, nil where asking goes on.
func (r asker) checkOptional(ctx context.Context, q *Question) error {
	if !q.optional {
		return nil
	}
	failed := r.askingMode().checkAskable(&r.questioner, q.request)
	if failed == nil {
		return nil
	}
	p, err := r.newQuestioner(ctx)
	if err != nil {
		return err
	}
	r.failQuestion(ctx, p, q.request.Kind(), failed, true)
	return failed
}
