package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/wire/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Handler wraps the HTTP handler that serves a server, usually a
// *server.StreamableHTTPServer with whatever options, and installs the adapter on that.
// Authentication goes around the result. Handler sends errors with the code and, outside of event
// streams, the status that the protocol requires, lets resources ask, keeps the order of questions,
// and decodes requests strictly. Requests of older revisions pass unchanged, except that their
// length is limited. While one waits for a person its client gets progress, and questions with URLs
// that must not be opened are not sent. The same holds for streams that a client opens with GET.
//
// A client that accepts one of the two media types alone gets responses of that type. Of a call
// that is answered with JSON alone nothing but the response is sent, and in a session its questions
// go out on the client's open GET stream. Without one the call is refused with the reason before
// anybody is asked. A
// panic outside of the handlers of tools, prompts and resources, such as that of a hook, is
// answered with an internal error.
//
// Of a handler of another type Handler does not know the server. Such a handler may build one
// for each request; call [Adapter.Install] with it. Until a server is installed, calls that
// could ask are refused with an error that says so.
//
// Handler returns a *server.SSEServer as it is: that serves older revisions only, and
// responds on another connection than the request's.
func (a *Adapter) Handler(next http.Handler) http.Handler {
	if _, ok := next.(*server.SSEServer); ok {
		return next
	}
	h := &httpHandler{adapter: a, next: next, server: findServer(next),
		keepsEvents: keepsEvents(next), idleTTL: findIdleTTL(next)}
	if h.server != nil {
		a.ensureInstalled(h.server)
	}
	here := a.endpoint.Wrap(h, false)
	forwarding := a.forwarder.Wrap(here,
		hophttp.WrapOptions{MaxBody: int64(a.opts.MaxMessageBytes), Observer: a.opts.Observer})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
			here.ServeHTTP(w, r)
			return
		}
		forwarding.ServeHTTP(w, r)
	})
}

// AnswerChallenges returns a handler that answers the challenges by which other replicas
// make sure of this one, and leaves all else to next. It goes around the handler that
// authenticates, which goes around [Adapter.Handler].
func (a *Adapter) AnswerChallenges(next http.Handler) http.Handler {
	return a.forwarder.AnswerChallenges(next)
}

// httpHandler serves the requests of this process.
type httpHandler struct {
	adapter *Adapter
	next    http.Handler
	server  *server.MCPServer // that next serves, nil: unknown
	// keepsEvents means that next may store events for older revisions.
	keepsEvents bool
	idleTTL     time.Duration // after which next sweeps sessions, 0: never, or unknown
}

// ServeHTTP serves one request.
func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && r.Body != nil:
		h.servePost(w, r)
	case r.Method == http.MethodGet && r.Header.Get(server.HeaderKeySessionID) != "",
		r.Method == http.MethodDelete:
		out := h.newResponse(w, r)
		defer out.stopNotifications()
		defer out.answerPanic()
		h.next.ServeHTTP(out.withFlusher(), r)
		out.sendHeld()
	default:
		h.next.ServeHTTP(w, r)
	}
}

func (h *httpHandler) servePost(w http.ResponseWriter, r *http.Request) {
	a := h.adapter
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(a.opts.MaxMessageBytes)))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		a.writeRefusal(w, r, refusal{http.StatusRequestEntityTooLarge, event.RefusedTooLarge,
			[]byte("null"), newTooLongError(a.opts.MaxMessageBytes)})
		return
	}
	if err != nil {
		a.writeRefusal(w, r, refusal{http.StatusBadRequest, event.RefusedMalformed,
			[]byte("null"),
			protocol.Errorf(protocol.CodeParseError, "the body could not be read")})
		return
	}
	clean, id, refused := cleanMessage(body, r.Header.Get(mcp.HeaderProtocolVersion))
	if refused != nil {
		a.writeRefusal(w, r, refusal{http.StatusBadRequest, event.RefusedMalformed, id,
			refused})
		return
	}
	out := h.newResponse(w, r)
	out.request = body
	ctx := withRewriter(r.Context(), out.rewriter)
	if h.server == nil && !a.used.Load() && protocol.MultiRoundTrip(decodeHead(body).Method) {
		ctx, out.endUninstalled = context.WithCancel(ctx)
		defer out.endUninstalled()
	}
	leg := r.WithContext(ctx)
	leg.Body, leg.ContentLength = io.NopCloser(bytes.NewReader(clean)), int64(len(clean))
	out.hold = decodeHead(clean).Method == protocol.MethodInitialize
	defer out.stopNotifications()
	defer out.answerPanic()
	defer h.keepSession(r)()
	h.next.ServeHTTP(out.withFlusher(), leg)
	out.sendHeld()
}

// newResponse returns the response writer for the request r.
func (h *httpHandler) newResponse(w http.ResponseWriter, r *http.Request) *response {
	out := &response{ResponseWriter: w, adapter: h.adapter, ctx: r.Context()}
	out.modern = mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	out.storesNothing = out.modern || !h.keepsEvents
	out.rewriter = &rewriter{adapter: h.adapter, session: r.Header.Get(server.HeaderKeySessionID),
		header: r.Header, notifier: out}
	out.rewriter.answerQuestion = func(id json.RawMessage, e *protocol.Error) {
		go answerQuestion(h.next, r, id, e)
	}
	return out
}

// messageHead is what a failure needs of a client's message.
type messageHead struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// decodeHead decodes as leniently as mcp-go. The id is "null" where there is none.
func decodeHead(message []byte) messageHead {
	var head messageHead
	if json.Unmarshal(message, &head) != nil || len(head.ID) == 0 {
		head.ID = json.RawMessage("null")
	}
	return head
}

// answerQuestion answers a question of mcp-go that is not sent to the client. It serves a
// request with the answer as the client would, since mcp-go has no other way to unblock
// the handler that asked.
func answerQuestion(next http.Handler, r *http.Request, id json.RawMessage, e *protocol.Error) {
	serveInPlaceOfClient(next, r, encodeErrorResponse(id, e))
}

// serveInPlaceOfClient serves a message in the session of the request r.
func serveInPlaceOfClient(next http.Handler, r *http.Request, body []byte) {
	defer func() { _ = recover() }() // middleware between the adapter and mcp-go may panic
	answer := r.Clone(context.WithoutCancel(r.Context()))
	answer.Method, answer.Body, answer.ContentLength = http.MethodPost,
		io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Type", "application/json")
	next.ServeHTTP(discardResponse{http.Header{}}, answer)
}

// discardResponse is a response writer that discards everything.
type discardResponse struct{ header http.Header }

func (d discardResponse) Header() http.Header       { return d.header }
func (discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (discardResponse) WriteHeader(int)             {}

// response is the response writer of one request. It passes a response through, and
// buffers one that may have to be rewritten. Like every http.ResponseWriter it is used by
// one goroutine at a time, except for the methods of notifier.
type response struct {
	http.ResponseWriter
	adapter  *Adapter
	ctx      context.Context // of the request, for the observer
	request  []byte          // the client's message, nil: none
	rewriter *rewriter
	modern   bool
	status   int          // 0 until WriteHeader was called
	body     bytes.Buffer // buffered: a JSON body, or an event that is not complete
	// hold keeps a response that is no event stream until mcp-go's handler has returned. That
	// of initialize is: mcp-go registers the session after it has written the response, and
	// a client that is fast would get a second one, where no answer finds its question.
	hold    bool
	foreign bool // an event stream in another format than mcp-go's
	sent    bool // the status and header were sent
	// storesNothing means that the events of the response are known not to be stored.
	storesNothing bool
	// endUninstalled ends the context of a request that is refused if no server is installed
	// when its response begins: a handler may wait for the answer to a question. Nil: a server
	// is installed, or the request cannot ask.
	endUninstalled context.CancelFunc

	mu     sync.Mutex // held during writes to the ResponseWriter
	closed bool       // the adapter has answered in mcp-go's place
	events bool       // an event stream is being sent, and notifications may be
	wrote  bool       // an event of mcp-go's was written
	stored bool       // the events have ids: mcp-go stores them for redelivery
}

// withFlusher returns a response writer that is an http.Flusher if and only if the wrapped
// one is: mcp-go sends event streams only where it can flush.
func (w *response) withFlusher() http.ResponseWriter {
	if _, ok := w.ResponseWriter.(http.Flusher); ok {
		return flushableResponse{w}
	}
	return w
}

type flushableResponse struct{ *response }

// Flush flushes what was written through.
func (w flushableResponse) Flush() {
	if w.sent {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.closed {
			w.ResponseWriter.(http.Flusher).Flush()
		}
	}
}

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) isEventStream() bool {
	return w.Header().Get("Content-Type") == "text/event-stream"
}

// WriteHeader delays the status and header where the body may still change them.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.endUninstalled != nil && !w.adapter.used.Load() {
		w.refuse(errNotInstalled)
		w.endUninstalled()
		return
	}
	if w.rewriter.isIdle() && !w.hold || w.isEventStream() {
		w.sendHead(status)
	}
}

func (w *response) sendHead(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.sent = true
	w.events = status == http.StatusOK && w.isEventStream()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes each complete event of a stream, and buffers any other body that may have
// to be rewritten.
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
	if bytes.IndexByte(p, '\r') >= 0 { // mcp-go ends lines with a newline alone
		w.stopNotifications()
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
	if w.closed {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// dataPrefix begins the line of an event that is its message.
const dataPrefix = "data: "

// writeEvent writes one event, whose data mcp-go writes on one line.
func (w *response) writeEvent(e []byte) error {
	w.mu.Lock()
	w.wrote = true
	w.stored = w.stored || bytes.HasPrefix(e, []byte("id: "))
	w.mu.Unlock()
	at := 0
	if !bytes.HasPrefix(e, []byte(dataPrefix)) {
		if at = bytes.Index(e, []byte("\n"+dataPrefix)) + 1; at == 0 { // a comment
			_, err := w.writeThrough(e)
			return err
		}
	}
	at += len(dataPrefix)
	data, rest, _ := bytes.Cut(e[at:], []byte("\n"))
	err := w.adapter.writeMessage(w.ctx, w.rewriter, data, func(message []byte) error {
		out := make([]byte, 0, len(e)+len(message)-len(data))
		out = append(append(append(append(out, e[:at]...), message...), '\n'), rest...)
		_, err := w.writeThrough(out)
		return err
	})
	if _, refused := protocol.AsError(err); refused {
		return nil // the question was answered in the client's place
	}
	return err
}

// writeNotification writes an event without an id, so that it is not redelivered.
func (w *response) writeNotification(message []byte, over *atomic.Bool) bool {
	flusher, ok := w.ResponseWriter.(http.Flusher)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok || !w.events || over.Load() {
		return false
	}
	if _, err := w.ResponseWriter.Write(encodeEvent(message)); err != nil {
		return false // the call finds out, too
	}
	flusher.Flush()
	return true
}

func (w *response) redelivers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored
}

// hasWrittenEvents reports whether the response is an event stream that mcp-go does not
// store.
func (w *response) hasWrittenEvents() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events && w.wrote && !w.stored
}

// stopNotifications refuses notifications of the adapter's from now on.
func (w *response) stopNotifications() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = false
}

// sendHeld sends what is buffered, rewritten where that was expected.
func (w *response) sendHeld() {
	w.stopNotifications()
	if w.status == 0 {
		return
	}
	if w.sent {
		if w.body.Len() > 0 {
			_, _ = w.writeThrough(w.body.Bytes())
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
	_, _ = w.writeThrough(append(append([]byte(nil), message...), '\n'))
}

// refuse answers in mcp-go's place with a mistake in the use of the adapter.
func (w *response) refuse(mistake error) {
	head := decodeHead(w.request)
	w.adapter.reportEvent(w.ctx, event.ServerBug{Where: event.Where{Method: head.Method},
		Err: mistake})
	w.sendError(head.ID, protocol.Errorf(protocol.CodeInternalError, "%s", mistake))
}

// answerPanic is deferred around mcp-go, which over HTTP recovers no panic of hooks, of
// completion handlers and of filters. It answers the request with an internal error.
func (w *response) answerPanic() {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // how a handler closes the connection without an answer
	}
	head := decodeHead(w.request)
	w.adapter.reportEvent(w.ctx, event.HandlerPanicked{
		Where: event.Where{Method: head.Method}, Value: v, Stack: debug.Stack()})
	w.sendError(head.ID, revision.InternalError())
}

// sendError answers with an error, and discards all that mcp-go still writes: one of its
// goroutines may be left after a panic.
func (w *response) sendError(id json.RawMessage, e *protocol.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	message := encodeErrorResponse(id, e)
	switch {
	case !w.sent:
		w.sent = true
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Type", "application/json")
		w.ResponseWriter.WriteHeader(http.StatusInternalServerError)
		_, _ = w.ResponseWriter.Write(append(message, '\n'))
	case w.events:
		_, _ = w.ResponseWriter.Write(encodeEvent(message))
	}
	w.events = false
}

// encodeEvent returns the event of a message, without an id.
func encodeEvent(message []byte) []byte {
	return append(append([]byte("event: message\ndata: "), message...), "\n\n"...)
}
