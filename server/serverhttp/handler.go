package serverhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/limits/inflight"
	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/recent"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// A Handler is the HTTP endpoint of a server. All methods may be called concurrently.
type Handler struct {
	srv        *server.Server
	opts       Options
	origins    map[string]bool
	hosts      map[string]bool
	refusesNew atomic.Bool
	requests   inflight.Set[*inflight.Request] // in flight
	buffers    sync.Pool                       // of *[]byte, for output
	pieces     sync.Pool                       // of *piece, for input
	bodies     *recent.Queue[*responseWriter]  // with a request body being read
	quiet      *recent.Queue[*responseWriter]  // with a running handler and no output yet

	legacy   bool // legacy revisions are served too
	sessions *sessionTable

	forwarder *hophttp.Forwarder              // may be nil
	answers   *quota.Pool[protocol.Principal] // being delivered to other replicas
}

var _ http.Handler = (*Handler)(nil)

// New returns the endpoint of srv, which must not be nil. opts may be nil. It refuses
// AllowedOrigins or AllowedHosts that never match, and invalid negative numbers and replica names.
func New(srv *server.Server, opts *Options) (*Handler, error) {
	if srv == nil {
		return nil, errPrefix.Errorf("nil server")
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		srv: srv, opts: o, legacy: srv.ServesLegacy(), sessions: newSessions(&o),
		bodies: recent.NewQueue(o.ReadTimeout, (*responseWriter).expireBody),
		quiet:  recent.NewQueue(o.tuning.keepAlive, (*responseWriter).breakSilence),
		answers: quota.New(quota.Options[protocol.Principal]{Total: maxAnswerBytes,
			Share: maxAnswerBytesPerPrincipal, Local: protocol.LocalPrincipal()}),
	}
	if h.origins, err = originSet(o.AllowedOrigins); err != nil {
		return nil, err
	}
	if h.hosts, err = hostSet(o.AllowedHosts); err != nil {
		return nil, err
	}
	forwarder, err := hophttp.New(o.Replicas)
	if err != nil {
		return nil, errPrefix.Errorf("Replicas: %w", err)
	}
	if (h.hasSessions() || o.OwnerOf != nil) && forwarder != nil {
		h.forwarder, h.sessions.newID = forwarder, func() string {
			return forwarder.SealSession(rand.Text()) // 130 bits
		}
	}
	srv.ReportEphemeralKey(context.Background())
	return h, nil
}

// ServeHTTP answers one HTTP request.
//
//	Host, Origin ┬ preflight ─→ 204
//	             └ authenticate ┬ POST ─→ media ─→ body ┬ batch, legacy message → serveLegacyPost
//	                            │                       ├ request ──────────────→ JSON or events
//	                            │                       ├ notification ─────────→ 202
//	                            │                       └ response ─────────────→ 400
//	                            └ else ────────────────────────────────────────→ serveOtherMethod
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rw := &responseWriter{w: w, h: h, r: r, deadline: deadlinesOf(w)}
	defer h.recoverPanic(rw, r)
	if h.refusesNew.Load() {
		w.Header()["Connection"] = []string{"close"}
	}
	if h.forwarder != nil && h.receiveFromReplica(rw, r) {
		return
	}
	listed := h.addCORS(w.Header(), r.Header) // also in refusals
	if f := h.checkSource(r); f != nil && rw.received == nil {
		rw.refuseRequest(f)
		return
	}
	if listed && r.Method == http.MethodOptions &&
		len(r.Header["Access-Control-Request-Method"]) == 1 { // Fetch standard, "CORS-preflight request"
		h.answerPreflight(w, r)
		return
	}
	principal, f := h.authenticate(rw, r)
	switch {
	case f != nil:
		rw.refuseRequest(f)
	case r.Method == http.MethodPost:
		// Not called from readRequest, whose large frame would stay on the stack of each handler.
		if request := h.readRequest(rw, r, principal); request != nil {
			h.serveModern(rw, r, request, principal)
		}
	default:
		h.serveOtherMethod(rw, r, principal)
	}
}

// readRequest reads a POST. It returns a modern request, and answers everything else.
func (h *Handler) readRequest(rw *responseWriter, r *http.Request,
	principal protocol.Principal) *protocol.Request {
	f := rw.checkMedia(r.Header)
	var body []byte
	if f == nil {
		body, f = h.readBody(rw, r)
	}
	if f != nil {
		rw.refuseRequest(f)
		return nil
	}
	if rw.received != nil && !rw.received.IsBody(body) {
		rw.refuseRequest(&fault{status: http.StatusBadRequest, reason: words.RefusedMisdirected,
			cause: errChangedBody, err: protocol.Errorf(protocol.CodeInvalidRequest,
				"invalid request: the body was changed between two replicas")})
		return nil
	}
	if h.legacy && jsonx.KindOf(body) == jsonx.Array && // only legacy revisions have batches
		rules.EraOf(false, r.Header[headerVersion]) == protocol.Legacy {
		h.serveBatch(rw, r, principal, body)
		return nil
	}
	message, err := protocol.DecodeMessage(body)
	if err != nil {
		h.refuseMessage(rw, r, principal, message, err, body)
		return nil
	}
	if h.isLegacy(r.Header, message) {
		h.serveLegacyPost(rw, r, principal, singlePost(message, body))
		return nil
	}
	switch m := message.(type) {
	case *protocol.Request:
		if h.forwardToOwner(rw, r, principal, m, body) {
			return nil
		}
		return m
	case *protocol.Notification:
		h.serveNotification(rw, r, m)
	default:
		rw.refuseRequest(badRequestFault(words.RefusedMalformed,
			"invalid request: clients send no responses"))
	}
	return nil
}

// refuseMessage refuses an invalid message. An unreadable answer fails its question.
func (h *Handler) refuseMessage(rw *responseWriter, r *http.Request, principal protocol.Principal,
	message protocol.Message, err error, body []byte) {
	f := undecodableMessage(message, err)
	answer, ok := message.(*protocol.Response)
	if !ok || h.opts.StatelessLegacy || !h.isLegacy(r.Header, answer) ||
		len(r.Header[headerSession]) == 0 {
		rw.refuseRequest(f)
		return
	}
	answer.Error = f.err
	d := singlePost(answer, body)
	d.fault = f
	h.serveLegacyPost(rw, r, principal, d)
}

// undecodableMessage returns the fault for an invalid message, with its id if readable.
func undecodableMessage(message protocol.Message, err error) *fault {
	f := &fault{status: http.StatusBadRequest, reason: words.RefusedMalformed}
	if request, ok := message.(*protocol.Request); ok && request != nil {
		f.id = request.ID
	}
	if f.err, _ = protocol.AsError(err); f.err == nil {
		f.err = protocol.Errorf(protocol.CodeInvalidRequest, "invalid request")
	}
	return f
}

func (h *Handler) serveModern(rw *responseWriter, r *http.Request, request *protocol.Request,
	principal protocol.Principal) {
	if request.Method == protocol.MethodListen {
		if rw.jsonOnly {
			rw.refuseRequest(notAcceptable(request.ID, typeEvents))
			return
		}
		rw.task.DrainCause = server.ErrClosed // ends with a result
		request = withoutBody(request)
	}
	ctx, ok := h.beginModern(rw, r, request)
	if !ok {
		rw.refuseRequest(shutdownFault().withID(request.ID))
		return
	}
	defer h.endModern(rw)
	rw.id = request.ID
	admitted := h.admitModern(rw, r, request, principal)
	if !rw.jsonOnly {
		h.quiet.AddSince(&rw.place, rw, rw.place.Since())
	}
	response := h.srv.Serve(ctx, admitted)
	rw.endSilence()
	// Net/http cancels when the client is gone. A deadline of a wrapping handler is answered.
	if errors.Is(r.Context().Err(), context.Canceled) {
		rw.abandonClient()
		return
	}
	status := h.statusOf(admitted, response)
	if l := lackOf(admitted); l != nil {
		status = rw.challengeLack(request.ID, l)
	}
	if rw.holdsResult(response) {
		*rw.lent = append(*rw.lent, '}')
		rw.writeResponseText(status, rw.lent)
	} else {
		rw.writeResponse(status, response)
	}
}

// admitModern admits a modern request and checks its headers. It is not inlined into serveModern,
// whose frame stays on the stack of each handler.
//
//go:noinline
func (h *Handler) admitModern(rw *responseWriter, r *http.Request, request *protocol.Request,
	principal protocol.Principal) *server.Admission {
	d := h.newDelivery(rw, r, principal)
	d.Back, d.Panicked = rw, reportPanicOrAbort
	admitted := h.srv.Admit(request, d)
	if rules.EraOf(admitted.Request().Meta.Version != "",
		r.Header[headerVersion]) == protocol.Modern {
		checkHeaders(r.Header, admitted)
	} else {
		admitted.ReplaceRefusal(refuseLegacyRequest(r.Header, request.Method, request.Params))
	}
	return admitted
}

func (h *Handler) endModern(rw *responseWriter) {
	if !rw.served { // a panic
		rw.endSilence()
	}
	if rw.lent != nil {
		rw.putBuffer(rw.lent)
		rw.lent = nil
	}
	rw.closeStream()
	h.endRequest(&rw.task)
}

// withoutBody returns a copy of a request whose Params do not keep a larger body alive.
func withoutBody(request *protocol.Request) *protocol.Request {
	short := *request
	short.Params = bytes.Clone(request.Params)
	return &short
}

// serveNotification passes a notification on, even an unknown one.
func (h *Handler) serveNotification(rw *responseWriter, r *http.Request, n *protocol.Notification) {
	if e := checkNotificationHeaders(r.Header, n); e != nil {
		f := &fault{status: http.StatusBadRequest, reason: words.RefusedHeaders, err: e}
		if e.Code == protocol.CodeUnsupportedProtocolVersion {
			f.reason = words.RefusedVersion
		}
		rw.refuseRequest(f)
		return
	}
	if err := h.srv.Notify(rw.handlerContext(r), n); err != nil {
		e, ok := protocol.AsError(err)
		if !ok {
			e = rules.InternalError()
		}
		rw.refuseRequest(&fault{status: http.StatusBadRequest, reason: words.RefusedMalformed,
			err: e})
		return
	}
	rw.w.WriteHeader(http.StatusAccepted)
}

const maxKept = 4 << 10 // larger header values are not kept, as thousands of calls may wait

func (h *Handler) newDelivery(rw *responseWriter, r *http.Request,
	principal protocol.Principal) server.Delivery {
	return server.Delivery{
		Principal: principal, Access: rw.access, Private: h.opts.authenticates(),
		RemoteAddr: r.RemoteAddr, TraceParent: boundedHeader(r.Header["Traceparent"]),
		Credential: cmp.Or(boundedHeader(r.Header["Authorization"]),
			boundedHeader(r.Header["Cookie"]), boundedHeader(r.Header["X-Api-Key"])),
	}
}

func boundedHeader(values []string) string {
	if len(values) == 0 || len(values[0]) > maxKept {
		return ""
	}
	return values[0]
}
