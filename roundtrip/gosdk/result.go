package gosdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// encodeResult converts the funnel's result to the one that the SDK sends: questions, the
// handler's own complete result, or a result that the funnel made.
func (c *call) encodeResult(result protocol.Result) (mcp.Result, error) {
	if asks, ok := result.(*protocol.InputRequiredResult); ok {
		return c.encodeAsks(asks)
	}
	if c.complete == nil || result != c.placeholder && !c.isOwnFailure(result) {
		return c.encodeFunnelResult(result)
	}
	complete := c.complete
	if c.shadowVersion() != "" {
		var err error
		if complete, err = withResultType(complete,
			c.Version.Era() == protocol.Modern); err != nil {
			return nil, encodeError(err)
		}
	}
	if r, ok := complete.(*mcp.ReadResourceResult); ok {
		return c.limitCaching(r)
	}
	return complete, nil
}

// isOwnFailure reports whether the funnel made result of the error of a typed tool. The
// SDK has made a result of it, too, and that one is sent, as without the adapter.
func (c *call) isOwnFailure(result protocol.Result) bool {
	r, ok := result.(*protocol.CallToolResult)
	if !ok || c.toolError == nil || !r.IsError || len(r.Content) != 1 {
		return false
	}
	text, ok := r.Content[0].(*protocol.TextContent)
	return ok && text.Text == c.toolError.Error()
}

// limitCaching forbids clients to cache a resource for which something was asked: it may
// depend on the answer. Legacy revisions have no cache hints at all.
func (c *call) limitCaching(r *mcp.ReadResourceResult) (mcp.Result, error) {
	if c.usedAnswer() {
		once := *r
		once.CacheScope, once.TTLMs = "private", 0
		r = &once
	}
	if c.adapter.opts.ExactWire && c.Version.Era() == protocol.Legacy {
		return withoutCacheHints(r)
	}
	return r, nil
}

// usedAnswer reports whether anything was asked in the flow that led to the result. A state
// that the SDK has decoded is empty where there is none.
func (c *call) usedAnswer() bool {
	state, _ := c.State.Text()
	return state != "" || c.askedByPush.Load()
}

// encodeAsks returns the result with the funnel's questions, in the SDK's types or as the
// JSON text to be sent.
func (c *call) encodeAsks(asks *protocol.InputRequiredResult) (mcp.Result, error) {
	result, err := c.newAskingResult(asks)
	// The SDK's result of resources/read always has cache hints, which a result with
	// questions must not have.
	if err == nil && (c.adapter.opts.ExactWire || c.method == protocol.MethodReadResource) {
		text, err := protocol.EncodeResult(c.Version, c.method, asks)
		if err == nil {
			return &exactResult{result, text}, nil
		}
	}
	if err != nil {
		return nil, encodeError(fmt.Errorf("questions: %w", err))
	}
	return result, nil
}

// The result type is an unexported field of the SDK's results, which only decoding sets.
const (
	askingToolJSON     = `{"resultType":"input_required","content":[]}`
	askingPromptJSON   = `{"resultType":"input_required","messages":[]}`
	askingResourceJSON = `{"resultType":"input_required","contents":[]}`
)

// newAskingResult returns the SDK's result that has questions.
func (c *call) newAskingResult(asks *protocol.InputRequiredResult) (mcp.Result, error) {
	requests, err := encodeQuestions(c.Version, asks.InputRequests)
	if err != nil {
		return nil, err
	}
	var meta mcp.Meta
	if err := decodeMeta(&meta, asks.Meta); err != nil {
		return nil, err
	}
	state, _ := asks.RequestState.Text()
	switch c.method {
	case protocol.MethodCallTool:
		r := &mcp.CallToolResult{}
		err := json.Unmarshal([]byte(askingToolJSON), r)
		r.InputRequests, r.RequestState, r.Meta = requests, state, meta
		return r, err
	case protocol.MethodGetPrompt:
		r := &mcp.GetPromptResult{}
		err := json.Unmarshal([]byte(askingPromptJSON), r)
		r.InputRequests, r.RequestState, r.Meta = requests, state, meta
		return r, err
	}
	r := &mcp.ReadResourceResult{}
	err = json.Unmarshal([]byte(askingResourceJSON), r)
	r.InputRequests, r.RequestState, r.Meta = requests, state, meta
	return r, err
}

// withResultType returns a copy of a complete result with the result type of the
// client's revision. The SDK has set that of the shadow session.
func withResultType(result mcp.Result, modern bool) (mcp.Result, error) {
	stamps, err := legacyStamps()
	if modern {
		stamps, err = modernStamps()
	}
	if err != nil {
		return nil, encodeError(err)
	}
	switch r := result.(type) {
	case *mcp.CallToolResult:
		c := stamps.tool
		if copyExportedFields(&c, r); r.GetError() != nil {
			c.SetError(r.GetError())
		}
		return &c, nil
	case *mcp.GetPromptResult:
		c := stamps.prompt
		copyExportedFields(&c, r)
		return &c, nil
	case *mcp.ReadResourceResult:
		c := stamps.resource
		copyExportedFields(&c, r)
		return &c, nil
	}
	return result, nil
}

// stampedResults are results that have nothing but a result type. The SDK does not export
// the field that holds it, and sets it when it decodes.
type stampedResults struct {
	tool     mcp.CallToolResult
	prompt   mcp.GetPromptResult
	resource mcp.ReadResourceResult
}

var (
	legacyStamps = sync.OnceValues(func() (stampedResults, error) { return decodeStamps(`{}`) })
	modernStamps = sync.OnceValues(func() (stampedResults, error) {
		return decodeStamps(`{"resultType":"complete"}`)
	})
)

func decodeStamps(text string) (s stampedResults, err error) {
	err = errors.Join(json.Unmarshal([]byte(text), &s.tool),
		json.Unmarshal([]byte(text), &s.prompt), json.Unmarshal([]byte(text), &s.resource))
	return s, err
}

// copyExportedFields copies the exported fields of a struct, and leaves the others.
func copyExportedFields[T any](to, from *T) {
	src, dst := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range src.NumField() {
		if field := dst.Field(i); field.CanSet() {
			field.Set(src.Field(i))
		}
	}
}

// encodeFunnelResult converts a result that the funnel made, such as a refusal, or that a
// guard has recorded.
func (c *call) encodeFunnelResult(result protocol.Result) (mcp.Result, error) {
	text, err := protocol.EncodeResult(c.Version, c.method, result)
	if err != nil {
		return nil, encodeError(err)
	}
	var r mcp.Result
	switch c.method {
	case protocol.MethodCallTool:
		r = &mcp.CallToolResult{}
	case protocol.MethodGetPrompt:
		r = &mcp.GetPromptResult{}
	default:
		r = &mcp.ReadResourceResult{}
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, encodeError(err)
	}
	return r, nil
}

// exactResult is a result with its JSON text. It embeds the SDK's result because
// mcp.Result has unexported methods.
type exactResult struct {
	mcp.Result
	text json.RawMessage
}

// MarshalJSON returns the text, with the _meta of the embedded result: the SDK adds the
// server's name to it.
func (r *exactResult) MarshalJSON() ([]byte, error) { return replaceMeta(r.text, r.GetMeta()) }

// replaceMeta replaces the _meta of an encoded result.
func replaceMeta(text json.RawMessage, meta map[string]any) ([]byte, error) {
	if len(meta) == 0 {
		return text, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	var err error
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// withoutCacheHints returns a result without the members that legacy revisions lack.
func withoutCacheHints(result mcp.Result) (mcp.Result, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	delete(members, "ttlMs")
	delete(members, "cacheScope")
	if text, err = json.Marshal(members); err != nil {
		return nil, err
	}
	return &exactResult{result, text}, nil
}
