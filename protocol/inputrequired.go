package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
)

// An InputKind is one of the four kinds of question.
type InputKind string

// The kinds. The modes of elicitation are two kinds, because the mode decides the capability.
const (
	KindElicitForm    InputKind = "elicitation.form"
	KindElicitURL     InputKind = "elicitation.url"
	KindCreateMessage InputKind = "sampling"
	KindListRoots     InputKind = "roots"
)

// Method returns the protocol method of questions of this kind.
func (k InputKind) Method() string {
	switch k {
	case KindElicitForm, KindElicitURL:
		return MethodElicit
	case KindCreateMessage:
		return MethodCreateMessage
	case KindListRoots:
		return MethodListRoots
	}
	return ""
}

// An InputRequest is a question: [*ElicitForm], [*ElicitURL], [*CreateMessage] or [*ListRoots].
type InputRequest interface {
	// Kind may be called on a nil question.
	Kind() InputKind
	appendParams(dst []byte, v Version) ([]byte, error)
}

// InputRequests are questions in the order of asking. Keys must be unique and not empty.
type InputRequests []KeyedRequest

// A KeyedRequest is a question and the key of its answer.
type KeyedRequest struct {
	Key     string
	Request InputRequest
}

// InputResponses are the answers in a request, in the order received. Nil means no answers; an
// empty list is an empty object on the wire.
type InputResponses []KeyedResponse

// A KeyedResponse is one answer as received JSON.
type KeyedResponse struct {
	Key    string
	Result json.RawMessage
}

// Get returns the answer at key, nil if absent.
func (r InputResponses) Get(key string) json.RawMessage {
	for _, answer := range r {
		if answer.Key == key {
			return answer.Result
		}
	}
	return nil
}

// A RequestState is the opaque text that a server sends with its questions and gets back with the
// answers. The zero value is absent, which differs from empty text on the wire.
type RequestState struct {
	text    string
	present bool
}

// StateText returns a state with this text.
func StateText(text string) RequestState { return RequestState{text, true} }

// Text returns the state's text and whether there is a state.
func (s RequestState) Text() (text string, present bool) { return s.text, s.present }

// Retry holds the answers and the state that a retried request adds (basic/patterns/mrtr).
type Retry struct {
	InputResponses InputResponses
	RequestState   RequestState
}

// An InputRequiredResult asks the client to answer questions, to come back later, or both
// (basic/patterns/mrtr, "InputRequiredResult"). It must have InputRequests or RequestState.
type InputRequiredResult struct {
	InputRequests InputRequests
	RequestState  RequestState
	Meta          Meta

	attachment any // of package roundtrip, see package rpc; not encoded
}

var _ = rpc.RegisterAttachments(
	func(result any) any { return result.(*InputRequiredResult).attachment },
	func(result, value any) { result.(*InputRequiredResult).attachment = value },
)

// Validate returns an error if r may not be sent: neither questions nor state, an empty or repeated
// key, a nil question, or text that is not UTF-8.
func (r *InputRequiredResult) Validate() error {
	if len(r.InputRequests) == 0 && !r.RequestState.present {
		return fmt.Errorf(
			"input required: at least one of inputRequests and requestState must be present")
	}
	// The state must return byte for byte, which JSON ensures only for UTF-8.
	if !utf8.ValidString(r.RequestState.text) {
		return fmt.Errorf("input required: requestState is not valid UTF-8")
	}
	seen := newKeySet(len(r.InputRequests))
	for _, q := range r.InputRequests {
		switch {
		case q.Key == "":
			return fmt.Errorf("input required: empty key")
		case !utf8.ValidString(q.Key):
			return fmt.Errorf("input required: key %s is not valid UTF-8", quoteClipped(q.Key))
		case seen.addKey(q.Key):
			return fmt.Errorf("input required: key %s appears twice", quoteClipped(q.Key))
		case isNilRequest(q.Request):
			return fmt.Errorf("input required: question %s is nil or of an unknown type",
				quoteClipped(q.Key))
		}
	}
	return nil
}

// isNilRequest reports whether a question is nil, a typed nil, or of a type that embeds ours.
func isNilRequest(q InputRequest) bool {
	switch q.(type) {
	case *ElicitForm, *ElicitURL, *CreateMessage, *ListRoots:
		return reflect.ValueOf(q).IsNil()
	}
	return true
}

// keySet finds repeated keys, in short lists without a map.
type keySet struct {
	few  [16]string
	used int
	many map[string]bool
}

func newKeySet(n int) (s keySet) {
	if n > len(s.few) {
		s.many = make(map[string]bool, n)
	}
	return s
}

func (s *keySet) addKey(key string) bool {
	if s.many != nil {
		had := s.many[key]
		s.many[key] = true
		return had
	}
	for _, k := range s.few[:s.used] {
		if k == key {
			return true
		}
	}
	s.few[s.used] = key
	s.used++
	return false
}

// AppendInputRequest appends one question as version v spells it: {"method":…,"params":…}.
func AppendInputRequest(dst []byte, v Version, q InputRequest) ([]byte, error) {
	if isNilRequest(q) {
		return dst, fmt.Errorf("input request: nil or of an unknown type")
	}
	w := beginObject(dst)
	w.addText("method", q.Kind().Method())
	w.addKey("params")
	var err error
	if w.dst, err = AppendInputParams(w.dst, v, q); err != nil {
		return w.dst, err
	}
	return w.endObject()
}

// AppendInputParams appends only the params, for legacy revisions, where a question is a request.
func AppendInputParams(dst []byte, v Version, q InputRequest) ([]byte, error) {
	if isNilRequest(q) {
		return dst, fmt.Errorf("input request: nil or of an unknown type")
	}
	dst, err := q.appendParams(dst, v)
	if err != nil {
		return dst, fmt.Errorf("input request: %w", err)
	}
	return dst, nil
}

// CopyInputRequest returns a shallow copy of a question and a pointer to the copy's _meta.
func CopyInputRequest(q InputRequest) (InputRequest, *Meta) {
	switch q := q.(type) {
	case *ElicitForm:
		own := *q
		return &own, &own.Meta
	case *ElicitURL:
		own := *q
		return &own, &own.Meta
	case *CreateMessage:
		own := *q
		return &own, &own.Meta
	case *ListRoots:
		own := *q
		return &own, &own.Meta
	}
	return q, new(Meta)
}

// DecodeInputRequest reads one question from its method and its parameters (nil when absent).
func DecodeInputRequest(method string, params json.RawMessage) (InputRequest, error) {
	if params == nil && method != MethodListRoots {
		return nil, fmt.Errorf("%s: params must be present", quoteClipped(method))
	}
	var q InputRequest
	var err error
	switch method {
	case MethodElicit:
		q, err = decodeElicit(params)
	case MethodCreateMessage:
		q, err = decodeCreateMessage(params)
	case MethodListRoots:
		q, err = decodeListRoots(params)
	default:
		return nil, fmt.Errorf("method: %s is not a question", quoteClipped(method))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return q, nil
}

func (r *InputRequiredResult) checkComplete() error { return r.Validate() }

func (r *InputRequiredResult) codeMembers(w *objectWriter, m member) (err error) {
	switch {
	case m.reads("inputRequests"):
		r.InputRequests, err = decodeInputRequests(m.value)
	case m.reads("requestState"):
		r.RequestState, err = decodeRequestState(m.value)
	case w != nil:
		if w.version.Era() != Modern {
			return fmt.Errorf("revision %s has no input_required results", w.version)
		}
		if err := r.Validate(); err != nil {
			return fmt.Errorf("result: %w", err)
		}
		if len(r.InputRequests) > 0 {
			w.addInputRequests(w.version, r.InputRequests)
		}
		if text, present := r.RequestState.Text(); present {
			w.addText("requestState", text)
		}
	}
	return firstError(err, w.codeMeta(m, &r.Meta))
}

func (w *objectWriter) addInputRequests(v Version, requests InputRequests) {
	w.addKey("inputRequests")
	dst := append(w.dst, '{')
	for i, q := range requests {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonx.AppendText(dst, q.Key)
		dst = append(dst, ':')
		var err error
		if dst, err = AppendInputRequest(dst, v, q.Request); err != nil {
			w.recordError("inputRequests."+quoteClipped(q.Key), err)
		}
	}
	w.dst = append(dst, '}')
}

func decodeInputRequests(raw []byte) (InputRequests, error) {
	requests := InputRequests{}
	err := jsonx.Members(raw, func(key, value []byte) error {
		var method string
		var params json.RawMessage
		err := readMembers(value, func(k, v []byte) error {
			switch string(k) {
			case "method":
				return textMember(&method, k, v)
			case "params":
				return objectMember(&params, k, v)
			}
			return nil
		})
		var q InputRequest
		if err == nil {
			q, err = DecodeInputRequest(method, params)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quoteClipped(string(key)), err)
		}
		requests = append(requests, KeyedRequest{string(key), q})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("inputRequests: %w", err)
	}
	return requests, nil
}

func decodeInputResponses(raw []byte) (InputResponses, error) {
	if jsonx.KindOf(raw) != jsonx.Object {
		return nil, fmt.Errorf("inputResponses: must be an object")
	}
	responses := InputResponses{}
	err := jsonx.Members(raw, func(key, value []byte) error {
		responses = append(responses, KeyedResponse{string(key), value})
		return nil
	})
	return responses, err
}

func decodeRequestState(raw []byte) (RequestState, error) {
	text, err := jsonx.Text(raw)
	if err != nil {
		return RequestState{}, fmt.Errorf("requestState: must be a string")
	}
	return StateText(text), nil
}

func (r *Retry) retryOf() *Retry { return r }

func (r *Retry) codeRetry(w *objectWriter, m member) (err error) {
	switch {
	case m.reads("inputResponses"):
		r.InputResponses, err = decodeInputResponses(m.value)
	case m.reads("requestState"):
		r.RequestState, err = decodeRequestState(m.value)
	case w != nil:
		r.appendRetry(w)
	}
	return err
}

func (r *Retry) appendRetry(w *objectWriter) {
	if r.InputResponses != nil {
		w.addKey("inputResponses")
		dst := append(w.dst, '{')
		seen := newKeySet(len(r.InputResponses))
		for i, answer := range r.InputResponses {
			if i > 0 {
				dst = append(dst, ',')
			}
			err := jsonx.Check(answer.Result)
			switch {
			case !utf8.ValidString(answer.Key):
				err = fmt.Errorf("key is not valid UTF-8")
			case seen.addKey(answer.Key):
				err = fmt.Errorf("key appears twice")
			}
			if err != nil {
				w.recordError("inputResponses."+quoteClipped(answer.Key), err)
				continue
			}
			dst = jsonx.AppendText(dst, answer.Key)
			dst = append(dst, ':')
			dst = jsonx.AppendCompact(dst, answer.Result)
		}
		w.dst = append(dst, '}')
	}
	if text, present := r.RequestState.Text(); present {
		if !utf8.ValidString(text) {
			w.recordError("requestState", fmt.Errorf("is not valid UTF-8"))
		}
		w.addText("requestState", text)
	}
}
