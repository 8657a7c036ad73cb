package serverhttp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/wire/replay"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	headerSession   = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
)

// A legacyPost is the body of one legacy POST: one message, or a batch of several.
type legacyPost struct {
	requests []*protocol.Request
	others   []protocol.Message   // notifications and responses
	broken   []*protocol.Response // responses to invalid elements
	batch    bool
	fault    *fault // of an unreadable answer, which is an error in others; may be nil
	body     []byte // for forwarding
}

func (d *legacyPost) addMessage(m protocol.Message, err error) {
	if err != nil {
		f := undecodableMessage(m, err)
		switch m := m.(type) {
		case *protocol.Response:
			m.Error = f.err
			d.others = append(d.others, m)
			d.broken = append(d.broken, &protocol.Response{ID: f.id, Error: f.err})
		case *protocol.Notification: // not answered
		default:
			d.broken = append(d.broken, &protocol.Response{ID: f.id, Error: f.err})
		}
		return
	}
	if request, ok := m.(*protocol.Request); ok {
		d.requests = append(d.requests, request)
		return
	}
	d.others = append(d.others, m)
}

// serveBatch answers a batch. An invalid element gets its own error response.
func (h *Handler) serveBatch(rw *responseWriter, r *http.Request, p protocol.Principal,
	body []byte) {
	texts, _, err := protocol.DecodeBatch(body)
	if err != nil {
		rw.refuseRequest(undecodableMessage(nil, err))
		return
	}
	d := &legacyPost{batch: true, body: body}
	for _, text := range texts {
		d.addMessage(protocol.DecodeMessage(text))
	}
	h.serveLegacyPost(rw, r, p, d)
}

func singlePost(m protocol.Message, body []byte) *legacyPost {
	d := &legacyPost{body: body}
	d.addMessage(m, nil)
	return d
}

// isLegacy reports whether neither the header nor the parameters name a modern revision.
func (h *Handler) isLegacy(header http.Header, m protocol.Message) bool {
	if !h.legacy || rules.EraOf(false, header[headerVersion]) == protocol.Modern {
		return false
	}
	var params []byte
	switch m := m.(type) {
	case *protocol.Request:
		params = m.Params
	case *protocol.Notification:
		params = m.Params
	}
	return !rules.NamesRevision(params)
}

// refuseLegacyRequest returns the error of a server without legacy revisions, with the supported
// versions (basic/versioning, "Backward Compatibility").
func refuseLegacyRequest(header http.Header, method string, params []byte) *protocol.Error {
	requested := trimSpace(header.Get(headerVersion))
	if method == protocol.MethodInitialize {
		if text, ok := textMember(params, "protocolVersion"); ok {
			requested = text
		}
	} else if requested == "" {
		return protocol.Errorf(protocol.CodeHeaderMismatch, "MCP-Protocol-Version header is "+
			"missing; this server supports %v", rules.ModernRevisions())
	}
	return protocol.UnsupportedVersion(requested, rules.ModernRevisions())
}

// serveLegacyPost answers a POST of the legacy era.
//
//	headers that contradict the body ──────→ 400
//	stateless ─────────────────────────────→ each request for itself
//	initialize, no open session ───────────→ a session
//	no session id ─────────────────────────→ 400
//	session id ────┬ another replica's ────→ passed on
//	               ├ not the client's ─────→ 404
//	               ├ requests ─────────────→ JSON or events
//	               └ none ─────────────────→ 202
func (h *Handler) serveLegacyPost(rw *responseWriter, r *http.Request, p protocol.Principal,
	d *legacyPost) {
	if f := checkGivenHeaders(r.Header, d); f != nil {
		rw.refuseRequest(f)
		return
	}
	if h.opts.StatelessLegacy {
		h.serveStatelessPost(rw, r, p, d)
		return
	}
	if !d.batch && len(d.requests) == 1 && d.requests[0].Method == protocol.MethodInitialize &&
		h.mayOpenSession(r.Header[headerSession], p) {
		h.serveInitialize(rw, r, p, d.requests[0])
		return
	}
	s := h.findOrForward(rw, r, p, d)
	if s == nil {
		return
	}
	defer h.sessions.releaseSession(s)
	if d.batch && s.core.Version() != protocol.V20250326 {
		rw.refuseRequest(batchNotAllowed(s.core.Version()))
		return
	}
	for _, m := range d.others {
		switch m := m.(type) {
		case *protocol.Response: // also to a withdrawn question
			s.core.Deliver(m)
		case *protocol.Notification:
			s.core.Notify(rw.handlerContext(r), m)
		}
	}
	if d.fault != nil {
		rw.refuseRequest(d.fault)
		return
	}
	if len(d.requests)+len(d.broken) == 0 {
		rw.w.WriteHeader(http.StatusAccepted)
		return
	}
	h.serveSessionRequests(rw, r, s, d)
}

// mayOpenSession reports whether initialize opens a session: it has no id, or a lost session's.
func (h *Handler) mayOpenSession(ids []string, p protocol.Principal) bool {
	if len(ids) == 0 {
		return true
	}
	s, f := h.findSession(ids, p)
	if f == nil {
		h.sessions.releaseSession(s)
		return false
	}
	return f.reason == words.RefusedSessionGone
}

func (h *Handler) findSession(ids []string, p protocol.Principal) (*session, *fault) {
	if len(ids) != 1 || ids[0] == "" {
		return nil, badRequestFault(words.RefusedNoSession,
			"invalid request: needs one Mcp-Session-Id header, with the id from the response to "+
				"initialize; or MCP-Protocol-Version: 2026-07-28, for a request of that revision")
	}
	return h.sessions.acquireSession(ids[0], p)
}

func (f *fault) withRequestID(d *legacyPost) *fault {
	if !d.batch && len(d.requests) == 1 {
		return f.withID(d.requests[0].ID)
	}
	return f
}

func (f *fault) withID(id protocol.ID) *fault {
	f.id = id
	return f
}

func batchNotAllowed(v protocol.Version) *fault {
	return badRequestFault(words.RefusedBatch, "invalid request: revision %s has no batches", v)
}

// maxInitialize limits the parameters of initialize, which the session keeps.
const maxInitialize = 16 << 10

func (h *Handler) serveInitialize(rw *responseWriter, r *http.Request, p protocol.Principal,
	request *protocol.Request) {
	if len(request.Params) > maxInitialize {
		rw.refuseRequest(&fault{status: http.StatusRequestEntityTooLarge,
			reason: words.RefusedTooLarge, id: request.ID,
			err: protocol.Errorf(protocol.CodeInvalidParams, "invalid params: longer than %d bytes",
				maxInitialize)})
		return
	}
	s := &session{principal: p, cost: sessionCost + int64(len(request.Params))}
	if f := h.reserveSession(r.Context(), s); f != nil {
		rw.refuseRequest(f.withID(request.ID))
		return
	}
	s.log = h.sessions.newLog(p)
	s.core = h.srv.NewSession(p, s.sendUnrelated)
	reserved := true
	defer func() {
		if reserved { // even after a panic
			h.sessions.giveReserved(p, s.cost)
			s.endSession()
		}
	}()
	short := withoutBody(request)
	d := h.newDelivery(rw, r, p)
	d.Panicked = reportPanicOrAbort
	admitted := s.core.Admit(short, d)
	response := h.srv.Serve(rw.handlerContext(r), admitted)
	if response.Error != nil || r.Context().Err() != nil {
		status := http.StatusOK
		if l := lackOf(admitted); l != nil {
			status = rw.challengeLack(request.ID, l)
		}
		rw.writeResponse(status, response)
		return
	}
	reserved = false
	if !h.sessions.addSession(s) {
		s.endSession()
		rw.refuseRequest(shutdownFault().withID(request.ID))
		return
	}
	rw.w.Header()[headerSession] = []string{s.id}
	rw.writeResponse(http.StatusOK, response)
}

// reserveSession reserves room for a session, evicting idle sessions if necessary.
func (h *Handler) reserveSession(ctx context.Context, s *session) *fault {
	if closed, _ := h.sessions.refusesNew(); closed || h.refusesNew.Load() {
		return shutdownFault()
	}
	evicted, refused := h.sessions.reserveRoom(s.principal, s.cost)
	for _, e := range evicted {
		e.session.endSession()
		h.srv.Report(ctx, event.SessionEvicted{Idle: e.idle, Limit: string(e.limit)})
	}
	return refused
}

func (s *session) sendUnrelated(_ context.Context, m protocol.Message) error {
	message, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	n, ok := m.(*protocol.Notification)
	return s.log.SendUnrelated(message, ok && isRepeatable(n.Method))
}

// isRepeatable reports whether a queued notification makes a second one redundant.
func isRepeatable(method string) bool {
	switch method {
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged,
		protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated:
		return true
	}
	return false
}

// serveSessionRequests answers the requests of one POST, which survive a disconnect
// (basic/transports, "Sending Messages").
func (h *Handler) serveSessionRequests(rw *responseWriter, r *http.Request, s *session,
	d *legacyPost) {
	if f := h.sessions.beginCalls(s, len(d.requests)); f != nil {
		rw.refuseRequest(f.withRequestID(d))
		return
	}
	calls, ok := h.beginCalls(rw.handlerContext(r), s, d.requests)
	if !ok {
		h.sessions.cancelBegun(s, len(d.requests))
		rw.refuseRequest(shutdownFault().withRequestID(d))
		return
	}
	for i := range calls {
		c := &calls[i]
		c.admitted = s.core.Admit(d.requests[i], h.deliveryOf(c, rw, r, s.principal))
		checkParamHeaders(r.Header, c.admitted)
		c.done = func() { h.sessions.finishCall(c) }
	}
	h.runCalls(rw, r, s.log, calls, d)
}

// serveStatelessPost answers a legacy POST without a session, see [Options].StatelessLegacy.
func (h *Handler) serveStatelessPost(rw *responseWriter, r *http.Request, p protocol.Principal,
	d *legacyPost) {
	version := cmp.Or(protocol.Version(trimSpace(r.Header.Get(headerVersion))),
		protocol.V20250326) // basic/transports, "Protocol Version Header"
	if d.batch && version != protocol.V20250326 {
		rw.refuseRequest(batchNotAllowed(version))
		return
	}
	if len(d.requests)+len(d.broken) == 0 {
		rw.w.WriteHeader(http.StatusAccepted) // no session to notify
		return
	}
	calls, ok := h.beginCalls(rw.handlerContext(r), nil, d.requests)
	if !ok {
		rw.refuseRequest(shutdownFault().withRequestID(d))
		return
	}
	for i := range calls {
		c := &calls[i]
		var end func()
		c.admitted, end = h.srv.AdmitStateless(d.requests[i], version, h.deliveryOf(c, rw, r, p))
		checkParamHeaders(r.Header, c.admitted)
		if d.batch && d.requests[i].Method == protocol.MethodInitialize {
			c.admitted.Request().Refuse(protocol.Errorf(protocol.CodeInvalidRequest,
				"invalid request: initialize must not be part of a batch"))
		}
		c.done = end
	}
	h.runCalls(rw, r, &replay.Log{}, calls, d)
}
