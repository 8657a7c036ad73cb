package hophttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/wire/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// WrapOptions configure [Forwarder.Wrap].
type WrapOptions struct {
	MaxBody  int64          // bytes of a request that is passed on; 0 or less: any number
	Observer event.Observer // is told of hops; nil: nobody is
	// ForwardAnswer passes on answers to questions; nil: they are passed on as requests are,
	// and wait for their owner.
	ForwardAnswer ForwardAnswer
}

// Wrap returns a handler of legacy requests before next, which makes the ids of its sessions
// itself. Clients get sealed ids in their place, so that no table is needed: the id that next
// made is inside. Requests for sessions of other replicas are passed on to them. Where f is nil
// next is returned.
func (f *Forwarder) Wrap(next http.Handler, o WrapOptions) http.Handler {
	if f == nil {
		return next
	}
	return &wrapper{forwarder: f, next: next, opts: o,
		attempts: recent.New[string, *sessionAttempts](maxAttemptSessions, 0)}
}

type wrapper struct {
	forwarder *Forwarder
	next      http.Handler
	opts      WrapOptions

	mu       sync.Mutex                            // guards attempts
	attempts *recent.Map[string, *sessionAttempts] // by session
}

// ServeHTTP serves one request, or passes it on.
func (h *wrapper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.forwarder.AnswerChallenge(w, r) {
		return
	}
	received, refused := h.forwarder.Receive(w, r)
	if refused {
		return
	}
	attempt := takeAttempt(r, received)
	sealing := &sealingWriter{ResponseWriter: w, forwarder: h.forwarder}
	ids := r.Header[HeaderSession]
	if len(ids) == 0 {
		h.next.ServeHTTP(sealing, r)
		return
	}
	var body []byte
	if r.Method == http.MethodPost && r.Body != nil {
		var ok bool
		if body, ok = h.readBody(w, r, received); !ok {
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	message, _ := protocol.DecodeMessage(body)
	request, _ := message.(*protocol.Request)
	_, isAnswer := message.(*protocol.Response)
	if request != nil && revision.IsNamedIn(request.Params) {
		h.next.ServeHTTP(w, r) // it belongs to no session, whatever its headers say
		return
	}
	owner, inner := h.forwarder.FindOwner(ids[0])
	switch self := h.forwarder.self; {
	case len(ids) > 1 || owner.Name == "" || owner.Name == self.Name && owner != self:
		writeError(w, http.StatusNotFound, request, errSessionGone())
	case owner == self:
		own := r.Clone(r.Context())
		own.Header[HeaderSession] = []string{inner} // the id that next knows
		sealing.inner, sealing.id = inner, ids[0]
		h.serveOnce(sealing, own, inner, attempt)
	case received != nil:
		writeError(w, http.StatusLoopDetected, request, ErrorMisdirected())
	case isAnswer && h.opts.ForwardAnswer != nil:
		h.forwardAnswer(w, r, owner, body)
	default:
		h.forwardRequest(w, r, owner, body, request)
	}
}

// readBody reads the body of a POST. Where it fails it has answered the request.
func (h *wrapper) readBody(w http.ResponseWriter, r *http.Request,
	received *Received) (body []byte, ok bool) {
	limited := r.Body
	if h.opts.MaxBody > 0 {
		limited = http.MaxBytesReader(w, r.Body, h.opts.MaxBody)
	}
	body, err := io.ReadAll(limited)
	switch _, long := errors.AsType[*http.MaxBytesError](err); {
	case long:
		http.Error(w, "the request body is too large", http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, "the request body cannot be read", http.StatusBadRequest)
	case received != nil && !received.IsBody(body):
		http.Error(w, "the request body was changed between two replicas", http.StatusBadRequest)
	default:
		return body, true
	}
	return nil, false
}

// forwardRequest passes a request on to its owner. request is what the body holds, nil: none.
func (h *wrapper) forwardRequest(w http.ResponseWriter, r *http.Request, owner Owner,
	body []byte, request *protocol.Request) {
	e, broken := h.forward(w, r, owner, body)
	switch {
	case broken || e.Status == 0 && errors.Is(r.Context().Err(), context.Canceled):
		panic(http.ErrAbortHandler) // an empty response would mean success
	case e.Status == 0:
		writeFailure(w, request, e.Outcome)
	}
}

// forward is [Forwarder.Forward] with the observer.
func (h *wrapper) forward(w http.ResponseWriter, r *http.Request, owner Owner, body []byte) (
	e event.RequestForwarded, broken bool) {
	e, broken = h.forwarder.Forward(w, r, owner, body, 0)
	if h.opts.Observer != nil {
		h.opts.Observer.Observe(r.Context(), e)
	}
	return e, broken
}

// writeFailure answers a request to which the owner has not responded.
func writeFailure(w http.ResponseWriter, request *protocol.Request,
	outcome event.ForwardOutcome) {
	switch outcome {
	case event.ForwardGone:
		writeError(w, http.StatusNotFound, request, errSessionGone())
	case event.ForwardUnknown:
		writeError(w, http.StatusBadGateway, request, ErrorOutcomeUnknown())
	default:
		w.Header().Set("Retry-After", "2")
		writeError(w, http.StatusServiceUnavailable, request, protocol.Errorf(
			protocol.CodeInternalError, "the replica that serves this session cannot be reached, "+
				"and has not received the request"))
	}
}

// ErrorOutcomeUnknown is what a client gets whose request the owner may have received.
func ErrorOutcomeUnknown() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "outcome unknown: the replica that serves "+
		"this session did not answer; what was requested may have been done")
}

// ErrorMisdirected is what a client gets whose request another replica passed on to this one,
// which does not own the session.
func ErrorMisdirected() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "the request was passed on once already, "+
		"and the replica that it was passed on to does not own the session")
}

func errSessionGone() *protocol.Error {
	return &protocol.Error{Code: -32001, Message: "Session not found"}
}

// writeError writes a JSON-RPC error, with the id of the request if there is one.
func writeError(w http.ResponseWriter, status int, request *protocol.Request,
	e *protocol.Error) {
	response := &protocol.Response{Error: e}
	if request != nil {
		response.ID = request.ID
	}
	text, err := protocol.AppendMessage(nil, response)
	if err != nil {
		http.Error(w, e.Message, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// A sealingWriter puts sealed ids in the place of those of the handler that writes to it.
type sealingWriter struct {
	http.ResponseWriter
	forwarder *Forwarder
	inner, id string // an id that is sealed already, and its token
	begun     bool
}

// sealHeader replaces the id in the header, which is written next. Only the first call
// does.
func (w *sealingWriter) sealHeader() {
	if w.begun {
		return
	}
	w.begun = true
	header := w.Header()
	own := header.Get(HeaderSession)
	switch {
	case own == "":
	case own == w.inner:
		header[HeaderSession] = []string{w.id}
	case len(own) > maxField: // longer than any SDK makes them: nobody could use the session
		header.Del(HeaderSession)
	default:
		header[HeaderSession] = []string{w.forwarder.SealSession(own)}
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *sealingWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.sealHeader()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *sealingWriter) Write(p []byte) (int, error) {
	w.sealHeader()
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher].
func (w *sealingWriter) Flush() {
	w.sealHeader()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap serves [http.ResponseController].
func (w *sealingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
