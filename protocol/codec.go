package protocol

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// startBytes is the memory an encoding begins with; an ordinary result or
// request fits.
const startBytes = 384

// EncodeResult returns the JSON text of a result to method, as version v
// spells it. It is an error, and never a mis-typed message, when the result is
// nil (typed nils included), is not one that the method may answer, was forged
// by embedding, cannot be encoded, or is an [*InputRequiredResult] toward a
// legacy revision.
func EncodeResult(v Version, method string, r Result) (json.RawMessage, error) {
	size := startBytes
	if asks, ok := r.(*InputRequiredResult); ok && asks != nil {
		size += len(asks.RequestState.text)
	}
	data, err := AppendResult(make([]byte, 0, size), v, method, r)
	if err != nil {
		return nil, err
	}
	return data, nil
}

// AppendResult is [EncodeResult] appending to dst. On error it returns dst.
func AppendResult(dst []byte, v Version, method string, r Result) ([]byte, error) {
	w := beginObject(dst)
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
	if err := appendResult(&w, v, method, r); err != nil {
		return dst, fmt.Errorf("%s result: %w", method, err)
	}
	data, err := w.endObject()
	if err != nil {
		return dst, fmt.Errorf("%s result: %w", method, err)
	}
	return data, nil
}

// appendResult writes the members of a result. The exact types are switched on, so that embedding
// one of them forges nothing.
func appendResult(w *objectWriter, v Version, method string, r Result) error {
	if !mayAnswer(method, r) {
		return fmt.Errorf("nil or wrong result: %T", r)
	}
	if members := relayedMembers(r); members != nil {
		return appendRelayed(w, v, r, members)
	}
	switch r := r.(type) {
	case *InputRequiredResult:
		return r.appendMembers(w, v)
	case *CallToolResult:
		r.appendMembers(w, v)
	case *GetPromptResult:
		r.appendMembers(w, v)
	case *ReadResourceResult:
		r.appendMembers(w, v)
	case *ListToolsResult:
		return r.appendMembers(w, v)
	case *ListPromptsResult:
		r.appendMembers(w, v)
	case *ListResourcesResult:
		r.appendMembers(w, v)
	case *ListResourceTemplatesResult:
		r.appendMembers(w, v)
	case *DiscoverResult:
		r.appendMembers(w, v)
	case *CompleteResult:
		r.appendMembers(w)
	case *ListenResult:
		w.addRawObject("_meta", r.Meta)
	case *InitializeResult:
		return r.appendMembers(w, v)
	case *EmptyResult:
		w.addRawObject("_meta", r.Meta)
	case *CreateTaskResult:
		if v.Era() != Modern {
			return fmt.Errorf("revision %s has no tasks", v)
		}
		r.Task.appendMembers(w, false)
		w.addRawObject("_meta", r.Meta)
	case *GetTaskResult:
		r.Task.appendMembers(w, true)
		w.addRawObject("_meta", r.Meta)
	case *ExtensionResult:
		r.appendMembers(w)
	}
	return nil
}

// mayAnswer reports whether method may be answered with r, which is not the case for nil, typed or
// not, and for types that are not of this package.
func mayAnswer(method string, r Result) bool {
	switch r := r.(type) {
	case *InputRequiredResult:
		return r != nil && MultiRoundTrip(method)
	case *CallToolResult:
		return r != nil && method == MethodCallTool
	case *GetPromptResult:
		return r != nil && method == MethodGetPrompt
	case *ReadResourceResult:
		return r != nil && method == MethodReadResource
	case *ListToolsResult:
		return r != nil && method == MethodListTools
	case *ListPromptsResult:
		return r != nil && method == MethodListPrompts
	case *ListResourcesResult:
		return r != nil && method == MethodListResources
	case *ListResourceTemplatesResult:
		return r != nil && method == MethodListResourceTemplates
	case *DiscoverResult:
		return r != nil && method == MethodDiscover
	case *CompleteResult:
		return r != nil && method == MethodComplete
	case *ListenResult:
		return r != nil && method == MethodListen
	case *InitializeResult:
		return r != nil && method == MethodInitialize
	case *EmptyResult:
		return r != nil && answersNothing(method)
	case *CreateTaskResult:
		return r != nil && method == MethodCallTool
	case *GetTaskResult:
		return r != nil && method == MethodGetTask
	case *ExtensionResult:
		return r != nil && newParams(method) == nil
	}
	return false
}

// A reporter is called for what is odd in a result that is read all the same. It may be nil.
type reporter func(error)

func (r reporter) reportf(format string, args ...any) {
	if r != nil {
		r(fmt.Errorf(format, args...))
	}
}

// answersNothing reports whether method has no result of its own.
func answersNothing(method string) bool {
	switch method {
	case MethodPing, MethodSetLevel, MethodSubscribe, MethodUnsubscribe, MethodUpdateTask,
		MethodCancelTask:
		return true
	}
	return newParams(method) == nil
}

// DecodeResult is [DecodeResultReporting] without a report.
func DecodeResult(v Version, method string, data []byte) (Result, error) {
	return DecodeResultReporting(v, method, data, nil)
}

// DecodeResultReporting reads a result to method in version v; it aliases data. The
// resultType member alone decides what it is: absent means complete, an
// unknown one is an error, and a complete result that
// carries inputRequests is complete. Toward legacy revisions the member has no
// meaning. An input_required result is refused for methods that cannot have
// one, and when it carries neither questions nor state.
//
// An entry of a list that cannot be read is left out, and a block of text without text is read as
// empty. report, which may be nil, is called with the reason of each.
func DecodeResultReporting(
	v Version, method string, data []byte, report func(error),
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
	switch typ {
	case resultComplete:
		r, err = decodeComplete(method, data, report)
	case resultInputRequired:
		if !MultiRoundTrip(method) {
			err = fmt.Errorf("input_required is not allowed here")
			break
		}
		r, err = decodeInputRequired(data)
	case resultTask:
		if method != MethodCallTool {
			err = fmt.Errorf("a task is not allowed here")
			break
		}
		r, err = decodeCreateTask(data)
	default:
		// Such a result must not be used (basic/index, "ResultType").
		err = fmt.Errorf("unknown resultType %s", quoteClipped(typ))
	}
	if err != nil {
		return nil, fmt.Errorf("%s result: %w", method, err)
	}
	return r, nil
}

func decodeComplete(method string, data []byte, report reporter) (Result, error) {
	switch method {
	case MethodCallTool:
		return decodeCallTool(data, report)
	case MethodGetPrompt:
		return decodeGetPrompt(data, report)
	case MethodReadResource:
		return decodeReadResource(data)
	case MethodListTools:
		return decodeListTools(data, report)
	case MethodListPrompts:
		return decodeListPrompts(data, report)
	case MethodListResources:
		return decodeListResources(data, report)
	case MethodListResourceTemplates:
		return decodeListResourceTemplates(data, report)
	case MethodDiscover:
		return decodeDiscover(data)
	case MethodComplete:
		return decodeCompletion(data)
	case MethodInitialize:
		return decodeInitialize(data)
	case MethodGetTask:
		return decodeGetTask(data)
	}
	if newParams(method) == nil {
		return decodeExtension(data)
	}
	var meta Meta
	err := decodeMeta(data, &meta)
	if method == MethodListen {
		return &ListenResult{Meta: meta}, err
	}
	return &EmptyResult{Meta: meta}, err
}

func decodeMeta(data []byte, meta *Meta) error {
	return readMembers(data, func(key, value []byte) error {
		if string(key) == "_meta" {
			return objectMember(meta, key, value)
		}
		return nil
	})
}
