package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A rewriter is what one HTTP request, or one stream of lines, has to say in
// another way than mcp-go would. The middleware leaves it here, in the request's
// context, and whoever writes the bytes finds it.
type rewriter struct {
	session    string          // whose client is at the other end, empty: nobody's
	heartbeats heartbeatWriter // nil: nothing is sent before the answer
	// answerQuestion answers a question of mcp-go's in the client's place. Nil: whoever
	// asks learns of the refusal from writing it.
	answerQuestion func(id json.RawMessage, e *protocol.Error)

	mu           sync.Mutex
	replacements map[string]replacement // by a text that stands in the response of mcp-go
	order        []string
}

// replacement is what a response is to carry instead.
type replacement struct {
	err    *protocol.Error
	result json.RawMessage // where err is nil
}

// maxReplacements bounds what waits to be said on a stream: a response that never
// leaves, because middleware between dropped it, is not waited for for ever.
const maxReplacements = 1024

type rewriterKey struct{}

func withRewriter(ctx context.Context, w *rewriter) context.Context {
	return context.WithValue(ctx, rewriterKey{}, w)
}

func rewriterFrom(ctx context.Context) *rewriter {
	w, _ := ctx.Value(rewriterKey{}).(*rewriter)
	return w
}

// expectMarker notes what the response in which text appears is to carry.
func (w *rewriter) expectMarker(text string, r replacement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replacements == nil {
		w.replacements = map[string]replacement{}
	}
	if len(w.order) >= maxReplacements {
		delete(w.replacements, w.order[0])
		w.order = w.order[1:]
	}
	if _, twice := w.replacements[text]; !twice {
		w.order = append(w.order, text)
	}
	w.replacements[text] = r
}

// isIdle reports whether nothing waits to be said.
func (w *rewriter) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.replacements) == 0
}

// takeReply finds what was expected of a response with this text.
func (w *rewriter) takeReply(text string) (replacement, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.replacements[text]
	if ok {
		delete(w.replacements, text)
		for i, t := range w.order {
			if t == text {
				w.order = append(w.order[:i:i], w.order[i+1:]...)
				break
			}
		}
	}
	return r, ok
}

// rewriteResponse returns the message as it is to leave, itself where nothing was
// expected of it, and the error that it now carries, if any.
func (w *rewriter) rewriteResponse(message []byte) ([]byte, *protocol.Error) {
	if w.isIdle() {
		return message, nil
	}
	var response struct {
		ID     json.RawMessage `json:"id"`
		Result struct {
			Meta  json.RawMessage `json:"_meta"`
			State any             `json:"requestState"`
		} `json:"result"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	// mcp-go's own bytes, and not a peer's.
	if json.Unmarshal(message, &response) != nil || len(response.ID) == 0 {
		return message, nil
	}
	text := findMarker(response.Error.Message)
	if state, ok := response.Result.State.(string); ok && text == "" {
		text = state
	}
	r, expected := w.takeReply(text)
	switch {
	case text == "" || !expected:
		return message, nil
	case r.err != nil:
		return encodeErrorResponse(response.ID, r.err), r.err
	}
	out := append([]byte(`{"jsonrpc":"2.0","id":`), response.ID...)
	out = append(append(out, `,"result":`...), bytes.TrimSuffix(r.result, []byte("}"))...)
	if len(response.Result.Meta) > 0 {
		out = append(append(out, `,"_meta":`...), response.Result.Meta...)
	}
	return append(out, "}}"...), nil
}

// findMarker returns the marker at the end of an error's text, empty if none.
func findMarker(text string) string {
	rest, ok := strings.CutSuffix(text, "]")
	i := strings.LastIndexByte(rest, '[')
	if !ok || i < 0 {
		return ""
	}
	return rest[i+1:]
}

// encodeErrorResponse spells an error; id is JSON.
func encodeErrorResponse(id json.RawMessage, e *protocol.Error) []byte {
	raw, err := jsonx.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, newErrorObject(e)})
	if err != nil {
		return encodeErrorResponse(id, &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"})
	}
	return raw
}

func newErrorObject(e *protocol.Error) any {
	return struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{e.Code, e.Message, e.Data}
}
