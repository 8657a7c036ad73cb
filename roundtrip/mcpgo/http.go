package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Handler wraps the HTTP handler that serves the server, usually a
// *server.StreamableHTTPServer, and whatever authenticates outside of it may
// wrap the result. It gives errors the code and, outside of event streams, the
// status that the protocol demands, lets resources ask, sends questions in the
// order in which they were put, and reads requests strictly. Requests of older
// revisions pass unchanged, but for the limit on their length; while they wait for
// a person their clients hear so, and no question leaves with a URL that nobody
// may be sent to. Streams that a client listens on are served likewise. Nothing is done
// to a *server.SSEServer: it speaks older revisions only, and its responses do
// not answer the requests they belong to.
func (a *Adapter) Handler(next http.Handler) http.Handler {
	if _, ok := next.(*server.SSEServer); ok {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.Body != nil:
			a.servePost(next, w, r)
		case r.Method == http.MethodGet && r.Header.Get(server.HeaderKeySessionID) != "":
			out := a.newResponse(next, w, r)
			defer out.stopHeartbeats()
			next.ServeHTTP(out.withFlusher(), r)
			out.sendHeld()
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (a *Adapter) servePost(next http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(a.opts.MaxMessageBytes)))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		a.writeRefusal(w, r, refusal{http.StatusRequestEntityTooLarge, roundtrip.RefusedTooLarge, []byte("null"), newTooLongError(a.opts.MaxMessageBytes)})
		return
	}
	if err != nil {
		a.writeRefusal(w, r, refusal{http.StatusBadRequest, roundtrip.RefusedMalformed, []byte("null"),
			protocol.Errorf(protocol.CodeParseError, "the body could not be read")})
		return
	}
	clean, id, refused := cleanMessage(body, r.Header.Get(mcp.HeaderProtocolVersion))
	if refused != nil {
		a.writeRefusal(w, r, refusal{http.StatusBadRequest, roundtrip.RefusedMalformed, id, refused})
		return
	}
	out := a.newResponse(next, w, r)
	leg := r.WithContext(withRewriter(r.Context(), out.rewriter))
	leg.Body, leg.ContentLength = io.NopCloser(bytes.NewReader(clean)), int64(len(clean))
	defer out.stopHeartbeats()
	next.ServeHTTP(out.withFlusher(), leg)
	out.sendHeld()
}

// newResponse returns what the request r is answered on.
func (a *Adapter) newResponse(next http.Handler, w http.ResponseWriter, r *http.Request) *response {
	out := &response{ResponseWriter: w, adapter: a, ctx: r.Context()}
	out.modern = mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	out.rewriter = &rewriter{session: r.Header.Get(server.HeaderKeySessionID), heartbeats: out}
	out.rewriter.answerQuestion = func(id json.RawMessage, e *protocol.Error) { go answerQuestion(next, r, id, e) }
	return out
}

// answerQuestion answers a question of mcp-go's that must not leave, as its
// client would: with a message of its session. It is the one way to whoever
// waits for the answer.
func answerQuestion(next http.Handler, r *http.Request, id json.RawMessage, e *protocol.Error) {
	defer func() { _ = recover() }() // of what is between the adapter and mcp-go
	answer := r.Clone(context.WithoutCancel(r.Context()))
	body := encodeErrorResponse(id, e)
	answer.Method, answer.Body, answer.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Type", "application/json")
	next.ServeHTTP(discardResponse{http.Header{}}, answer)
}

// discardResponse is a response that nobody reads.
type discardResponse struct{ header http.Header }

func (d discardResponse) Header() http.Header       { return d.header }
func (discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (discardResponse) WriteHeader(int)             {}

// response passes a response on, and holds one back that has to be changed. Like
// any ResponseWriter it is for one goroutine at a time, but for heartbeats.
type response struct {
	http.ResponseWriter
	adapter  *Adapter
	ctx      context.Context // of the request, for what is observed
	rewriter *rewriter
	modern   bool
	status   int          // 0 until the head is written
	body     bytes.Buffer // what is held back: a JSON body, or the beginning of an event
	foreign  bool         // an event stream that mcp-go does not write
	sent     bool         // the head has gone out

	mu     sync.Mutex // held while something is sent
	events bool       // an event stream is being sent
}

// withFlusher returns the response with exactly the abilities of what it wraps:
// mcp-go streams only where it can flush.
func (w *response) withFlusher() http.ResponseWriter {
	if _, ok := w.ResponseWriter.(http.Flusher); ok {
		return flushableResponse{w}
	}
	return w
}

type flushableResponse struct{ *response }

// Flush sends what is not held back.
func (w flushableResponse) Flush() {
	if w.sent {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ResponseWriter.(http.Flusher).Flush()
	}
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) isEventStream() bool {
	return w.Header().Get("Content-Type") == "text/event-stream"
}

// WriteHeader keeps the head back where the body may still change it.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.rewriter.isIdle() || w.isEventStream() {
		w.sendHead(status)
	}
}

func (w *response) sendHead(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = true
	w.events = status == http.StatusOK && w.isEventStream()
	w.ResponseWriter.WriteHeader(status)
}

// Write passes events on as they are complete, and collects any other body that
// may have to be changed.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	stream := w.isEventStream()
	if w.foreign || w.sent && !stream {
		return w.writeThrough(p)
	}
	w.body.Write(p)
	if !w.sent {
		return len(p), nil
	}
	if bytes.IndexByte(p, '\r') >= 0 { // mcp-go's lines end otherwise
		w.stopHeartbeats()
		w.foreign = true
		_, err := w.writeThrough(w.body.Next(w.body.Len()))
		return len(p), err
	}
	for {
		end := bytes.Index(w.body.Bytes(), []byte("\n\n"))
		if end < 0 {
			return len(p), nil
		}
		if err := w.writeEvent(w.body.Next(end + 2)); err != nil {
			return 0, err
		}
	}
}

func (w *response) writeThrough(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// dataPrefix begins the line of an event that is its message.
const dataPrefix = "data: "

// writeEvent sends one event. mcp-go keeps its data on one line.
func (w *response) writeEvent(event []byte) error {
	at := 0
	if !bytes.HasPrefix(event, []byte(dataPrefix)) {
		if at = bytes.Index(event, []byte("\n"+dataPrefix)) + 1; at == 0 { // a comment
			_, err := w.writeThrough(event)
			return err
		}
	}
	at += len(dataPrefix)
	data, rest, _ := bytes.Cut(event[at:], []byte("\n"))
	err := w.adapter.writeMessage(w.ctx, w.rewriter, data, func(message []byte) error {
		out := make([]byte, 0, len(event)+len(message)-len(data))
		out = append(append(append(append(out, event[:at]...), message...), '\n'), rest...)
		_, err := w.writeThrough(out)
		return err
	})
	if _, refused := protocol.AsError(err); refused {
		return nil // whoever asked has been told
	}
	return err
}

// writeHeartbeat writes an event that has no id, so that none is kept for a
// client that comes back.
func (w *response) writeHeartbeat(message []byte, over *atomic.Bool) {
	flusher, ok := w.ResponseWriter.(http.Flusher)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || !w.events || over.Load() {
		return
	}
	event := append(append([]byte("event: message\ndata: "), message...), "\n\n"...)
	if _, err := w.ResponseWriter.Write(event); err == nil { // a client that is gone finds out by itself
		flusher.Flush()
	}
}

// stopHeartbeats lets no more heartbeats out.
func (w *response) stopHeartbeats() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = false
}

// sendHeld sends what was held back.
func (w *response) sendHeld() {
	w.stopHeartbeats()
	if w.status == 0 {
		return
	}
	if w.sent {
		if w.body.Len() > 0 {
			_, _ = w.ResponseWriter.Write(w.body.Bytes())
		}
		return
	}
	message := bytes.TrimRight(w.body.Bytes(), "\n")
	message, said := w.rewriter.rewriteResponse(message)
	if said != nil && w.modern && said.Code == protocol.CodeMissingRequiredClientCapability {
		w.status = http.StatusBadRequest
	}
	w.Header().Del("Content-Length")
	w.sendHead(w.status)
	_, _ = w.ResponseWriter.Write(append(append([]byte(nil), message...), '\n'))
}
