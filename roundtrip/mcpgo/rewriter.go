package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A rewriter replaces responses of mcp-go that the middleware cannot make exact: errors
// with another code, and questions. One belongs to each HTTP request, or stream of lines.
// The middleware finds it in the request's context and registers a replacement under a
// marker, a text that mcp-go's response will contain; the writer of the bytes looks for
// markers and replaces the responses.
type rewriter struct {
	adapter  *Adapter    // whose it is
	session  string      // the id of the client's session, empty: none
	header   http.Header // of the client's request, nil: none
	notifier notifier    // nil: nothing can be sent before the response
	// answerQuestion answers a question of mcp-go's in the client's place. Nil: the error
	// of the write unblocks the handler that asked.
	answerQuestion func(id json.RawMessage, e *protocol.Error)

	mu           sync.Mutex
	replacements map[string]replacement // by marker
	order        []string               // of markers, the oldest first
}

// replacement is what a response has instead: an error or a result.
type replacement struct {
	err    *protocol.Error
	result json.RawMessage // where err is nil
}

// maxReplacements bounds the replacements of a stream: middleware may drop responses, and
// their replacements would be kept for ever.
const maxReplacements = 1024

type rewriterKey struct{}

func withRewriter(ctx context.Context, w *rewriter) context.Context {
	return context.WithValue(ctx, rewriterKey{}, w)
}

// rewriterFrom returns nil without a rewriter. Within the process there is none: the context
// of a call may descend from that of a request over HTTP, which has another response.
func rewriterFrom(ctx context.Context) *rewriter {
	if _, ok := server.ClientSessionFromContext(ctx).(*server.InProcessSession); ok {
		return nil
	}
	w, _ := ctx.Value(rewriterKey{}).(*rewriter)
	return w
}

// expectMarker registers the replacement of the response in which text appears.
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

// isIdle reports whether no replacement is registered.
func (w *rewriter) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.replacements) == 0
}

// takeReplacement removes and returns the replacement of the response with this text.
func (w *rewriter) takeReplacement(text string) (replacement, bool) {
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

// rewriteResponse returns the message to be sent, unchanged where it has no replacement,
// and the error that it now has, if any.
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
	// The bytes are mcp-go's own and not a peer's, so that lenient decoding is safe.
	if json.Unmarshal(message, &response) != nil || len(response.ID) == 0 {
		return message, nil
	}
	text := findMarker(response.Error.Message)
	if state, ok := response.Result.State.(string); ok && text == "" {
		text = state
	}
	r, expected := w.takeReplacement(text)
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

// encodeErrorResponse returns a response with an error; id is JSON.
func encodeErrorResponse(id json.RawMessage, e *protocol.Error) []byte {
	raw, err := jsonx.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, newErrorObject(e)})
	if err != nil {
		return encodeErrorResponse(id,
			&protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"})
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
