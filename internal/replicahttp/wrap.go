package replicahttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/recent"
	"github.com/rondo-mcp/rondo/internal/replica"
	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// WrapOptions configure [Forwarder.Wrap].
type WrapOptions struct {
	// MaxBody bounds the body of a request that is passed on, in bytes; 0 or less: nothing
	// does.
	MaxBody int64
	// Observer is told of hops, nil: nobody is.
	Observer event.Observer
	// ForwardAnswer passes on answers to questions, nil: they are passed on as all requests
	// are, and wait for their owner.
	ForwardAnswer ForwardAnswer
}

// Wrap returns a handler of legacy requests before next, which makes the ids of its sessions
// itself. Clients get sealed ids in their place, so that no table is needed: the id that next
// made is inside. Requests for sessions of other replicas are passed on to them.
func (f *Forwarder) Wrap(next http.Handler, o WrapOptions) http.Handler {
	return &wrapper{forwarder: f, next: next, opts: o,
		attempts: recent.New[attemptKey, *takenAnswer](maxAttempts, 0)}
}

type wrapper struct {
	forwarder *Forwarder
	next      http.Handler
	opts      WrapOptions

	mu       sync.Mutex // guards attempts
	attempts *recent.Map[attemptKey, *takenAnswer]
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
	ids := r.Header[HeaderSession]
	if len(ids) == 0 {
		h.next.ServeHTTP(h.sealIDs(w, "", ""), r)
		return
	}
	var body []byte
	if r.Method == http.MethodPost && r.Body != nil {
		var ok bool
		if body, ok = h.readBody(w, r, received); !ok {
			return
		}
	}
	if isModern(body) {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		h.next.ServeHTTP(w, r)
		return
	}
	owner, inner, whose := h.forwarder.FindOwner(ids[0])
	switch {
	case len(ids) > 1 || whose == Nobody:
		writeError(w, http.StatusNotFound, body, errSessionGone())
	case whose == Own && attempt != "":
		h.serveOnce(w, r, attemptKey{inner, attempt}, func(w http.ResponseWriter) {
			h.serveOwn(w, r, ids[0], inner, body)
		})
	case whose == Own:
		h.serveOwn(w, r, ids[0], inner, body)
	case received != nil:
		writeError(w, http.StatusLoopDetected, body, protocol.Errorf(protocol.CodeInternalError,
			"the request was passed on once already, and the replica that it was passed on to "+
				"does not own the session"))
	case h.opts.ForwardAnswer != nil && isAnswer(body):
		h.forwardAnswer(w, r, owner, body)
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

// serveOwn serves a request for a session of this replica under the id that next knows.
func (h *wrapper) serveOwn(w http.ResponseWriter, r *http.Request, id, inner string,
	body []byte) {
	own := r.Clone(r.Context())
	own.Header[HeaderSession] = []string{inner}
	if r.Method == http.MethodPost && r.Body != nil {
		own.Body, own.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	h.next.ServeHTTP(h.sealIDs(w, inner, id), own)
}

// forwardRequest passes a request on to its owner.
func (h *wrapper) forwardRequest(w http.ResponseWriter, r *http.Request, owner replica.Owner,
	body []byte) {
	began := time.Now()
	var result Result
	h.forwarder.Forward(w, r, owner, body, func(got Result) {
		result = got
		h.observeHop(r, owner, got, time.Since(began))
	})
	if result.Status == 0 {
		h.writeFailure(w, r, body, result.Err)
	}
}

func (h *wrapper) observeHop(r *http.Request, owner replica.Owner, got Result,
	took time.Duration) {
	if h.opts.Observer != nil {
		h.opts.Observer.Observe(r.Context(), NewEvent(r, owner, got, took))
	}
}

// writeFailure answers a request that was not passed on, or to which the owner did not respond.
func (h *wrapper) writeFailure(w http.ResponseWriter, r *http.Request, body []byte,
	failure error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client is gone; an empty response would mean success
	}
	status, e := http.StatusServiceUnavailable, protocol.Errorf(protocol.CodeInternalError,
		"the replica that serves this session cannot be reached, and has not received the request")
	switch {
	case errors.Is(failure, ErrOwnerGone):
		status, e = http.StatusNotFound, errSessionGone()
	case errors.Is(failure, ErrOutcomeUnknown):
		status, e = http.StatusBadGateway, ErrorOutcomeUnknown()
	default:
		w.Header().Set("Retry-After", "2")
	}
	writeError(w, status, body, e)
}

// ErrorOutcomeUnknown is what a client gets whose request the owner may have received.
func ErrorOutcomeUnknown() *protocol.Error {
	return protocol.Errorf(protocol.CodeInternalError, "outcome unknown: the replica that serves "+
		"this session did not answer; what was requested may have been done")
}

func errSessionGone() *protocol.Error {
	return &protocol.Error{Code: -32001, Message: "Session not found"}
}

// NewEvent returns the event of a hop.
func NewEvent(r *http.Request, owner replica.Owner, result Result,
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

// sealIDs returns a response writer that puts sealed ids in the place of those of next.
// inner is known to have been sealed as id. It can flush if w can.
func (h *wrapper) sealIDs(w http.ResponseWriter, inner, id string) http.ResponseWriter {
	sealing := &sealingWriter{ResponseWriter: w, forwarder: h.forwarder, inner: inner, id: id}
	if _, ok := w.(http.Flusher); ok {
		return flushingWriter{sealing}
	}
	return sealing
}

type sealingWriter struct {
	http.ResponseWriter
	forwarder *Forwarder
	inner, id string
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
		id, err := w.forwarder.SealSession(own)
		if err != nil { // longer than any SDK makes them: a session that nobody could use
			header.Del(HeaderSession)
			return
		}
		w.id = id
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

// Unwrap serves [http.ResponseController].
func (w *sealingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type flushingWriter struct{ *sealingWriter }

// Flush implements [http.Flusher].
func (w flushingWriter) Flush() {
	w.sealHeader()
	w.ResponseWriter.(http.Flusher).Flush()
}

// AnswerChallenges returns a handler that answers challenges of other replicas and leaves all
// else to next. It goes around what would refuse a request without credentials.
func (f *Forwarder) AnswerChallenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.AnswerChallenge(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}
