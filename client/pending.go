package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Pending is a call that waits for answers, from [Client.Begin], for [Client.Resume].
//
// It can be stored and sent as JSON, answers included. Protect it: it holds arguments, users'
// answers, and the server's state, enough to continue the call over unauthenticated connections. A
// manipulated Pending asks users manipulated questions. Printing and logging do not show these.
//
// Its methods are not safe for concurrent use.
type Pending struct {
	// A pointer hides the contents from every verb of package fmt, even within other structs.
	call *pendingCall
}

type pendingCall struct {
	method, target string
	params         json.RawMessage // of the original request
	round          int             // the questions' round
	lastID         int64           // highest request id of the client so far
	asked          *protocol.InputRequiredResult
	answers        map[string]json.RawMessage // by question key
}

func newPending(l leg, round int, lastID int64,
	asked *protocol.InputRequiredResult) (_ *Pending, err error) {
	call := &pendingCall{
		method: l.method, target: l.target, round: round, lastID: lastID, asked: asked,
		answers: map[string]json.RawMessage{},
	}
	original := copyParams(l.params)
	*protocol.RetryOf(original) = protocol.Retry{}
	meta := original.RequestMetadata()
	meta.Version, meta.ClientInfo, meta.Capabilities = "", nil, nil // each leg sets them
	if call.params, err = protocol.EncodeParams(original); err != nil {
		return nil, err
	}
	return &Pending{call}, nil
}

func (p Pending) loadCall() *pendingCall {
	if p.call == nil {
		return &pendingCall{asked: &protocol.InputRequiredResult{}}
	}
	return p.call
}

// Method returns the method of the call.
func (p *Pending) Method() string { return p.loadCall().method }

// Target returns the name of the tool or prompt, or the URI of the resource.
func (p *Pending) Target() string { return p.loadCall().target }

// Questions returns the server's questions in order, at least one. The caller must not modify them.
func (p *Pending) Questions() protocol.InputRequests {
	return p.loadCall().asked.InputRequests
}

// State returns the state that came with the questions, for programs that store less than the
// Pending: a request with this state and the answers also continues the call.
func (p *Pending) State() protocol.RequestState { return p.loadCall().asked.RequestState }

// Answer sets or replaces the answer to the question at key: a [*protocol.ElicitResult] for a form
// or URL (see [Accept], [Decline] and [Cancel]), a [*protocol.CreateMessageResult] for sampling, a
// [*protocol.ListRootsResult] for roots, or a [json.RawMessage] of one of them. A form's content
// gets its defaults and is validated; a URL's is dropped. An invalid answer is an [*AnswerError].
func (p *Pending) Answer(key string, result json.Marshaler) error {
	for _, q := range p.Questions() {
		if q.Key != key {
			continue
		}
		raw, err := jsonx.Marshal(result)
		if err == nil {
			raw, err = encodeAnswer(q.Request, raw)
		}
		if err != nil {
			return newAnswerError(QuestionOrigin{Key: key}, q.Request.Kind(), err)
		}
		p.call.answers[key] = raw
		return nil
	}
	return errPrefix.Errorf("pending call: no question %.64q", key)
}

func encodeAnswer(q protocol.InputRequest, raw json.RawMessage) (json.RawMessage, error) {
	switch q := q.(type) {
	case *protocol.ElicitForm:
		f, err := form.ParsePeer(q.Schema)
		if err != nil {
			return nil, err
		}
		return recode(raw, protocol.DecodeElicitResult, (&FormQuestion{form: f}).encodeAnswer)
	case *protocol.ElicitURL:
		return recode(raw, protocol.DecodeElicitResult, encodeVisit)
	case *protocol.CreateMessage:
		return recode(raw, protocol.DecodeCreateMessageResult, encodeMessage)
	case *protocol.ListRoots:
		return recode(raw, protocol.DecodeListRootsResult,
			func(r *protocol.ListRootsResult) (json.RawMessage, error) { return encodeRoots(r.Roots) })
	}
	return nil, fmt.Errorf("unknown kind of question: %T", q)
}

func recode[R any](raw json.RawMessage, decode func([]byte) (R, error),
	encode func(R) (json.RawMessage, error)) (json.RawMessage, error) {
	r, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return encode(r)
}

func collectResponses(questions protocol.InputRequests,
	answers map[string]json.RawMessage) (responses protocol.InputResponses) {
	for _, q := range questions {
		if answer := answers[q.Key]; answer != nil {
			responses = append(responses, protocol.KeyedResponse{Key: q.Key, Result: answer})
		}
	}
	return responses
}

func (p Pending) String() string {
	return fmt.Sprintf(
		"pending %s %.64q, round %d, %d questions",
		p.Method(), p.Target(), p.loadCall().round, len(p.Questions()),
	)
}

// LogValue keeps the contents out of logs.
func (p Pending) LogValue() slog.Value { return slog.StringValue(p.String()) }

const pendingFormat = 1 // version of the JSON text

const maxPendingID = 1 << 52 // some JSON readers change higher numbers

type pendingText struct {
	Format  int                        `json:"format"`
	Method  string                     `json:"method"`
	Params  json.RawMessage            `json:"params"`
	Round   int                        `json:"round"`
	LastID  int64                      `json:"lastId"`
	Asked   json.RawMessage            `json:"asked"` // questions as on the wire
	Answers map[string]json.RawMessage `json:"answers"`
}

// MarshalJSON returns everything that [Client.Resume] needs. Later versions can read it, too.
func (p Pending) MarshalJSON() ([]byte, error) {
	call := p.call
	if call == nil {
		return nil, errors.New("client: pending call: empty")
	}
	asked, err := protocol.EncodeResult(protocol.Latest, call.method, call.asked)
	if err != nil {
		return nil, errPrefix.Errorf("pending call: %w", err)
	}
	return jsonx.Encode(pendingText{
		pendingFormat, call.method, call.params, call.round, call.lastID, asked, call.answers,
	})
}

// UnmarshalJSON reads MarshalJSON's text. If it returns an error, p is unchanged.
func (p *Pending) UnmarshalJSON(data []byte) error {
	read, err := decodePending(bytes.Clone(data))
	if err != nil {
		return errPrefix.Errorf("pending call: %w", err)
	}
	*p = *read
	return nil
}

func decodePending(data []byte) (*Pending, error) {
	var text pendingText
	if err := jsonx.Decode(data, &text); err != nil {
		return nil, err
	}
	switch {
	case text.Format != pendingFormat:
		return nil, fmt.Errorf("format: %d is not known", text.Format)
	case !protocol.MultiRoundTrip(text.Method):
		return nil, fmt.Errorf("method: %.64q does not take several rounds", text.Method)
	case text.Round < 1:
		return nil, errors.New("round: must be at least 1")
	case text.LastID < 1 || text.LastID > maxPendingID:
		return nil, errors.New("lastId: out of range")
	case jsonx.KindOf(text.Params) != jsonx.Object:
		return nil, errors.New("params: must be an object")
	}
	params, err := protocol.DecodeParams(text.Method, text.Params)
	if err != nil {
		return nil, err
	}
	l, err := newLeg(params)
	if err != nil {
		return nil, err
	}
	result, err := protocol.DecodeResult(protocol.Latest, text.Method, text.Asked)
	if err != nil {
		return nil, fmt.Errorf("asked: %w", err)
	}
	asked, ok := result.(*protocol.InputRequiredResult)
	if !ok || len(asked.InputRequests) == 0 {
		return nil, errors.New("asked: has no questions")
	}
	if err := checkQuestionCount(text.Method, asked.InputRequests); err != nil {
		return nil, err
	}
	p, err := newPending(l, text.Round, text.LastID, asked)
	if err != nil {
		return nil, err
	}
	for key, answer := range text.Answers {
		if err := p.Answer(key, answer); err != nil {
			return nil, err
		}
	}
	return p, nil
}
