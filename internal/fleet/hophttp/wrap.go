package hophttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Wrap returns a handler of legacy requests before next, which makes the ids of its sessions
// itself. Clients get sealed ids in their place, so that no table is needed: the id that next
// made is inside. Requests for sessions of other replicas are passed on to them. maxBody bounds
// their bodies, in bytes, 0 or less: nothing does. o is told of hops, nil: nobody is. Where f is
// nil, next is returned.
func (f *Forwarder) Wrap(next http.Handler, maxBody int64, o event.Observer) http.Handler {
	if f == nil {
		return next
	}
	return &wrapper{forwarder: f, next: next, maxBody: maxBody, observer: o}
}

type wrapper struct {
	forwarder *Forwarder
	next      http.Handler
	maxBody   int64
	observer  event.Observer
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
	if isModern(body) {
		h.next.ServeHTTP(w, r)
		return
	}
	owner, inner, whose := h.forwarder.FindOwner(ids[0])
	switch {
	case len(ids) > 1 || whose == Nobody:
		writeError(w, http.StatusNotFound, body, errSessionGone())
	case whose == Own:
		own := r.Clone(r.Context())
		own.Header[HeaderSession] = []string{inner} // the id that next knows
		sealing.inner, sealing.id = inner, ids[0]
		h.next.ServeHTTP(sealing, own)
	case received != nil:
		writeError(w, http.StatusLoopDetected, body, ErrorMisdirected())
	default:
		h.forwardRequest(w, r, owner, body)
	}
}

// isModern reports whether a body is a request that names a revision in _meta: it belongs to
// no session, whatever its headers say.
func isModern(body []byte) bool {
	message, err := protocol.DecodeMessage(body)
	if err != nil {
		return false
	}
	request, ok := message.(*protocol.Request)
	return ok && revision.IsNamedIn(request.Params)
}

// readBody reads the body of a POST. Where it fails it has answered the request.
func (h *wrapper) readBody(w http.ResponseWriter, r *http.Request,
	received *Received) (body []byte, ok bool) {
	limited := r.Body
	if h.maxBody > 0 {
		limited = http.MaxBytesReader(w, r.Body, h.maxBody)
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

// forwardRequest passes a request on to its owner.
func (h *wrapper) forwardRequest(w http.ResponseWriter, r *http.Request, owner Owner,
	body []byte) {
	began := time.Now()
	result := h.forwarder.Forward(w, r, owner, body)
	e := NewEvent(r, owner, result, time.Since(began))
	if h.observer != nil {
		h.observer.Observe(r.Context(), e)
	}
	switch {
	case result.Broken || result.Status == 0 && errors.Is(r.Context().Err(), context.Canceled):
		panic(http.ErrAbortHandler) // an empty response would mean success
	case result.Status != 0:
	case e.Outcome == event.ForwardGone:
		writeError(w, http.StatusNotFound, body, errSessionGone())
	case e.Outcome == event.ForwardUnknown:
		writeError(w, http.StatusBadGateway, body, ErrorOutcomeUnknown())
	default:
		w.Header().Set("Retry-After", "2")
		writeError(w, http.StatusServiceUnavailable, body, protocol.Errorf(
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

// NewEvent returns the event of a hop.
func NewEvent(r *http.Request, owner Owner, result Result,
	took time.Duration) event.RequestForwarded {
	e := event.RequestForwarded{
		Owner: owner.Name, Outcome: event.ForwardAbandoned, HTTPMethod: r.Method,
		Status: result.Status, RemoteAddr: r.RemoteAddr, Duration: took, Err: result.Err,
	}
	switch {
	case result.Status != 0:
		e.Outcome = event.ForwardAnswered
	case errors.Is(r.Context().Err(), context.Canceled): // the client is gone
	case errors.Is(result.Err, ErrOwnerGone):
		e.Outcome = event.ForwardGone
	case errors.Is(result.Err, ErrOutcomeUnknown):
		e.Outcome = event.ForwardUnknown
	case errors.Is(result.Err, ErrUnreachable):
		e.Outcome = event.ForwardUnreachable
	}
	return e
}

// writeError writes a JSON-RPC error with the id of the request in body.
func writeError(w http.ResponseWriter, status int, body []byte, e *protocol.Error) {
	response := &protocol.Response{Error: e}
	if message, err := protocol.DecodeMessage(body); err == nil {
		if request, ok := message.(*protocol.Request); ok {
			response.ID = request.ID
		}
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
	if own == "" {
		return
	}
	if own != w.inner {
		var err error
		if w.id, err = w.forwarder.SealSession(own); err != nil {
			header.Del(HeaderSession) // longer than any SDK makes them: nobody could use it
			return
		}
	}
	header[HeaderSession] = []string{w.id}
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
