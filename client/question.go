package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/urlrule"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A QuestionOrigin is the call that a question belongs to. Show it to the user. Package
// elicitation's QuestionOrigin is the client request that a gateway forwards.
type QuestionOrigin struct {
	// Key is the server's name for the question, unique within its round. With a legacy server it
	// is the id of the server's request, or the elicitationId of a URL.
	Key string
	// Method and Target are the waiting request's method, and its tool, prompt or resource URI.
	// Both are empty if a legacy server does not name the request.
	Method, Target string
	// Round is the round of the call, from 1. With a legacy server it is the number of the
	// request's questions so far, or 0 if the request is unknown.
	Round int
}

// A FormQuestion asks the user to fill in a form.
type FormQuestion struct {
	QuestionOrigin
	Message string // untrusted text of the server
	// Schema is the form: a checked, flat JSON Schema object, normalized if spelled differently.
	Schema json.RawMessage

	form *form.Form
}

// Check reports why content, a JSON object, is not a valid answer; the error names the field.
// Defaults replace absent fields. In optional fields, null is dropped, and so is "" if the schema
// refuses it. Numbers and booleans sent as strings are converted.
func (q *FormQuestion) Check(content json.RawMessage) error {
	_, err := q.completeContent(content)
	return err
}

func (q *FormQuestion) completeContent(content json.RawMessage) (json.RawMessage, error) {
	if len(content) == 0 {
		content = json.RawMessage(`{}`)
	}
	if err := jsonx.Check(content); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	if jsonx.KindOf(content) != jsonx.Object {
		return nil, errors.New("content: must be a JSON object")
	}
	return q.form.Accept(content)
}

// A URLQuestion asks the user to visit a URL. The answer reports consent, not the outcome of the
// visit. Servers of revision 2025-11-25 may refuse a request until the user has visited a URL
// (-32042). The client repeats that request as soon as the handler accepts, once per visit. So a
// handler should return when the visit is complete, if it can tell.
type URLQuestion struct {
	QuestionOrigin
	Message string // untrusted text of the server
	URL     string // already checked by [Options.AllowURL]
	// ElicitationID names the visit in notifications/elicitation/complete of revision 2025-11-25.
	ElicitationID string
}

// A SamplingQuestion asks for a message from a model.
type SamplingQuestion struct {
	QuestionOrigin
	// Request has no IncludeContext unless [Options.Sampling] has Context.
	Request protocol.CreateMessage
}

// A RootsQuestion asks which directories the server may work on.
type RootsQuestion struct{ QuestionOrigin }

// Accept returns a user's agreement. content must encode as an object, or be nil.
func Accept(content any) (*protocol.ElicitResult, error) {
	data, err := objectOf(content)
	if err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	return &protocol.ElicitResult{Action: protocol.ActionAccept, Content: data}, nil
}

// Decline returns the answer of a user who said no.
func Decline() *protocol.ElicitResult {
	return &protocol.ElicitResult{Action: protocol.ActionDecline}
}

// Cancel returns the answer of a user who dismissed the question.
func Cancel() *protocol.ElicitResult {
	return &protocol.ElicitResult{Action: protocol.ActionCancel}
}

// objectOf encodes a value as a JSON object; nil stays nil. A json.RawMessage is only checked.
func objectOf(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		if len(v) == 0 {
			return nil, nil
		}
		if err := jsonx.Check(v); err != nil {
			return nil, err
		}
		return v, requireObject(v)
	}
	data, err := jsonx.Marshal(v)
	if err != nil {
		return nil, err
	}
	if jsonx.KindOf(data) == jsonx.Null {
		return nil, nil
	}
	return data, requireObject(data)
}

func requireObject(data json.RawMessage) error {
	if kind := jsonx.KindOf(data); kind != jsonx.Object {
		return fmt.Errorf("must be a JSON object, got %s", kind)
	}
	return nil
}

// A questionHandlers checks questions, from rounds or pushed, and calls the handlers of Options.
type questionHandlers struct {
	opts *Options
	caps *protocol.ClientCapabilities // the capabilities that the handlers can answer
}

// maxQuestions limits the questions of one round, and a legacy server's open questions, each of
// which interrupts a user. It equals the limit on a form's fields. The rest of
// protocol.MaxBackCalls is for refusals: a transport that runs out of it stops reading.
const maxQuestions = 100

func checkQuestionCount(method string, questions protocol.InputRequests) error {
	if len(questions) > maxQuestions {
		err := fmt.Errorf("inputRequests: %d questions, at most %d are answered", len(questions),
			maxQuestions)
		return &ResponseError{method, err}
	}
	return nil
}

// answerQuestions answers one round. It checks all questions, then calls the handlers concurrently.
// The first failure cancels the others. It returns when every handler has returned.
func (h *questionHandlers) answerQuestions(ctx context.Context, origin QuestionOrigin,
	questions protocol.InputRequests) (protocol.InputResponses, error) {
	if err := checkQuestionCount(origin.Method, questions); err != nil {
		return nil, err
	}
	tasks := make([]questionTask, len(questions))
	for i, q := range questions {
		origin.Key = q.Key
		var err error
		if tasks[i], err = h.prepareQuestion(origin, q.Request); err != nil {
			return nil, &QuestionError{Key: q.Key, Kind: q.Request.Kind(), Err: err}
		}
	}
	answers := make(protocol.InputResponses, len(tasks))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var once sync.Once
	var failed error
	answer := func(i int) {
		t := &tasks[i]
		t.runHandler(ctx, func(result json.RawMessage, err error) {
			if err != nil {
				once.Do(func() { failed = err })
				cancel(err)
			}
			answers[i] = protocol.KeyedResponse{Key: t.origin.Key, Result: result}
		})
	}
	if len(tasks) == 1 {
		answer(0)
		return answers, failed
	}
	var wait sync.WaitGroup
	for i := range tasks {
		wait.Go(func() { answer(i) })
	}
	wait.Wait()
	return answers, failed
}

type questionTask struct {
	origin QuestionOrigin
	kind   protocol.InputKind
	ask    func(context.Context) (json.RawMessage, error)
}

// runHandler calls report exactly once, even if the handler panics or ends its goroutine.
func (t *questionTask) runHandler(ctx context.Context, report func(json.RawMessage, error)) {
	result, err := json.RawMessage(nil), errors.New("handler did not return")
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
		if err != nil {
			result, err = nil, newAnswerError(t.origin, t.kind, err)
		}
		report(result, err)
	}()
	result, err = t.ask(ctx)
}

func (h *questionHandlers) prepareQuestion(origin QuestionOrigin,
	req protocol.InputRequest) (questionTask, error) {
	t := questionTask{origin: origin, kind: req.Kind()}
	shown, f, err := h.checkQuestion(h.caps, req)
	if err != nil {
		return t, err
	}
	switch req := shown.(type) {
	case *protocol.ElicitForm:
		q := &FormQuestion{origin, req.Message, req.Schema, f}
		t.ask = func(ctx context.Context) (json.RawMessage, error) { // one allocation
			answer, err := h.opts.ElicitForm(ctx, q)
			if err != nil {
				return nil, err
			}
			return q.encodeAnswer(answer)
		}
	case *protocol.ElicitURL:
		q := &URLQuestion{origin, req.Message, req.URL, req.ElicitationID}
		t.ask = bindHandler(h.opts.ElicitURL, q, encodeVisit)
	case *protocol.CreateMessage:
		t.ask = bindHandler(h.opts.CreateMessage, &SamplingQuestion{origin, *req}, encodeMessage)
	case *protocol.ListRoots:
		t.ask = bindHandler(h.opts.ListRoots, &RootsQuestion{origin}, encodeRoots)
	}
	return t, nil
}

func bindHandler[Q, R any](handler func(context.Context, Q) (R, error), q Q,
	encode func(R) (json.RawMessage, error)) func(context.Context) (json.RawMessage, error) {
	return func(ctx context.Context) (json.RawMessage, error) {
		answer, err := handler(ctx, q)
		if err != nil {
			return nil, err
		}
		return encode(answer)
	}
}

// checkQuestion checks that caps allow a question. It returns the question to show and its form.
func (h *questionHandlers) checkQuestion(caps *protocol.ClientCapabilities,
	req protocol.InputRequest) (shown protocol.InputRequest, f *form.Form, err error) {
	if missing := caps.Missing(req); !missing.IsZero() {
		return nil, nil, &undeclaredError{missing}
	}
	switch req := req.(type) {
	case *protocol.ElicitForm:
		if f, err = form.ParsePeer(req.Schema); err != nil {
			return nil, nil, fmt.Errorf("requestedSchema: %w", err)
		}
		if normal := f.Schema(); !bytes.Equal(normal, req.Schema) {
			plain := *req
			plain.Schema = normal
			return &plain, f, nil
		}
		return req, f, nil
	case *protocol.ElicitURL: // see client/elicitation, "URL Mode", safe URL handling
		var u *url.URL
		if u, err = urlrule.Parse(req.URL); err == nil {
			err = h.opts.AllowURL(u)
		}
	case *protocol.CreateMessage:
		if !caps.Sampling.Context {
			plain := *req
			plain.IncludeContext = "" // not declared, so not shown
			return &plain, nil, nil
		}
	case *protocol.ListRoots:
	default:
		err = fmt.Errorf("unknown kind of question: %T", req)
	}
	return req, f, err
}

func (q *FormQuestion) encodeAnswer(r *protocol.ElicitResult) (json.RawMessage, error) {
	return encodeElicitResult(r, q.completeContent)
}

// encodeVisit encodes the answer to a URL. It has no content, as the client does not see the visit.
func encodeVisit(r *protocol.ElicitResult) (json.RawMessage, error) {
	return encodeElicitResult(r, func(json.RawMessage) (json.RawMessage, error) { return nil, nil })
}

// encodeElicitResult encodes an answer. Only an acceptance has content, from calling complete.
func encodeElicitResult(r *protocol.ElicitResult, complete func(json.RawMessage) (json.RawMessage,
	error)) (json.RawMessage, error) {
	if r == nil {
		return nil, errors.New("handler returned nil")
	}
	out := protocol.ElicitResult{Action: r.Action, Meta: r.Meta}
	switch r.Action {
	case protocol.ActionAccept:
		var err error
		if out.Content, err = complete(r.Content); err != nil {
			return nil, err
		}
	case protocol.ActionDecline, protocol.ActionCancel:
	default:
		return nil, fmt.Errorf("action: unknown action %.32q", r.Action)
	}
	return out.MarshalJSON()
}

func encodeMessage(r *protocol.CreateMessageResult) (json.RawMessage, error) {
	if r == nil {
		return nil, errors.New("handler returned nil")
	}
	data, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if _, err := protocol.DecodeCreateMessageResult(data); err != nil {
		return nil, err
	}
	return data, nil
}

func encodeRoots(roots []protocol.Root) (json.RawMessage, error) {
	for i, root := range roots {
		// According to client/roots, a root is a file:// URI.
		if !strings.HasPrefix(root.URI, "file://") {
			return nil, fmt.Errorf("roots[%d].uri: must start with file://", i)
		}
	}
	return protocol.ListRootsResult{Roots: roots}.MarshalJSON()
}
