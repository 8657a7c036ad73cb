package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// refusals are the errors that take the place of those of mcp-go in the responses of one HTTP
// request or of one connection over lines, by the id of the client's request as JSON. mcp-go
// sends every error of a handler as -32603 with its text. It reports the error to a hook
// right before it writes the response.
type refusals struct {
	mu   sync.Mutex
	byID map[string]*protocol.Error
	asks *questionIDs // of the gateway
}

// maxRefusals bounds the refusals of a connection whose responses are not written.
const maxRefusals = 1000

// refusalsKey is the context key of the refusals of requests to a Downstream.
type refusalsKey struct{ clients *Downstream }

func (d *Downstream) withRefusals(ctx context.Context) (context.Context, *refusals) {
	r := &refusals{byID: make(map[string]*protocol.Error), asks: &d.asks}
	return context.WithValue(ctx, refusalsKey{d}, r), r
}

// recordRefusal is the hook for errors of handlers. The context of a request within the process
// may be derived from that of another request, whose response is not this one's.
func (d *Downstream) recordRefusal(ctx context.Context, id any, _ mcp.MCPMethod, _ any,
	err error) {
	r, _ := ctx.Value(refusalsKey{d}).(*refusals)
	if !d.writesFor(ctx) {
		return
	}
	wire := wireOf(err)
	if wire == nil {
		return
	}
	key, err := json.Marshal(mcp.NewRequestId(id))
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) < maxRefusals {
		r.byID[string(key)] = wire
	}
}

// writesFor reports whether what mcp-go writes to the client of a request passes through rewrite.
func (d *Downstream) writesFor(ctx context.Context) bool {
	_, wrapped := ctx.Value(refusalsKey{d}).(*refusals)
	_, here := server.ClientSessionFromContext(ctx).(*server.InProcessSession)
	return wrapped && !here
}

// wireOf returns the error of the router or of the upstream that a handler has returned, nil
// for all others: those that the host makes are sent as mcp-go sends them.
func wireOf(err error) *protocol.Error {
	if refused, ok := errors.AsType[*elicitation.Error](err); ok {
		return refused.Wire
	}
	if e, ok := errors.AsType[*upstreamError](err); ok {
		return e.wire
	}
	return nil
}

// An upstreamError is the error that the upstream has answered a call with.
type upstreamError struct {
	wire  *protocol.Error
	cause error // mcp-go's
}

// Error returns the upstream's message.
func (e *upstreamError) Error() string { return e.wire.Message }

// Unwrap returns the error that mcp-go makes of it.
func (e *upstreamError) Unwrap() error { return e.cause }

// rewrite returns message, a response of mcp-go's, with the error that takes the place of its
// own, nil if it is to be sent as it is.
func (r *refusals) rewrite(message []byte) []byte {
	if bytes.Contains(message, []byte(metaQuestion)) {
		return r.asks.unmark(message)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) == 0 {
		return nil
	}
	var response struct {
		ID    json.RawMessage
		Error json.RawMessage
	}
	// The bytes are mcp-go's own and not a peer's, so that lenient decoding is safe.
	if json.Unmarshal(message, &response) != nil || response.Error == nil {
		return nil
	}
	wire := r.byID[string(response.ID)]
	if wire == nil {
		return nil
	}
	delete(r.byID, string(response.ID))
	out, err := jsonx.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{mcp.JSONRPC_VERSION, response.ID, struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}{wire.Code, wire.Message, wire.Data}})
	if err != nil {
		return nil
	}
	return out
}

// A refusalWriter is the response writer of a request. mcp-go writes a JSON body, and each
// event of a stream, at once.
type refusalWriter struct {
	http.ResponseWriter
	refusals *refusals
}

// newRefusalWriter returns a writer that is an http.Flusher if and only if w is: mcp-go sends
// streams only where it can flush.
func newRefusalWriter(w http.ResponseWriter, r *refusals) http.ResponseWriter {
	writer := refusalWriter{w, r}
	if flusher, ok := w.(http.Flusher); ok {
		return flushingWriter{writer, flusher}
	}
	return writer
}

type flushingWriter struct {
	refusalWriter
	http.Flusher
}

// Unwrap serves [http.ResponseController].
func (w refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes a JSON body or an event.
func (w refusalWriter) Write(p []byte) (int, error) {
	start := 0
	if i := bytes.Index(p, []byte("data: ")); i == 0 || i > 0 && p[i-1] == '\n' {
		start = i + len("data: ") // of an event; JSON that is encoded has no end of a line
	}
	end := len(bytes.TrimRight(p, "\n"))
	if start >= end {
		return w.ResponseWriter.Write(p)
	}
	message := w.refusals.rewrite(p[start:end])
	if message == nil {
		return w.ResponseWriter.Write(p)
	}
	whole := bytes.Join([][]byte{p[:start], message, p[end:]}, nil)
	if _, err := w.ResponseWriter.Write(whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Listen serves s, a server of the same MCPServer, on a pair of streams, usually os.Stdin and
// os.Stdout, until in ends or ctx does. It takes the place of s.Listen, and sends errors of the
// router with their code and data. Unlike server.ServeStdio it does not handle signals.
func (d *Downstream) Listen(ctx context.Context, s *server.StdioServer, in io.Reader,
	out io.Writer) error {
	ctx, r := d.withRefusals(ctx)
	return s.Listen(ctx, in, refusalLines{out, r})
}

// refusalLines writes the lines of a connection. mcp-go writes each with one call.
type refusalLines struct {
	out      io.Writer
	refusals *refusals
}

// Write writes one line.
func (w refusalLines) Write(p []byte) (int, error) {
	message := w.refusals.rewrite(p)
	if message == nil {
		return w.out.Write(p)
	}
	if _, err := w.out.Write(append(message, '\n')); err != nil {
		return 0, err
	}
	return len(p), nil
}
