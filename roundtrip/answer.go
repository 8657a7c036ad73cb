package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// An Outcome tells whether and how a question was answered.
type Outcome int

// Missing is the zero value: not asked, or not answered. Invalid is an answer that does not fit the
// question; the usual reaction to both is to ask again. Unseen is a decline or cancel sooner than
// [Options].MinHumanTime: a refusal too, but by a client that did not show the question.
const (
	Missing Outcome = iota
	Accepted
	Declined
	Cancelled
	Invalid
	Unseen
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	names := [...]string{"missing", "accepted", "declined", "cancelled", "invalid", "unseen"}
	if o >= 0 && int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// toDecision returns the outcome of a recorded answer, for events.
func (o Outcome) toDecision() event.Decision { return event.Decision(o.String()) }

// A Reply is the answer to one question.
type Reply[T any] struct {
	Outcome Outcome
	// Content is the user's input, defaults filled in; set if Outcome is Accepted.
	Content T
	Round   int // that brought the answer; 0 if Missing
	// Unsolicited means that this flow may not have asked. The host must allow such answers.
	Unsolicited bool
	// Err says why the answer is Invalid. It names fields and allowed values, never the input.
	Err error
}

// An answer is one recorded answer, guarded by the run's mutex while the handler runs.
type answer struct {
	key         string
	kind        protocol.InputKind // empty: unsolicited, decided by the reader
	outcome     Outcome            // Missing: unsolicited and not read yet
	digest      [32]byte           // of the form that was asked
	schema      json.RawMessage    // of an ElicitSchema
	content     json.RawMessage    // accepted content or result; of an unseen refusal, its action
	round       int
	unsolicited bool
	// The field checked means that accepted content is valid, or the handler has read a refusal.
	checked   bool
	soon      bool // accepted before a person could have read the question
	malformed error
	mark      claims.Mark // set in flow style and after invalid answers

	fault         *form.Fault // why accepted content does not fit, once known
	faultReported bool
	announced     bool // an unsolicited answer, or one given in place, was reported
}

// asRefusal returns the answer as a refusal, or nil. All code that looks for refusals uses it.
func (a *answer) asRefusal() error {
	switch a.outcome {
	case Declined:
		return &DeclinedError{a.key}
	case Cancelled:
		return &CancelledError{a.key}
	case Unseen:
		if protocol.ElicitAction(a.content) == protocol.ActionDecline {
			return &UnseenError{a.key, protocol.ActionDecline}
		}
		return &UnseenError{a.key, protocol.ActionCancel}
	}
	return nil
}

// isDecided reports whether the answer accepts or refuses; later rounds may read only such answers.
func (a *answer) isDecided() bool { return a.outcome == Accepted || a.asRefusal() != nil }

// mayHaveEffect reports whether a handler may act on the answer: a user gave it, and not to a link.
func (a *answer) mayHaveEffect() bool {
	return !isLink(a.key) && a.outcome != Missing && a.outcome != Unseen
}

var errChangedForm = errors.New("the form has changed since the question was asked")

// Answer reads the answer to the form question key, asked with the same type T. It never panics.
func Answer[T any](ctx context.Context, key string) Reply[T] {
	typed := formOf[T]()
	if typed.err != nil {
		return Reply[T]{Outcome: Invalid, Err: typed.err}
	}
	return answerForm(ctx, key, typed.form, typed.decoder)
}

// AcceptedContent returns accepted, valid content of the answer to the form question key, or false;
// [Answer] says why. It includes unsolicited answers if allowed ([Call].AcceptUnsolicited).
func AcceptedContent[T any](ctx context.Context, key string) (T, bool) {
	reply := Answer[T](ctx, key)
	return reply.Content, reply.Outcome == Accepted
}

// RawAnswer reads the answer to a question asked with [ElicitSchema].
func RawAnswer(ctx context.Context, key string) Reply[json.RawMessage] {
	var f *form.Form
	if r := runFrom(ctx); r != nil {
		r.mu.Lock()
		r.fixVersionLocked()
		a := r.findAnswerLocked(key)
		r.mu.Unlock()
		if a != nil && a.schema != nil {
			// The schema comes from our own seal, so it parsed before.
			parsed, err := form.ParsePeer(a.schema)
			if err != nil {
				return Reply[json.RawMessage]{Outcome: Invalid, Round: a.round, Err: err}
			}
			f = parsed
		}
	}
	return answerForm[json.RawMessage](ctx, key, f, nil)
}

// answerForm reads the answer to a question with the form f; a nil decoder keeps it raw.
func answerForm[T any](ctx context.Context, key string, f *form.Form,
	decoder *jsonx.Decoder[T]) Reply[T] {
	content, reply := readAnswer[T](ctx, key, protocol.KindElicitForm,
		func(a *answer) (json.RawMessage, error) {
			switch {
			case f == nil && !a.unsolicited:
				return nil, errChangedForm
			case f == nil:
				return nil, errors.New("an unsolicited answer needs a typed form to be read")
			case !a.unsolicited && a.digest != f.Digest():
				return nil, errChangedForm
			}
			return a.acceptFormLocked(f)
		})
	if reply.Outcome != Accepted {
		return reply
	}
	if raw, ok := any(&reply.Content).(*json.RawMessage); ok {
		*raw = append(json.RawMessage(nil), content...)
		return reply
	}
	decoded, err := decoder.Decode(content)
	if err != nil {
		// Types may share a schema but differ in range. The decoder's error would quote the value.
		runFrom(ctx).failDecode(key)
		var zero T
		reply.Outcome, reply.Err = Invalid, fmt.Errorf("the content does not decode into %T", zero)
		return reply
	}
	reply.Content = decoded
	return reply
}

// readAnswer finds the answer to key and checks its kind. It gets the content of an accepted answer
// from checkLocked. All reading in guard style goes through readAnswer.
func readAnswer[T any](ctx context.Context, key string, kind protocol.InputKind,
	checkLocked func(*answer) (json.RawMessage, error)) (json.RawMessage, Reply[T]) {
	r := runFrom(ctx)
	if r == nil {
		return nil, Reply[T]{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fixVersionLocked()
	a := r.findAnswerLocked(key)
	if a == nil {
		return nil, Reply[T]{}
	}
	if a.kind == "" {
		a.interpretAs(kind)
	}
	reply := Reply[T]{Outcome: a.outcome, Round: a.round, Unsolicited: a.unsolicited,
		Err: a.malformed}
	if a.kind != kind {
		a.checked = a.checked || a.outcome != Accepted
		return nil, Reply[T]{Outcome: Invalid, Round: a.round,
			Err: fmt.Errorf("the question was asked as %s, not %s", a.kind, kind)}
	}
	if a.outcome != Accepted {
		a.checked = true
		return nil, reply
	}
	content, err := checkLocked(a)
	if err != nil {
		reply.Outcome, reply.Err = Invalid, err
		return nil, reply
	}
	a.checked = true
	return content, reply
}

// interpretAs interprets an unsolicited answer, now that a reader expects this kind.
func (a *answer) interpretAs(kind protocol.InputKind) {
	a.kind = kind
	outcome, content, err := interpret(kind, a.content)
	if err != nil {
		outcome = Invalid
	}
	a.outcome, a.content, a.malformed = outcome, content, err
}

// interpret reads a bare result as an answer of the given kind. It checks the shape, not the form.
// The content is the object of a form's values, or the whole result of sampling and roots.
func interpret(kind protocol.InputKind, raw json.RawMessage) (Outcome, json.RawMessage, error) {
	switch kind {
	case protocol.KindElicitForm, protocol.KindElicitURL:
		result, err := protocol.DecodeElicitResult(raw)
		if err != nil {
			return Invalid, nil, err
		}
		switch result.Action {
		case protocol.ActionAccept:
			content := result.Content
			if content == nil || kind == protocol.KindElicitURL {
				content = json.RawMessage("{}")
			}
			return Accepted, content, nil
		case protocol.ActionDecline:
			return Declined, nil, nil
		}
		return Cancelled, nil, nil
	case protocol.KindCreateMessage:
		_, err := protocol.DecodeCreateMessageResult(raw)
		return Accepted, raw, err
	case protocol.KindListRoots:
		_, err := protocol.DecodeListRootsResult(raw)
		return Accepted, raw, err
	}
	return Invalid, nil, fmt.Errorf("unknown kind of question %q", kind)
}

// interpretAfter is interpret for an answer of this flow given after waited. A refusal too quick
// for a person is Unseen, with the action as content; an accept counts: programs may fill in forms.
func (p *questioner) interpretAfter(ctx context.Context, kind protocol.InputKind,
	raw json.RawMessage, waited time.Duration) (Outcome, json.RawMessage, error) {
	outcome, content, err := interpret(kind, raw)
	if err != nil || outcome == Accepted || !p.isTooSoon(ctx, waited) {
		return outcome, content, err
	}
	if outcome == Declined {
		return Unseen, json.RawMessage(protocol.ActionDecline), nil
	}
	return Unseen, json.RawMessage(protocol.ActionCancel), nil
}

func (p *questioner) isTooSoon(ctx context.Context, waited time.Duration) bool {
	return waiting.IsTooSoon(ctx, p.funnel.opts.MinHumanTime, waited)
}

// Visited reads the answer to [ElicitURL]. Accepted means that the user agreed, not finished.
func Visited(ctx context.Context, key string) Outcome {
	_, reply := readAnswer[struct{}](ctx, key, protocol.KindElicitURL, acceptAny)
	return reply.Outcome
}

// Sampled returns the message that answers [CreateMessage], and false without one.
func Sampled(ctx context.Context, key string) (protocol.CreateMessageResult, bool) {
	return readResult(ctx, key, protocol.KindCreateMessage, protocol.DecodeCreateMessageResult)
}

// Roots returns the directories that answer [ListRoots], perhaps none, and false without an answer.
func Roots(ctx context.Context, key string) ([]protocol.Root, bool) {
	result, ok := readResult(ctx, key, protocol.KindListRoots, protocol.DecodeListRootsResult)
	return result.Roots, ok
}

func readResult[T any](ctx context.Context, key string, kind protocol.InputKind,
	decode func([]byte) (*T, error)) (result T, ok bool) {
	raw, reply := readAnswer[struct{}](ctx, key, kind, acceptAny)
	if reply.Outcome != Accepted {
		return result, false
	}
	decoded, err := decode(raw)
	if err != nil {
		return result, false
	}
	return *decoded, true
}

func acceptAny(a *answer) (json.RawMessage, error) { return a.content, nil }

// State returns the value that [WithState] kept in an earlier round, and false if it is not a T.
func State[T any](ctx context.Context) (T, bool) {
	var v, zero T
	r := runFrom(ctx)
	if r == nil {
		return zero, false
	}
	r.mu.Lock()
	r.fixVersionLocked()
	state := r.state
	r.mu.Unlock()
	if state == nil || jsonx.Unmarshal(state, &v) != nil {
		return zero, false
	}
	return v, true
}
