package protocol

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/jsonx"
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
			w.text("resultType", ResultInputRequired)
		default:
			w.text("resultType", ResultComplete)
		}
	}
	if err := appendResult(&w, v, method, r); err != nil {
		return dst, fmt.Errorf("%s result: %w", method, err)
	}
	data, err := w.end()
	if err != nil {
		return dst, fmt.Errorf("%s result: %w", method, err)
	}
	return data, nil
}

// appendResult writes the members of a result. The exact types are switched
// on, so that embedding one of them forges nothing.
func appendResult(w *objectWriter, v Version, method string, r Result) error {
	switch r := r.(type) {
	case *InputRequiredResult:
		if r == nil || !MultiRoundTrip(method) {
			return mismatch(r)
		}
		if v.Era() != Modern {
			return fmt.Errorf("revision %s has no input_required results", v)
		}
		appendInputRequired(w, r, v)
		return nil
	case *CallToolResult:
		if r == nil || method != MethodCallTool {
			return mismatch(r)
		}
		w.content("content", older(v, r.Content))
		// Legacy revisions know structured content that is an object only.
		if v.Era() == Modern || jsonx.KindOf(r.StructuredContent) == jsonx.Object {
			w.raw("structuredContent", r.StructuredContent)
		}
		w.flag("isError", r.IsError)
		w.object("_meta", r.Meta)
		return nil
	case *GetPromptResult:
		if r == nil || method != MethodGetPrompt {
			return mismatch(r)
		}
		w.optional("description", r.Description)
		w.promptMessages(olderMessages(v, r.Messages))
		w.object("_meta", r.Meta)
		return nil
	case *ReadResourceResult:
		if r == nil || method != MethodReadResource {
			return mismatch(r)
		}
		appendCacheable(w, v, r.Cache, "contents", orEmpty(r.Contents), "", r.Meta)
		return nil
	}
	return appendListResult(w, v, method, r)
}

func appendListResult(w *objectWriter, v Version, method string, r Result) error {
	switch r := r.(type) {
	case *ListToolsResult:
		if r == nil || method != MethodListTools {
			return mismatch(r)
		}
		if err := allComplete(r.Tools); err != nil {
			return fmt.Errorf("tools%w", err)
		}
		appendCacheable(w, v, r.Cache, "tools", spellTools(v, orEmpty(r.Tools)), r.NextCursor, r.Meta)
	case *ListPromptsResult:
		if r == nil || method != MethodListPrompts {
			return mismatch(r)
		}
		appendCacheable(w, v, r.Cache, "prompts", orEmpty(r.Prompts), r.NextCursor, r.Meta)
	case *ListResourcesResult:
		if r == nil || method != MethodListResources {
			return mismatch(r)
		}
		appendCacheable(w, v, r.Cache, "resources", orEmpty(r.Resources), r.NextCursor, r.Meta)
	case *ListResourceTemplatesResult:
		if r == nil || method != MethodListResourceTemplates {
			return mismatch(r)
		}
		appendCacheable(w, v, r.Cache, "resourceTemplates", orEmpty(r.ResourceTemplates), r.NextCursor, r.Meta)
	default:
		return appendOtherResult(w, v, method, r)
	}
	return nil
}

func appendOtherResult(w *objectWriter, v Version, method string, r Result) error {
	switch r := r.(type) {
	case *DiscoverResult:
		if r == nil || method != MethodDiscover {
			return mismatch(r)
		}
		w.value("supportedVersions", orEmpty(r.SupportedVersions))
		w.value("capabilities", r.Capabilities)
		w.optional("instructions", r.Instructions)
		if v.Era() == Modern {
			r.Cache.append(w)
		}
		w.object("_meta", r.Meta)
	case *CompleteResult:
		if r == nil || method != MethodComplete {
			return mismatch(r)
		}
		w.value("completion", completionWire{orEmpty(r.Values), r.Total, r.HasMore})
		w.object("_meta", r.Meta)
	case *ListenResult:
		if r == nil || method != MethodListen {
			return mismatch(r)
		}
		w.object("_meta", r.Meta)
	case *InitializeResult:
		if r == nil || method != MethodInitialize || v.Era() != Legacy {
			return mismatch(r)
		}
		r.append(w)
	case *EmptyResult:
		// Only methods without a result type of their own answer with nothing.
		if r == nil || !answersNothing(method) {
			return mismatch(r)
		}
		w.object("_meta", r.Meta)
	default:
		return fmt.Errorf("unknown result type %T", r)
	}
	return nil
}

// spellTools returns the definitions as version v may have them: legacy
// revisions know output schemas of objects only. The originals stay as they are.
func spellTools(v Version, tools []Tool) []Tool {
	if v.Era() == Modern {
		return tools
	}
	spelled := tools
	for i := range tools {
		if len(tools[i].OutputSchema) == 0 || describesObject(tools[i].OutputSchema) {
			continue
		}
		if &spelled[0] == &tools[0] {
			spelled = slices.Clone(tools)
		}
		spelled[i].OutputSchema = nil
	}
	return spelled
}

func describesObject(schema []byte) bool {
	object := false
	err := members(schema, func(key, value []byte) error {
		if string(key) == "type" {
			text, err := jsonx.TextBytes(value)
			object = err == nil && string(text) == "object"
		}
		return nil
	})
	return err == nil && object
}

// answersNothing reports whether method has no result of its own.
func answersNothing(method string) bool {
	switch method {
	case MethodPing, MethodSetLevel, MethodSubscribe, MethodUnsubscribe:
		return true
	}
	return newParams(method) == nil
}

type completionWire struct {
	Values  []string `json:"values"`
	Total   *int64   `json:"total,omitzero"`
	HasMore bool     `json:"hasMore,omitzero"`
}

func mismatch(r Result) error { return fmt.Errorf("nil or wrong result: %T", r) }

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// appendCacheable writes a list with its cursor, cache hints (modern only) and
// _meta.
func appendCacheable(w *objectWriter, v Version, cache CacheHints, name string, list any, cursor string, meta Meta) {
	w.value(name, list)
	w.optional("nextCursor", cursor)
	if v.Era() == Modern {
		cache.append(w)
	}
	w.object("_meta", meta)
}

// An UnknownResultTypeError reports a resultType that this package does not
// know. Such a result must not be used (basic/index, "ResultType").
type UnknownResultTypeError struct{ ResultType string }

// Error names the type.
func (e *UnknownResultTypeError) Error() string {
	return fmt.Sprintf("result: unknown resultType %s", clip(e.ResultType))
}

// DecodeResult reads a result to method in version v; it aliases data. The
// resultType member alone decides what it is: absent means complete, an
// unknown one is an [*UnknownResultTypeError], and a complete result that
// carries inputRequests is complete. Toward legacy revisions the member has no
// meaning. An input_required result is refused for methods that cannot have
// one, and when it carries neither questions nor state.
func DecodeResult(v Version, method string, data []byte) (Result, error) {
	if err := jsonx.Check(data); err != nil {
		return nil, fmt.Errorf("%s result: %w", method, err)
	}
	typ := ResultComplete
	err := jsonx.Members(data, func(key, value []byte) error {
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
	case ResultComplete:
		r, err = decodeComplete(method, data)
	case ResultInputRequired:
		if !MultiRoundTrip(method) {
			err = fmt.Errorf("input_required is not allowed here")
			break
		}
		r, err = decodeInputRequired(data)
	default:
		err = &UnknownResultTypeError{typ}
	}
	if err != nil {
		return nil, fmt.Errorf("%s result: %w", method, err)
	}
	return r, nil
}

func decodeComplete(method string, data []byte) (Result, error) {
	switch method {
	case MethodCallTool:
		return decodeCallTool(data)
	case MethodGetPrompt:
		return decodeGetPrompt(data)
	case MethodReadResource:
		r := &ReadResourceResult{}
		found := false
		err := decodeCacheable(data, &r.Cache, nil, &r.Meta, "contents", func(raw []byte) (err error) {
			found = true
			r.Contents, err = decodeResourceContents(raw)
			return err
		})
		if err == nil && !found {
			err = fmt.Errorf("contents: must be present")
		}
		return r, err
	case MethodListTools:
		r := &ListToolsResult{}
		return r, decodeList(data, &r.Cache, &r.NextCursor, &r.Meta, "tools", &r.Tools)
	case MethodListPrompts:
		r := &ListPromptsResult{}
		return r, decodeList(data, &r.Cache, &r.NextCursor, &r.Meta, "prompts", &r.Prompts)
	case MethodListResources:
		r := &ListResourcesResult{}
		return r, decodeList(data, &r.Cache, &r.NextCursor, &r.Meta, "resources", &r.Resources)
	case MethodListResourceTemplates:
		r := &ListResourceTemplatesResult{}
		return r, decodeList(data, &r.Cache, &r.NextCursor, &r.Meta, "resourceTemplates", &r.ResourceTemplates)
	case MethodDiscover:
		return decodeDiscover(data)
	case MethodComplete:
		return decodeCompletion(data)
	case MethodInitialize:
		return decodeInitialize(data)
	}
	var meta Meta
	err := decodeMeta(data, &meta)
	if method == MethodListen {
		return &ListenResult{Meta: meta}, err
	}
	return &EmptyResult{Meta: meta}, err
}

func decodeMeta(data []byte, meta *Meta) error {
	return jsonx.Members(data, func(key, value []byte) error {
		if string(key) == "_meta" {
			return objectMember(meta, key, value)
		}
		return nil
	})
}

func decodeCallTool(data []byte) (Result, error) {
	r := &CallToolResult{}
	content := false
	err := jsonx.Members(data, func(key, value []byte) (err error) {
		switch string(key) {
		case "content":
			content = true
			r.Content, err = decodeContents(value)
		case "structuredContent":
			r.StructuredContent = value
		case "isError":
			if r.IsError, err = jsonx.Boolean(value); err != nil {
				err = fmt.Errorf("isError: must be a boolean")
			}
		case "_meta":
			err = objectMember(&r.Meta, key, value)
		}
		return err
	})
	// An object that says nothing at all is no success. Servers in use leave
	// the blocks out where there is structured content.
	if err == nil && !content && r.StructuredContent == nil {
		err = fmt.Errorf("content: must be present")
	}
	return r, err
}

func decodeGetPrompt(data []byte) (Result, error) {
	r := &GetPromptResult{}
	err := jsonx.Members(data, func(key, value []byte) (err error) {
		switch string(key) {
		case "description":
			err = textMember(&r.Description, key, value)
		case "messages":
			r.Messages, err = decodePromptMessages(value)
		case "_meta":
			err = objectMember(&r.Meta, key, value)
		}
		return err
	})
	if err == nil && r.Messages == nil {
		err = fmt.Errorf("messages: must be present")
	}
	return r, err
}

func decodeDiscover(data []byte) (Result, error) {
	r := &DiscoverResult{}
	err := decodeCacheable(data, &r.Cache, nil, &r.Meta, "supportedVersions", func(raw []byte) error {
		return jsonx.Decode(raw, &r.SupportedVersions)
	})
	if err != nil {
		return nil, err
	}
	err = jsonx.Members(data, func(key, value []byte) error {
		switch string(key) {
		case "capabilities":
			return decodeMember(&r.Capabilities, key, value)
		case "instructions":
			return textMember(&r.Instructions, key, value)
		}
		return nil
	})
	if err == nil && len(r.SupportedVersions) == 0 {
		err = fmt.Errorf("supportedVersions: must be present")
	}
	return r, err
}

func decodeCompletion(data []byte) (Result, error) {
	r := &CompleteResult{}
	found := false
	err := jsonx.Members(data, func(key, value []byte) error {
		switch string(key) {
		case "completion":
			var c completionWire
			found = true
			err := decodeMember(&c, key, value)
			r.Values, r.Total, r.HasMore = c.Values, c.Total, c.HasMore
			return err
		case "_meta":
			return objectMember(&r.Meta, key, value)
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("completion: must be present")
	}
	return r, err
}

func decodeList[T any, P definition[T]](data []byte, cache *CacheHints, cursor *string, meta *Meta, name string, list *[]T) error {
	found := false
	err := decodeCacheable(data, cache, cursor, meta, name, func(raw []byte) error {
		found = true
		return decodeDefinitions[T, P](raw, list)
	})
	if err == nil && !found {
		return fmt.Errorf("%s: must be present", name)
	}
	return err
}

// decodeCacheable reads what all cacheable results share and hands the member
// called name to list. Hints of the wrong type count as absent: not cacheable
// is the safe reading.
func decodeCacheable(data []byte, cache *CacheHints, cursor *string, meta *Meta, name string, list func([]byte) error) error {
	return jsonx.Members(data, func(key, value []byte) error {
		switch string(key) {
		case name:
			if err := list(value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case "ttlMs":
			if ttl, err := jsonx.Int(value); err == nil {
				cache.TTLMillis = max(ttl, 0)
			}
		case "cacheScope":
			if scope, err := jsonx.Text(value); err == nil && CacheScope(scope) == CachePublic {
				cache.Scope = CachePublic
			} else {
				cache.Scope = CachePrivate
			}
		case "nextCursor":
			if cursor != nil {
				return textMember(cursor, key, value)
			}
		case "_meta":
			return objectMember(meta, key, value)
		}
		return nil
	})
}
