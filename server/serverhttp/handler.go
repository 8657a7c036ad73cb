package serverhttp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// A Handler is the HTTP endpoint of a server. All methods may be called
// concurrently.
type Handler struct {
	srv     *server.Server
	opts    Options
	origins map[string]bool
	hosts   map[string]bool
	running running
	buffers sync.Pool // of *[]byte, for what is written
	pieces  sync.Pool // of *piece, for what is read

	arrivals arrivals

	legacy   bool // legacy revisions are served, too
	sessions *sessions
}

var _ http.Handler = (*Handler)(nil)

// New returns the endpoint of srv. opts may be nil. It panics when srv is nil,
// or when an entry of AllowedOrigins or AllowedHosts could never match.
func New(srv *server.Server, opts *Options) *Handler {
	if srv == nil {
		panic("serverhttp: nil server")
	}
	o := opts.withDefaults()
	return &Handler{
		srv: srv, opts: o, origins: originSet(o.AllowedOrigins), hosts: hostSet(o.AllowedHosts),
		legacy: srv.ServesLegacy(), sessions: newSessions(&o), arrivals: arrivals{limit: o.ReadTimeout},
	}
}

// ServeHTTP answers one HTTP request.
//
//	Host, Origin ─┬ preflight ─→ 204
//	              └ Authenticate ─┬ POST ─→ media ─→ body ─┬ batch, legacy message ─→ see post
//	                              │                        ├ request ───────────────→ JSON or events
//	                              │                        ├ notification ──────────→ 202
//	                              │                        └ response ──────────────→ 400
//	                              └ else ──────────────────────────────────────────→ see other
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.newExchange(w, r)
	defer h.survive(x, r)
	listed := h.addCORS(w.Header(), r.Header) // refusals have it, too
	if f := h.checkSource(r); f != nil {
		x.fail(f)
		return
	}
	if listed && isPreflight(r) {
		h.answerPreflight(w, r)
		return
	}
	principal, f := h.authenticate(r)
	switch {
	case f != nil:
		x.fail(f)
	case r.Method == http.MethodPost:
		// Here and not where the rest is answered: handlers need much of the stack.
		if request := h.receive(x, r, principal); request != nil {
			h.serve(x, r, request, principal)
		}
	default:
		h.other(x, r, principal)
	}
}

// receive reads a POST and answers it, unless it is a request of this era, which
// it returns.
func (h *Handler) receive(x *exchange, r *http.Request, principal roundtrip.Principal) *protocol.Request {
	f := checkMedia(r.Header)
	var body []byte
	if f == nil {
		body, f = h.readBody(x, r)
	}
	if f != nil {
		x.fail(f)
		return nil
	}
	if h.isBatch(r.Header, body) {
		h.batch(x, r, principal, body)
		return nil
	}
	message, err := protocol.DecodeMessage(body)
	if err != nil {
		x.fail(undecodable(message, err))
		return nil
	}
	if h.isLegacy(r.Header, message) {
		h.post(x, r, principal, single(message))
		return nil
	}
	switch m := message.(type) {
	case *protocol.Request:
		return m
	case *protocol.Notification:
		h.notify(x, r, m)
	default:
		x.fail(unasked())
	}
	return nil
}

// unasked is the answer to a response.
func unasked() *fault {
	return badRequest(roundtrip.RefusedMalformed, "invalid request: clients send no responses")
}

// undecodable is the answer to a body that is no message. message carries the
// id where it could be read.
func undecodable(message protocol.Message, err error) *fault {
	f := &fault{status: http.StatusBadRequest, reason: roundtrip.RefusedMalformed}
	if request, ok := message.(*protocol.Request); ok && request != nil {
		f.id = request.ID
	}
	if f.err, _ = protocol.AsError(err); f.err == nil {
		f.err = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request")
	}
	return f
}

// serve answers a request.
func (h *Handler) serve(x *exchange, r *http.Request, request *protocol.Request, principal roundtrip.Principal) {
	if x.endless = request.Method == protocol.MethodListen; x.endless {
		request = withoutBody(request)
	}
	ctx, ok := h.running.begin(r.Context(), &x.task, nil)
	if !ok {
		f := shuttingDown()
		f.id = request.ID
		x.fail(f)
		return
	}
	defer h.conclude(x)
	x.id = request.ID
	in := h.srv.Admit(request)
	in.Principal = principal // what may be said about a tool depends on who asks
	in.Private = h.opts.Authenticate != nil
	describeSender(in, r)
	if eraOf(in.Meta.Version, r.Header[headerVersion]) == protocol.Modern {
		in = vet(r.Header, in)
	} else {
		in = overrule(in, refuseLegacy(r.Header, request.Method, request.Params))
	}
	in.Back, in.Panicked = x, passAbort
	response := h.srv.Serve(ctx, in)
	// Net/http cancels when the client is gone. A deadline, on the other hand,
	// is a limit that somebody set, and its outcome is worth telling.
	if errors.Is(r.Context().Err(), context.Canceled) {
		x.abandon()
		return
	}
	if status := statusOf(in, response); x.holds(response) {
		*x.lent = append(*x.lent, '}')
		x.deliver(status, x.lent)
	} else {
		x.finish(status, response)
	}
}

// conclude ends what serve began, whatever happens: neither comments nor the
// buffer may outlive the request.
func (h *Handler) conclude(x *exchange) {
	x.giveBack()
	x.close()
	h.running.end(&x.task)
}

// withoutBody returns a copy of a request that stays for long. Params alias the
// body, which may be much larger and is not needed.
func withoutBody(request *protocol.Request) *protocol.Request {
	short := *request
	short.Params = bytes.Clone(request.Params)
	return &short
}

// notify passes a notification on. That it is unknown is no reason to refuse.
func (h *Handler) notify(x *exchange, r *http.Request, n *protocol.Notification) {
	if e := vetNotification(r.Header, n); e != nil {
		f := &fault{status: http.StatusBadRequest, reason: roundtrip.RefusedHeaders, err: e}
		if e.Code == protocol.CodeUnsupportedProtocolVersion {
			f.reason = roundtrip.RefusedVersion
		}
		x.fail(f)
		return
	}
	if err := h.srv.Notify(r.Context(), n); err != nil {
		e, ok := protocol.AsError(err)
		if !ok {
			e = protocol.Errorf(protocol.CodeInternalError, "internal error")
		}
		x.fail(&fault{status: http.StatusBadRequest, reason: roundtrip.RefusedMalformed, err: e})
		return
	}
	x.w.WriteHeader(http.StatusAccepted)
}
