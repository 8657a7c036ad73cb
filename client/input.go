package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/protocol"
)

// questionHandlers checks the questions of a server and puts them to the
// handlers of Options, for rounds of modern calls and for pushed questions alike.
type questionHandlers struct {
	opts *Options
	caps *protocol.ClientCapabilities // what the handlers can answer
}

// A task is one question that has been found fit to be asked.
type questionTask struct {
	origin Origin
	kind   protocol.InputKind
	ask    func(context.Context) (json.RawMessage, error)
}

// MaxQuestions is how many questions a server may ask in one round. A form can
// have as many fields; more questions than that nobody answers, and each would
// be put to a person.
const MaxQuestions = 100

// countable refuses rounds of more than [MaxQuestions].
func checkQuestionCount(method string, questions protocol.InputRequests) error {
	if len(questions) > MaxQuestions {
		return &ResponseError{method, fmt.Errorf("inputRequests: %d questions, at most %d are answered", len(questions), MaxQuestions)}
	}
	return nil
}

// fulfil answers the questions of one round. All of them are checked before
// anybody is asked one; then they are asked at the same time, and the first
// failure cancels the others. It returns when every handler has.
func (h *questionHandlers) answerQuestions(ctx context.Context, origin Origin, questions protocol.InputRequests) (protocol.InputResponses, error) {
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

// run asks the question and reports once, whatever the handler does: return,
// panic, or end its goroutine as testing.T.FailNow does.
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

// prepare checks one question and binds it to its handler.
func (h *questionHandlers) prepareQuestion(origin Origin, req protocol.InputRequest) (questionTask, error) {
	t := questionTask{origin: origin, kind: req.Kind()}
	if missing := h.caps.Missing(req); !missing.IsZero() {
		return t, fmt.Errorf("%s: %w", missing, ErrUndeclared)
	}
	switch req := req.(type) {
	case *protocol.ElicitForm:
		f, err := form.ParsePeer(req.Schema)
		if err != nil {
			return t, fmt.Errorf("requestedSchema: %w", err)
		}
		q := &FormQuestion{origin, req.Message, req.Schema, req.Meta, f}
		t.ask = func(ctx context.Context) (json.RawMessage, error) { return h.askForm(ctx, q) }
	case *protocol.ElicitURL:
		if err := h.checkURL(req); err != nil {
			return t, err
		}
		q := &URLQuestion{origin, req.Message, req.URL, req.Meta}
		t.ask = func(ctx context.Context) (json.RawMessage, error) { return h.askURL(ctx, q) }
	case *protocol.CreateMessage:
		q := &SamplingQuestion{origin, *req}
		if !h.opts.SamplingContext {
			// A server should not have asked for context that was not offered;
			// nobody is to think that it may be given.
			q.Request.IncludeContext = ""
		}
		t.ask = func(ctx context.Context) (json.RawMessage, error) { return h.askModel(ctx, q) }
	case *protocol.ListRoots:
		q := &RootsQuestion{origin, req.Meta}
		t.ask = func(ctx context.Context) (json.RawMessage, error) { return h.askRoots(ctx, q) }
	default:
		return t, fmt.Errorf("unknown kind of question: %T", req)
	}
	return t, nil
}

func (h *questionHandlers) askForm(ctx context.Context, q *FormQuestion) (json.RawMessage, error) {
	r, err := h.opts.ElicitForm(ctx, q)
	if err != nil {
		return nil, err
	}
	return encodeElicitResult(r, q.completeContent)
}

func (h *questionHandlers) askURL(ctx context.Context, q *URLQuestion) (json.RawMessage, error) {
	r, err := h.opts.ElicitURL(ctx, q)
	if err != nil {
		return nil, err
	}
	// What the person does at the URL is between them and the site: URL mode
	// has no content.
	return encodeElicitResult(r, dropContent)
}

func dropContent(json.RawMessage) (json.RawMessage, error) { return nil, nil }

// encodeElicit returns what goes out for a person's answer. Only an accept has
// content, and fill decides which. The handler's value is not changed.
func encodeElicitResult(r *protocol.ElicitResult, fill func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	if r == nil {
		return nil, errors.New("handler returned nil")
	}
	out := protocol.ElicitResult{Action: r.Action, Meta: r.Meta}
	switch r.Action {
	case protocol.ActionAccept:
		var err error
		if out.Content, err = fill(r.Content); err != nil {
			return nil, err
		}
	case protocol.ActionDecline, protocol.ActionCancel:
	default:
		return nil, fmt.Errorf("action: unknown action %.32q", r.Action)
	}
	return out.MarshalJSON()
}

func (h *questionHandlers) askModel(ctx context.Context, q *SamplingQuestion) (json.RawMessage, error) {
	r, err := h.opts.CreateMessage(ctx, q)
	if err != nil {
		return nil, err
	}
	return encodeMessageResult(r)
}

// encodeMessage returns what goes out for a model's message.
func encodeMessageResult(r *protocol.CreateMessageResult) (json.RawMessage, error) {
	if r == nil {
		return nil, errors.New("handler returned nil")
	}
	data, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	// Reading it as the server will is the surest check.
	if _, err := protocol.DecodeCreateMessageResult(data); err != nil {
		return nil, err
	}
	return data, nil
}

func (h *questionHandlers) askRoots(ctx context.Context, q *RootsQuestion) (json.RawMessage, error) {
	roots, err := h.opts.ListRoots(ctx, q)
	if err != nil {
		return nil, err
	}
	return encodeRoots(roots)
}

// encodeRoots returns what goes out for a list of directories.
func encodeRoots(roots []protocol.Root) (json.RawMessage, error) {
	for i, root := range roots {
		// client/roots: a root is a file:// URI.
		if !strings.HasPrefix(root.URI, "file://") {
			return nil, fmt.Errorf("roots[%d].uri: must start with file://", i)
		}
	}
	return protocol.ListRootsResult{Roots: roots}.MarshalJSON()
}
