package roundtrip

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Ask shows the user a form derived from T (see [Form]) and returns the input, defaults filled in.
//
// In a modern revision Ask does not wait. Without an answer it returns [ErrPending], cancels the
// handler's context with that cause, and the funnel asks, whatever the handler returns. With the
// answer the handler runs again from its start, so all code before an Ask runs in every round
// ([Memo] keeps computed values, [IdempotencyKey] lets other systems recognize repetition). On a
// connection of a legacy revision Ask waits for the user, at most for the funnel's HumanTimeout.
//
// The key must be the same in every round and used once in a run of the handler. If kind, form or
// wording has changed, the question is asked once more; if it changes again the flow ends with an
// error that names the key. [Reworded] allows changed wording.
//
// After an invalid answer the question is repeated with the reason in front: "Amount must be at
// least 0.01. How much?". After 3 in a row the flow ends with an error. Guard style does the same.
//
// A refusal is a [*DeclinedError], a [*CancelledError], or an [*UnseenError] if the client refused
// without showing the question. Returned by the handler they end the flow with readable text: a
// tool's error result, elsewhere code 23220, or 23225 if unseen. Outside of a handler Ask returns
// [ErrNoRound]. Calls may overlap; questions that goroutines ask at the same time share a round.
// The funnel's Limits.Rounds bounds the rounds in which a flow asks.
func Ask[T any](ctx context.Context, key, message string, opts ...QuestionOption) (T, error) {
	return newFormAsk[T](key, message, opts).ask(ctx)
}

// Ask asks the question with a message for the user, like the function [Ask].
func (q *FormQuestion[T]) Ask(ctx context.Context, message string,
	opts ...QuestionOption) (T, error) {
	return q.newAsk(message, opts).ask(ctx)
}

// AskURL asks the user to visit url, as [ElicitURL] does. Nil means that they agreed, not that the
// visit is finished; [Await] waits for that. The URL must be the same in every round: use [Nonce]
// for fresh parts. If it differs from the accepted one, the flow ends with an error for the client.
func AskURL(ctx context.Context, key, message, url string, opts ...QuestionOption) error {
	return askQuestion(ctx, &inquiry{question: ElicitURL(key, message, url).applyOptions(opts)})
}

// AskMessage asks the client's model. Do not modify request: it must be the same in every round.
//
// Sampling has no decline: in a session a refusing client answers with an error, which ends the
// call unless the question is [IfPossible]; in a modern revision it does not retry. See [CanAsk].
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

// Ask asks any question in flow style. It returns the accepted content: a form's values with
// defaults filled in, an empty object for a visit, the whole result of sampling and roots. It does
// not keep the schema of an [ElicitSchema] in the state, so [RawAnswer] cannot read the answer.
func (q Question) Ask(ctx context.Context, opts ...QuestionOption) (json.RawMessage, error) {
	return askDecoded(ctx, &inquiry{question: q.applyOptions(opts)},
		func(raw []byte) (json.RawMessage, error) { return bytes.Clone(raw), nil })
}

// Reworded, for flow style, accepts an answer although the message, URL or text for the model has
// changed. By default the user is asked once more. Kind and form must stay the same.
func Reworded() QuestionOption {
	return questionOption(func(q *Question) { q.reworded = true })
}

// IfPossible makes a flow-style question that cannot be asked return a [*PushError] instead of
// ending the flow. In a legacy revision it also returns other failures: the client's
// *protocol.Error, or an untyped error such as a timeout. Refusals are unaffected. Treat every
// error as "not answered": in a round that asks it is [ErrPending], and the handler's result is
// discarded. If only the client's capabilities matter, [CanAsk] is simpler.
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

// An inquiry is a flow-style question. decode, if not nil, rejects content that does not fit.
type inquiry struct {
	question Question
	decode   func(json.RawMessage) error
}

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

// A formAsk is allocated by itself: passed by value, it would take 1 KB of a waiting call's stack.
type formAsk[T any] struct {
	inquiry inquiry
	content T
}

// newFormAsk returns the question of [Ask]. It is not inlined, for the same reason.
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

// decodeWith stores content that fits the form of T.
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

// CanAsk reports whether a question of a kind can be put to the client of ctx's handler, given its
// revision and declared capabilities. It is false outside of a handler. A question that needs more,
// such as tools in sampling or a newer format, may still be refused; [IfPossible] covers those.
func CanAsk(ctx context.Context, kind protocol.InputKind) bool {
	r, q := runFrom(ctx), sampleQuestion(kind)
	if r == nil || q == nil {
		return false
	}
	return kind == protocol.KindElicitForm && r.canUsePage() ||
		r.askingMode().checkAskable(&r.questioner, q) == nil
}

// sampleQuestion returns a plain question of a kind, or nil.
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

// checkOptional returns why an optional flow-style question cannot be asked, or nil.
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
	r.failQuestion(ctx, p, q, failed)
	return failed
}
