package serverhttp

import (
	"bytes"
	"context"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/revision"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

const (
	headerSession   = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
)

// A delivered is what a legacy client sends as one POST: one message, or
// several as a batch.
type delivered struct {
	requests []*protocol.Request
	others   []protocol.Message   // notifications and responses
	broken   []*protocol.Response // the answers to what is no message
	batch    bool
}

// sort puts a message where it belongs.
func (d *delivered) sort(m protocol.Message, err error) {
	if err != nil {
		f := undecodable(m, err)
		d.broken = append(d.broken, &protocol.Response{ID: f.id, Error: f.err})
		return
	}
	if request, ok := m.(*protocol.Request); ok {
		d.requests = append(d.requests, request)
		return
	}
	d.others = append(d.others, m)
}

// isBatch reports whether a body is a batch: an array, from a
// client whose revision may have arrays.
func (h *Handler) isBatch(header http.Header, body []byte) bool {
	return h.legacy && eraOf("", header[headerVersion]) == protocol.Legacy && jsonx.KindOf(body) == jsonx.Array
}

// batch answers a batch. What is no message within it is answered for itself.
func (h *Handler) batch(x *exchange, r *http.Request, p roundtrip.Principal, body []byte) {
	texts, _, err := protocol.DecodeBatch(body)
	if err != nil {
		x.fail(undecodable(nil, err))
		return
	}
	d := &delivered{batch: true}
	for _, text := range texts {
		d.sort(protocol.DecodeMessage(text))
	}
	h.post(x, r, p, d)
}

// single is one message.
func single(m protocol.Message) *delivered {
	d := &delivered{}
	d.sort(m, nil)
	return d
}

// isLegacy reports whether a message is of the legacy era, and served as such.
// The header is asked first, which is enough for what modern clients send.
func (h *Handler) isLegacy(header http.Header, m protocol.Message) bool {
	if !h.legacy || eraOf("", header[headerVersion]) == protocol.Modern {
		return false
	}
	var params []byte
	switch m := m.(type) {
	case *protocol.Request:
		params = m.Params
	case *protocol.Notification:
		params = m.Params
	}
	return !revision.IsNamedIn(params)
}

// post answers a legacy POST.
//
//	headers that contradict the body ──────→ 400
//	stateless ─────────────────────────────→ each request for itself
//	no session id ─┬ initialize ───────────→ a session
//	               └ else ─────────────────→ 400
//	session id ────┬ not the client's ─────→ 404
//	               ├ requests ─────────────→ JSON or events
//	               └ none ─────────────────→ 202
func (h *Handler) post(x *exchange, r *http.Request, p roundtrip.Principal, d *delivered) {
	if f := vetGiven(r.Header, d); f != nil {
		x.fail(f)
		return
	}
	if h.opts.StatelessLegacy {
		h.stateless(x, r, p, d)
		return
	}
	ids := r.Header[headerSession]
	if len(ids) == 0 && !d.batch && len(d.requests) == 1 && d.requests[0].Method == protocol.MethodInitialize {
		h.initialize(x, r, p, d.requests[0])
		return
	}
	s, f := h.session(ids, p)
	if f != nil {
		x.fail(f.about(d))
		return
	}
	defer h.sessions.release(s)
	if d.batch && s.core.Version() != protocol.V20250326 {
		x.fail(noBatches(s.core.Version()))
		return
	}
	for _, m := range d.others {
		tell(r.Context(), s, m)
	}
	if len(d.requests)+len(d.broken) == 0 {
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	h.serveSession(x, r, s, d)
}

// session finds the session that a request names.
func (h *Handler) session(ids []string, p roundtrip.Principal) (*session, *fault) {
	if len(ids) != 1 || ids[0] == "" {
		return nil, badRequest(roundtrip.RefusedNoSession, "invalid request: needs one Mcp-Session-Id header, as initialize was answered with")
	}
	return h.sessions.acquire(ids[0], p)
}

// about gives a fault the id of the request that it answers.
func (f *fault) about(d *delivered) *fault {
	if !d.batch && len(d.requests) == 1 {
		f.id = d.requests[0].ID
	}
	return f
}

func noBatches(v protocol.Version) *fault {
	return badRequest(roundtrip.RefusedBatch, "invalid request: revision %s has no batches", v)
}

// tell hands on what needs no answer. An answer that nobody waits for any more
// is no fault of the client's.
func tell(ctx context.Context, s *session, m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Response:
		_ = s.core.Deliver(m)
	case *protocol.Notification:
		s.core.Notify(ctx, m)
	}
}

// maxInitialize is how large the parameters of initialize may be. The session
// keeps what they say about the client.
const maxInitialize = 16 << 10

// initialize opens a session.
func (h *Handler) initialize(x *exchange, r *http.Request, p roundtrip.Principal, request *protocol.Request) {
	if len(request.Params) > maxInitialize {
		x.fail(&fault{status: http.StatusRequestEntityTooLarge, reason: roundtrip.RefusedTooLarge, id: request.ID,
			err: protocol.Errorf(protocol.CodeInvalidParams, "invalid params: longer than %d bytes", maxInitialize)})
		return
	}
	s := &session{principal: p, cost: sessionCost + int64(len(request.Params))}
	if f := h.reserve(r.Context(), s); f != nil {
		f.id = request.ID
		x.fail(f)
		return
	}
	s.log = h.sessions.newLog(p)
	s.core = h.srv.NewSession(p, s.say)
	reserved := true
	defer func() {
		if reserved { // whatever happens
			h.sessions.giveReserved(p, s.cost)
			s.end()
		}
	}()
	// Params alias the body, which may be larger still.
	in := s.core.Admit(&protocol.Request{ID: request.ID, Method: request.Method, Params: bytes.Clone(request.Params)})
	in.Private, in.Panicked = h.opts.Authenticate != nil, passAbort
	describeSender(in, r)
	response := h.srv.Serve(r.Context(), in)
	if response.Error != nil || r.Context().Err() != nil {
		x.finish(http.StatusOK, response)
		return
	}
	reserved = false
	if !h.sessions.open(s) {
		s.end()
		f := shuttingDown()
		f.id = request.ID
		x.fail(f)
		return
	}
	x.w.Header()[headerSession] = []string{s.id}
	x.finish(http.StatusOK, response)
}

// reserve makes room for a session, at the cost of others that are idle if need
// be.
func (h *Handler) reserve(ctx context.Context, s *session) *fault {
	if h.sessions.isClosed() {
		return shuttingDown()
	}
	evicted, refused := h.sessions.reserve(s.principal, s.cost)
	for _, e := range evicted {
		e.session.end()
		h.srv.ReportEviction(ctx, roundtrip.SessionEvicted{Idle: e.idle, Limit: string(e.limit)})
	}
	if refused == nil {
		return nil
	}
	return refused.fault()
}

// say sends what relates to no request.
func (s *session) say(_ context.Context, m protocol.Message) error {
	message, err := protocol.AppendMessage(nil, m)
	if err != nil {
		return err
	}
	n, ok := m.(*protocol.Notification)
	return s.log.SendUnrelated(message, ok && repeatable(n.Method))
}

// repeatable reports whether a notification says no more than that something
// changed.
func repeatable(method string) bool {
	switch method {
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged, protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated:
		return true
	}
	return false
}

// serveSession answers the requests of one POST. They go on when the client
// goes away: only it may cancel them (basic/transports, "Sending Messages").
func (h *Handler) serveSession(x *exchange, r *http.Request, s *session, d *delivered) {
	if f := h.sessions.begin(s, len(d.requests)); f != nil {
		x.fail(f.about(d))
		return
	}
	calls, ok := h.calls(r.Context(), s, d.requests)
	if !ok {
		h.sessions.cancelBegun(s, len(d.requests))
		x.fail(shuttingDown().about(d))
		return
	}
	for i := range calls {
		c := &calls[i]
		c.in = s.core.Admit(d.requests[i])
		vetParams(r.Header, c.in)
		c.in.Private = h.opts.Authenticate != nil
		describeSender(c.in, r)
		c.done = func() { h.sessions.finish(c) }
	}
	h.run(x, r, s.log, calls, d)
}
