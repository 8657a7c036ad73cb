package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// startBytes is the initial buffer of an encoding; ordinary results and requests fit.
const startBytes = 384

// EncodeResult encodes a result of method in revision v. It returns an error when r is nil (typed
// nils included), does not belong to method, only embeds a type of this package, cannot be encoded,
// or is an [*InputRequiredResult] for a legacy revision.
func EncodeResult(v Version, method string, r Result) (json.RawMessage, error) {
	size := startBytes
	if asks, ok := r.(*InputRequiredResult); ok && asks != nil {
		size += len(asks.RequestState.text)
	}
	data, err := AppendResult(make([]byte, 0, size), v, method, r, nil)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// AppendResult is [EncodeResult] appending to dst. A server that is not nil holds [MetaServerInfo],
// which is added to results whose _meta lacks it. On error AppendResult returns dst.
func AppendResult(dst []byte, v Version, method string, r Result, server Meta) ([]byte, error) {
	w := beginObject(dst)
	w.version, w.server = v, server
	if v.Era() == Modern {
		switch r.(type) {
		case *InputRequiredResult:
			w.addText("resultType", resultInputRequired)
		case *CreateTaskResult:
			w.addText("resultType", resultTask)
		default:
			w.addText("resultType", resultComplete)
		}
	}
	w.keepError(appendResult(&w, method, r))
	data, err := w.endObject()
	if err != nil {
		return dst, fmt.Errorf("%s result: %w", method, err)
	}
	return data, nil
}

func appendResult(w *objectWriter, method string, r Result) error {
	if !mayAnswer(method, r) {
		return fmt.Errorf("nil or wrong result: %T", r)
	}
	if r, ok := r.(relayable); ok {
		if members := relayedMembers(r); members != nil {
			return r.relay().appendMembers(w, members)
		}
	}
	switch r := r.(type) { // frequent types avoid a writer on the heap
	case *InputRequiredResult:
		return r.codeMembers(w, member{})
	case *CallToolResult:
		return r.codeMembers(w, member{})
	case *GetPromptResult:
		return r.codeMembers(w, member{})
	case *ReadResourceResult:
		return r.codeMembers(w, member{})
	}
	own := *w
	err := r.codeMembers(&own, member{})
	*w = own
	return err
}

type methodTypes struct {
	newParams func() Params
	newResult func() Result
	isResult  func(Result) bool
}

var methods = map[string]methodTypes{
	MethodCallTool:              typesOf[CallToolParams, CallToolResult](),
	MethodGetPrompt:             typesOf[GetPromptParams, GetPromptResult](),
	MethodReadResource:          typesOf[ReadResourceParams, ReadResourceResult](),
	MethodListTools:             typesOf[ListParams, ListToolsResult](),
	MethodListPrompts:           typesOf[ListParams, ListPromptsResult](),
	MethodListResources:         typesOf[ListParams, ListResourcesResult](),
	MethodListResourceTemplates: typesOf[ListParams, ListResourceTemplatesResult](),
	MethodDiscover:              typesOf[RequestMeta, DiscoverResult](),
	MethodComplete:              typesOf[CompleteParams, CompleteResult](),
	MethodListen:                typesOf[ListenParams, ListenResult](),
	MethodInitialize:            typesOf[InitializeParams, InitializeResult](),
	MethodPing:                  typesOf[RequestMeta, EmptyResult](),
	MethodSetLevel:              typesOf[SetLevelParams, EmptyResult](),
	MethodSubscribe:             typesOf[SubscribeParams, EmptyResult](),
	MethodUnsubscribe:           typesOf[SubscribeParams, EmptyResult](),
	MethodGetTask:               typesOf[TaskParams, GetTaskResult](),
	MethodUpdateTask:            typesOf[TaskParams, EmptyResult](),
	MethodCancelTask:            typesOf[TaskParams, EmptyResult](),
}

func typesOf[P, R any, PP interface {
	*P
	Params
}, PR interface {
	*R
	Result
}]() methodTypes {
	return methodTypes{
		newParams: func() Params { return PP(new(P)) },
		newResult: func() Result { return PR(new(R)) },
		isResult:  isExactly[R],
	}
}

func isExactly[R any](r Result) bool {
	result, ok := any(r).(*R)
	return ok && result != nil
}

// mayAnswer reports whether r, which must be non-nil and of this package, may answer method.
func mayAnswer(method string, r Result) bool {
	switch r := r.(type) {
	case *InputRequiredResult:
		return r != nil && MultiRoundTrip(method)
	case *CreateTaskResult:
		return r != nil && method == MethodCallTool
	case *CallToolResult: // the most frequent one
		return r != nil && method == MethodCallTool
	}
	known, ok := methods[method]
	if !ok {
		return isExactly[ExtensionResult](r) || isExactly[EmptyResult](r)
	}
	return known.isResult(r)
}

// DecodeResult decodes a result of method in revision v; it aliases data. In modern revisions
// resultType alone decides the type: an absent resultType means complete even with inputRequests,
// an unknown one is an error. An input_required result is refused for methods that cannot have one,
// and when it carries neither questions nor state.
//
// Unreadable entries of a list and blocks of content are left out, unless no block can be read; a
// text block without text is empty. report, if given and not nil, is called with each deviation.
func DecodeResult(
	v Version, method string, data []byte, report ...func(error),
) (Result, error) {
	if err := jsonx.Check(data); err != nil {
		return nil, fmt.Errorf("%s result: %w", method, err)
	}
	typ := resultComplete
	err := readMembers(data, func(key, value []byte) error {
		if string(key) == "resultType" && v.Era() == Modern {
			return textMember(&typ, key, value)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s result: %w", method, err)
	}
	var r Result
	if _, ok := methods[method]; !ok && bytes.Contains(data, []byte(jsonx.TooDeep)) {
		return nil, fmt.Errorf("%s result: %w", method, errTooDeep)
	}
	switch typ {
	case resultComplete:
		r = newResult(method, data)
	case resultInputRequired:
		if !MultiRoundTrip(method) {
			return nil, fmt.Errorf("%s result: input_required is not allowed here", method)
		}
		r = &InputRequiredResult{}
	case resultTask:
		if method != MethodCallTool {
			return nil, fmt.Errorf("%s result: a task is not allowed here", method)
		}
		r = &CreateTaskResult{}
	default:
		// "must be considered invalid" (basic/index, "ResultType")
		return nil, fmt.Errorf("%s result: unknown resultType %s", method, quoteClipped(typ))
	}
	var about *provenance
	if r, ok := r.(relayable); ok {
		about = r.provenanceOf()
	}
	if err := readResult(data, r, about); err != nil {
		return nil, fmt.Errorf("%s result: %w", method, err)
	}
	if about != nil {
		for _, odd := range about.odd {
			if len(report) > 0 && report[0] != nil {
				report[0](odd)
			}
		}
	}
	return r, nil
}

func readResult(data []byte, r Result, about *provenance) error {
	var task *Task
	var err error
	switch r := r.(type) {
	case *CreateTaskResult:
		if task, err = decodeTask(data, false); err == nil {
			r.Task = *task
		}
	case *GetTaskResult:
		if task, err = decodeTask(data, true); err == nil {
			r.Task = *task
		}
	}
	return firstError(err, readObject(data, r, about))
}

func newResult(method string, data []byte) Result {
	if known, ok := methods[method]; ok {
		return known.newResult()
	}
	return &ExtensionResult{Members: data}
}
