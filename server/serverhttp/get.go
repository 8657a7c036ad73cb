package serverhttp

import (
	"errors"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/replay"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// other answers HTTP methods beside POST, which legacy clients use for streams
// and to end their sessions.
func (h *Handler) other(x *exchange, r *http.Request, p roundtrip.Principal) {
	served := r.Method == http.MethodGet || r.Method == http.MethodDelete
	lines := r.Header[headerVersion]
	if !h.hasSessions() || !served || modernOnly(lines) {
		x.fail(h.wrongMethod(lines))
		return
	}
	if eraOf("", lines) == protocol.Modern {
		x.fail(&fault{status: http.StatusBadRequest, reason: roundtrip.RefusedVersion,
			err: protocol.UnsupportedVersion(trim(first(lines)), supported())})
		return
	}
	if r.Method == http.MethodGet {
		h.get(x, r, p)
		return
	}
	h.remove(x, r, p)
}

// remove ends a session.
func (h *Handler) remove(x *exchange, r *http.Request, p roundtrip.Principal) {
	s, f := h.session(r.Header[headerSession], p)
	if f != nil {
		x.fail(f)
		return
	}
	defer h.sessions.release(s)
	if !h.sessions.remove(s) {
		x.fail(sessionGone())
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// modernOnly reports whether a version header names a revision in which POST is
// the only method.
func modernOnly(lines []string) bool {
	v := protocol.Version(trim(first(lines)))
	return len(lines) == 1 && v.Known() && v.Era() == protocol.Modern
}

// hasSessions reports whether there are legacy sessions, which need other methods
// beside POST.
func (h *Handler) hasSessions() bool { return h.legacy && !h.opts.StatelessLegacy }

// methods lists the methods of the endpoint as headers do.
func (h *Handler) methods() string {
	if h.hasSessions() {
		return "GET, POST, DELETE"
	}
	return http.MethodPost
}

func (h *Handler) wrongMethod(lines []string) *fault {
	f := &fault{status: http.StatusMethodNotAllowed, reason: roundtrip.RefusedHTTPMethod, header: "Allow", value: http.MethodPost,
		err: protocol.Errorf(protocol.CodeInvalidRequest, "this endpoint takes POST only")}
	if !modernOnly(lines) && h.hasSessions() {
		f.value = h.methods()
		f.err = protocol.Errorf(protocol.CodeInvalidRequest, "this endpoint takes GET, POST and DELETE only")
	}
	return f
}

// get opens a GET stream, or resumes any stream of the session
// (basic/transports, "Resumability and Redelivery").
func (h *Handler) get(x *exchange, r *http.Request, p roundtrip.Principal) {
	if !acceptsEvents(r.Header["Accept"]) {
		x.fail(&fault{status: http.StatusNotAcceptable, reason: roundtrip.RefusedAccept,
			err: protocol.Errorf(protocol.CodeInvalidRequest, "Accept header must admit %s", typeEvents)})
		return
	}
	s, f := h.session(r.Header[headerSession], p)
	if f != nil {
		x.fail(f)
		return
	}
	defer h.sessions.release(s)
	c := newConnection(x)
	var err error
	if last := r.Header[headerLastEvent]; len(last) > 0 {
		c.resumed = true
		err = s.log.Resume(first(last), c.reader)
	} else if h.sessions.isClosed() || closed(h.srv.Done()) {
		x.fail(shuttingDown())
		return
	} else {
		err = s.log.Listen(c.reader)
	}
	switch {
	case err == nil:
		if c.reader.IsListener() {
			c.closing = h.srv.Done()
		}
		c.run(r.Context())
	case errors.Is(err, replay.ErrUnknownEvent):
		// Not 404, which would tell the client that its session is gone.
		f := badRequest(roundtrip.RefusedEventID,
			"invalid request: Last-Event-ID: not an event of this session, or what followed it is not kept any more")
		f.cause = errors.New("Last-Event-ID names no event of this session, or what followed it is not kept any more " +
			"(serverhttp.Options.MaxSessionBytes, MaxEventBytes)")
		x.fail(f)
	default:
		x.fail(sessionGone())
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
