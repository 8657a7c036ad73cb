package serverhttp

import (
	"errors"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/wire/replay"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// serveOtherMethod serves GET, which opens streams, and DELETE, which ends sessions.
func (h *Handler) serveOtherMethod(rw *responseWriter, r *http.Request, p protocol.Principal) {
	served := r.Method == http.MethodGet || r.Method == http.MethodDelete
	lines := r.Header[headerVersion]
	if !h.hasSessions() || !served || modernOnly(lines) {
		rw.refuseRequest(h.methodNotAllowed(lines))
		return
	}
	if rules.EraOf(false, lines) == protocol.Modern {
		rw.refuseRequest(&fault{status: http.StatusBadRequest, reason: words.RefusedVersion,
			err: protocol.UnsupportedVersion(trimSpace(firstLine(lines)), rules.ModernRevisions())})
		return
	}
	if r.Method == http.MethodGet {
		h.serveGet(rw, r, p)
		return
	}
	h.serveDelete(rw, r, p)
}

func (h *Handler) serveDelete(rw *responseWriter, r *http.Request, p protocol.Principal) {
	s := h.findOrForward(rw, r, p, &legacyPost{})
	if s == nil {
		return
	}
	defer h.sessions.releaseSession(s)
	if !h.sessions.removeSession(s) {
		rw.refuseRequest(sessionGoneFault())
		return
	}
	rw.w.WriteHeader(http.StatusNoContent)
}

// modernOnly reports whether a version header names a revision that allows only POST.
func modernOnly(lines []string) bool {
	v := protocol.Version(trimSpace(firstLine(lines)))
	return len(lines) == 1 && v.Known() && v.Era() == protocol.Modern
}

// hasSessions reports whether legacy sessions, and so their HTTP methods, are served.
func (h *Handler) hasSessions() bool { return h.legacy && !h.opts.StatelessLegacy }

func (h *Handler) allowedMethods() string {
	if h.hasSessions() {
		return "GET, POST, DELETE"
	}
	return http.MethodPost
}

func (h *Handler) methodNotAllowed(lines []string) *fault {
	f := &fault{status: http.StatusMethodNotAllowed, reason: words.RefusedHTTPMethod,
		header: "Allow", value: http.MethodPost,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "this endpoint accepts only POST")}
	if !modernOnly(lines) && h.hasSessions() {
		f.value = h.allowedMethods()
		f.err = protocol.Errorf(protocol.CodeInvalidRequest,
			"this endpoint accepts only GET, POST and DELETE")
	}
	return f
}

// serveGet opens a GET stream, or resumes any stream of the session (basic/transports,
// "Resumability and Redelivery").
func (h *Handler) serveGet(rw *responseWriter, r *http.Request, p protocol.Principal) {
	if _, events := acceptedForms(r.Header["Accept"]); !events {
		rw.refuseRequest(notAcceptable(protocol.ID{}, typeEvents))
		return
	}
	s := h.findOrForward(rw, r, p, &legacyPost{})
	if s == nil {
		return
	}
	defer h.sessions.releaseSession(s)
	c := newStreamWriter(rw)
	var err error
	if last := r.Header[headerLastEvent]; len(last) > 0 {
		c.resumed = true
		err = s.log.Resume(firstLine(last), &c.reader)
	} else if _, ended := h.sessions.refusesNew(); ended || isClosed(h.srv.Done()) {
		rw.refuseRequest(shutdownFault())
		return
	} else {
		err = s.log.Listen(&c.reader)
	}
	switch {
	case err == nil:
		if c.reader.IsListener() {
			c.closing = h.srv.Done()
		}
		c.sendAll(r.Context())
	case errors.Is(err, replay.ErrUnknownEvent):
		// 404 would tell the client that its session is gone.
		f := badRequestFault(words.RefusedEventID,
			"invalid request: Last-Event-ID: not an event of this session, or later events have "+
				"been evicted")
		f.cause = errors.New("Last-Event-ID names no event of this session, or later events " +
			"have been evicted (limits: 1 MiB a session, 64 MiB in total)")
		rw.refuseRequest(f)
	default:
		rw.refuseRequest(sessionGoneFault())
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
