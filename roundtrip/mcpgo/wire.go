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

// A wire is what one HTTP request, or one stream of lines, has to say in
// another way than mcp-go would. The middleware leaves it here, in the request's
// context, and whoever writes the bytes finds it.
type wire struct {
	session string          // whose client is at the other end, empty: nobody's
	out     heartbeatWriter // nil: nothing is sent before the answer
	// answer answers a question of mcp-go's in the client's place. Nil: whoever
	// asks learns of the refusal from writing it.
	answer func(id json.RawMessage, e *protocol.Error)

	mu      sync.Mutex
	replies map[string]reply // by a text that stands in the response of mcp-go
	order   []string
}

// reply is what a response is to carry instead.
type reply struct {
	err    *protocol.Error
	result json.RawMessage // where err is nil
}

// maxReplies bounds what waits to be said on a stream: a response that never
// leaves, because middleware between dropped it, is not waited for for ever.
const maxReplies = 1024

type wireKey struct{}

func withWire(ctx context.Context, w *wire) context.Context {
	return context.WithValue(ctx, wireKey{}, w)
}

func wireFrom(ctx context.Context) *wire {
	w, _ := ctx.Value(wireKey{}).(*wire)
	return w
}

// expect notes what the response in which text appears is to carry.
func (w *wire) expect(text string, r reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.replies == nil {
		w.replies = map[string]reply{}
	}
	if len(w.order) >= maxReplies {
		delete(w.replies, w.order[0])
		w.order = w.order[1:]
	}
	if _, twice := w.replies[text]; !twice {
		w.order = append(w.order, text)
	}
	w.replies[text] = r
}

// idle reports whether nothing waits to be said.
func (w *wire) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.replies) == 0
}

// take finds what was expected of a response with this text.
func (w *wire) take(text string) (reply, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.replies[text]
	if ok {
		delete(w.replies, text)
		for i, t := range w.order {
			if t == text {
				w.order = append(w.order[:i:i], w.order[i+1:]...)
				break
			}
		}
	}
	return r, ok
}

// rewrite returns the message as it is to leave, itself where nothing was
// expected of it, and the error that it now carries, if any.
func (w *wire) rewrite(message []byte) ([]byte, *protocol.Error) {
	if w.idle() {
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
	text := markerOf(response.Error.Message)
	if state, ok := response.Result.State.(string); ok && text == "" {
		text = state
	}
	r, expected := w.take(text)
	switch {
	case text == "" || !expected:
		return message, nil
	case r.err != nil:
		return errorResponse(response.ID, r.err), r.err
	}
	out := append([]byte(`{"jsonrpc":"2.0","id":`), response.ID...)
	out = append(append(out, `,"result":`...), bytes.TrimSuffix(r.result, []byte("}"))...)
	if len(response.Result.Meta) > 0 {
		out = append(append(out, `,"_meta":`...), response.Result.Meta...)
	}
	return append(out, "}}"...), nil
}

// markerOf returns the marker at the end of an error's text, empty if none.
func markerOf(text string) string {
	rest, ok := strings.CutSuffix(text, "]")
	i := strings.LastIndexByte(rest, '[')
	if !ok || i < 0 {
		return ""
	}
	return rest[i+1:]
}

// errorResponse spells an error; id is JSON.
func errorResponse(id json.RawMessage, e *protocol.Error) []byte {
	raw, err := jsonx.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, errorObject(e)})
	if err != nil {
		return errorResponse(id, &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"})
	}
	return raw
}

func errorObject(e *protocol.Error) any {
	return struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{e.Code, e.Message, e.Data}
}
