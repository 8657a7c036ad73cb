package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// An AnswerError says that the client answered a question with content that
// does not fit its form. Err names the field, never the value.
type AnswerError struct{ Err error }

// Error says what does not fit.
func (e *AnswerError) Error() string { return "the answer does not fit the question: " + e.Err.Error() }

// Unwrap returns Err.
func (e *AnswerError) Unwrap() error { return e.Err }

// Push puts one question to the client while call runs, outside of rounds: the
// push API of hosts that serve legacy revisions sits on it. The question is
// gated and spelled as those that handlers return are, and waits as long. The
// answer is the bare result, to be read with one of the Decode*Result functions
// of package protocol; the content of an accepted form has been checked and has
// its defaults filled in.
//
// Where the question cannot be asked Push fails before anything is sent, with a
// [*PushError]: in modern revisions, without a [Call].Push, for clients that
// lack the capability, and when the revision cannot carry it. An
// [*protocol.Error] is what the client said instead of an answer, or, before
// anything is sent, that too many calls wait already ([protocol.CodeBusy]) or that
// the question's URL must not be sent (see [Options].AllowURL); an [*AnswerError]
// is an answer that is no good. Calls may overlap.
func (f *Funnel) Push(ctx context.Context, call Call, question protocol.InputRequest) (json.RawMessage, error) {
	p := &asker{}
	p.attachCall(ctx, f, &call, waitOf(ctx))
	spelled, fields, err := p.preparePush(ctx, question)
	if err != nil {
		return nil, err
	}
	w, err := p.beginWaiting(ctx)
	if err != nil {
		return nil, err
	}
	defer w.end()
	began := time.Now()
	raw, err := p.push(&w.Context, spelled)
	if err != nil {
		return raw, err
	}
	return p.acceptPushed(ctx, question, fields, raw, time.Since(began))
}

// preparePush returns the question as it is put to the client, and its form if it
// has one, or why it cannot be put. It is no part of the stack of a call that
// waits.
//
//go:noinline
func (p *asker) preparePush(ctx context.Context, question protocol.InputRequest) (protocol.InputRequest, *form.Form, error) {
	failed := func(format string, args ...any) error {
		return &PushError{Method: question.Kind().Method(), Cause: fmt.Sprintf(format, args...)}
	}
	requests := protocol.InputRequests{{Key: "question", Request: question}}
	if err := (&protocol.InputRequiredResult{InputRequests: requests}).Validate(); err != nil {
		return nil, nil, err
	}
	if !p.legacy() {
		return nil, nil, failed("revision %s has no requests from server to client", p.call.Version)
	}
	if p.call.Push == nil {
		return nil, nil, failed("this connection cannot carry questions to the client")
	}
	if missing := p.call.Capabilities.Missing(question); !missing.IsZero() {
		p.observe(ctx, CapabilityRefused{p.where, missing})
		return nil, nil, &PushError{Method: question.Kind().Method(), Cause: "the client does not support: " + missing.String(), Missing: missing}
	}
	if err := p.checkPushedURL(ctx, question); err != nil {
		return nil, nil, err
	}
	fields, err := pushedForm(question)
	if err != nil {
		return nil, nil, err
	}
	spelled, err := p.spell(question)
	if err != nil {
		return nil, nil, failed("%v", err)
	}
	return spelled, fields, nil
}

// acceptPushed checks an answer, and tells the observer of it. It is no part of
// the stack of a call that waits.
//
//go:noinline
func (p *asker) acceptPushed(ctx context.Context, question protocol.InputRequest, fields *form.Form, raw json.RawMessage, waited time.Duration) (json.RawMessage, error) {
	p.reportPushed(ctx, question, fields, raw, waited)
	if fields == nil {
		return raw, nil
	}
	accepted, err := acceptForm(fields, raw)
	if invalid, ok := errors.AsType[*AnswerError](err); ok {
		fault := fields.Explain(invalid.Err)
		p.observe(ctx, AnswerInvalid{Where: p.where, Field: fault.Field, Rule: Rule(fault.Rule)})
	}
	return accepted, err
}

// reportPushed tells the observer what a person decided on a question without a
// key. Of an answer that cannot be read nothing is known.
func (p *asker) reportPushed(ctx context.Context, question protocol.InputRequest, fields *form.Form, raw json.RawMessage, waited time.Duration) {
	if p.funnel.silent {
		return
	}
	outcome, _, err := interpret(question.Kind(), raw)
	if err != nil {
		return
	}
	q := Question{request: question, form: fields}
	m, err := q.marked()
	if err != nil {
		return
	}
	p.reportAnswered(ctx, &asked{kind: question.Kind(), digest: q.digest(), mark: m}, outcome, waited)
}

// checkPushedURL refuses a visit to a URL that must not be sent. A question that
// is pushed has no key, so the refusal names the elicitation, if that has an id.
func (p *asker) checkPushedURL(ctx context.Context, question protocol.InputRequest) error {
	visit, ok := question.(*protocol.ElicitURL)
	if !ok {
		return nil
	}
	refusal := p.funnel.allowURL().RefuseAny([]*protocol.ElicitURL{visit})
	if refusal == nil {
		return nil
	}
	p.observe(ctx, ServerBug{p.where, refusal})
	return refusal.Wire()
}

// pushedForm reads the form of a question, nil if it has none.
func pushedForm(question protocol.InputRequest) (*form.Form, error) {
	q, ok := question.(*protocol.ElicitForm)
	if !ok {
		return nil, nil
	}
	return form.ParsePeer(q.Schema)
}

// acceptForm checks and completes the content of an accepted form.
func acceptForm(fields *form.Form, raw json.RawMessage) (json.RawMessage, error) {
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil {
		return nil, &AnswerError{err}
	}
	if result.Action != protocol.ActionAccept {
		return raw, nil
	}
	content := result.Content
	if content == nil {
		content = json.RawMessage("{}")
	}
	if result.Content, err = fields.Accept(content); err != nil {
		return nil, &AnswerError{err}
	}
	return jsonx.Marshal(result)
}
