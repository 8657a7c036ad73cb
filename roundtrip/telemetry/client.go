package telemetry

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// Peer returns peer, a server connection of a client or gateway, with a span for each request and
// each question that the server pushes. The span's context is sent to the server. Nil stays nil.
//
// A flow of revision 2026-07-28 is several requests: wrap the call in a span to get one trace.
func (t *Telemetry) Peer(peer protocol.Peer) protocol.Peer {
	if peer == nil {
		return nil
	}
	p := &tracedPeer{peer, t, sync.Mutex{}, map[trace.SpanID]trace.SpanContext{}}
	if legacy, ok := peer.(protocol.LegacyPeer); ok {
		return &tracedLegacyPeer{p, legacy}
	}
	return p
}

// A tracedPeer is a connection, with the methods by which clients and gateways identify peers.
type tracedPeer struct {
	protocol.Peer
	telemetry *Telemetry

	mu      sync.Mutex
	running map[trace.SpanID]trace.SpanContext // of running requests
}

func (p *tracedPeer) ServerURL() string {
	if named, ok := p.Peer.(interface{ ServerURL() string }); ok {
		return named.ServerURL()
	}
	return ""
}

// Done returns nil if the peer does not report its end.
func (p *tracedPeer) Done() <-chan struct{} {
	if ends, ok := p.Peer.(interface{ Done() <-chan struct{} }); ok {
		return ends.Done()
	}
	return nil
}

// Handle implements [protocol.Peer].
func (p *tracedPeer) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	return p.handle(ctx, p.Peer, req, back)
}

func (p *tracedPeer) handle(ctx context.Context, to protocol.Peer, req *protocol.Request,
	back protocol.Back) (*protocol.Response, error) {
	if calls, ok := back.(protocol.BackCaller); ok {
		back = &tracedBack{calls, p}
	}
	return p.send(ctx, req, func(ctx context.Context, req *protocol.Request) (
		*protocol.Response, error) {
		return to.Handle(ctx, req, back)
	})
}

func (p *tracedPeer) send(ctx context.Context, req *protocol.Request, send func(context.Context,
	*protocol.Request) (*protocol.Response, error)) (*protocol.Response, error) {
	t := p.telemetry
	ctx, o := t.begin(ctx, trace.SpanKindClient, req.Method)
	defer func() { o.end(ctx) }()
	if t.clientDuration.Enabled(ctx) {
		o.duration = t.clientDuration
	}
	read := o.duration != nil || o.span.IsRecording()
	if read {
		o.target = targetOf(req)
	}
	if o.span.IsRecording() {
		o.describe(req.ID, req.Mirror.Version)
		p.setServer(&o)
	}
	defer p.addRunning(o.span.SpanContext())()
	sent := *req
	sent.Params = carry(ctx, t.propagator).addToParams(req.Params)
	resp, err := send(ctx, &sent)
	o.readResponse(resp, err, read)
	return resp, err
}

// targetOf returns a request's target: a tool, a prompt or a URI.
func targetOf(req *protocol.Request) (target string) {
	if !protocol.MultiRoundTrip(req.Method) {
		return ""
	}
	member := "name"
	if req.Method == protocol.MethodReadResource {
		member = "uri"
	}
	raw, _ := protocol.Meta(req.Params).Get(member)
	_ = json.Unmarshal(raw, &target)
	return target
}

// readResponse reads a request's outcome; its result, which may be long, only if results is set.
func (o *operation) readResponse(resp *protocol.Response, err error, results bool) {
	if err == nil && resp != nil && resp.Error != nil {
		err = resp.Error
	}
	if o.readError(err, "no_response"); err == nil && results && resp != nil &&
		o.method == protocol.MethodCallTool {
		failed, _ := protocol.Meta(resp.Result).Get("isError")
		if string(failed) == "true" {
			o.failed = toolError
		}
	}
}

func (p *tracedPeer) setServer(o *operation) {
	u, err := url.Parse(p.ServerURL())
	switch {
	case err == nil && u.Host != "":
		o.setTransport(true)
		o.span.SetAttributes(attribute.String("server.address", u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			o.span.SetAttributes(attribute.Int("server.port", port))
		}
	case p.Done() != nil:
		o.setTransport(false)
	}
}

func (p *tracedPeer) addRunning(span trace.SpanContext) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[span.SpanID()] = span
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, span.SpanID())
	}
}

// findParent returns a context for a server's question. The server's span becomes the parent if it
// belongs to the trace of a running request, and is sampled as that request is. Any other is a
// link: no server may write into other traces, or decide sampling here.
func (p *tracedPeer) findParent(ctx context.Context, req *protocol.Request) (
	context.Context, []trace.SpanStartOption) {
	meta, _ := protocol.Meta(req.Params).Get("_meta")
	remote, _ := p.telemetry.extract(protocol.Meta(meta))
	if !remote.IsValid() {
		return ctx, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, span := range p.running {
		if span.TraceID() == remote.TraceID() {
			return trace.ContextWithRemoteSpanContext(ctx,
				span.WithSpanID(remote.SpanID()).WithRemote(true)), nil
		}
	}
	return ctx, []trace.SpanStartOption{linkTo(remote)}
}

type tracedBack struct {
	protocol.BackCaller
	peer *tracedPeer
}

// Call implements [protocol.BackCaller].
func (b *tracedBack) Call(ctx context.Context, req *protocol.Request) (
	resp *protocol.Response, err error) {
	if req == nil || req.Method == protocol.MethodPing {
		return b.BackCaller.Call(ctx, req)
	}
	ctx, options := b.peer.findParent(ctx, req)
	ctx, o := b.peer.telemetry.begin(ctx, trace.SpanKindServer, req.Method, options...)
	defer func() { o.end(ctx) }()
	resp, err = b.BackCaller.Call(context.WithValue(ctx, answerKey{}, true), req)
	o.readResponse(resp, err, false)
	return resp, err
}

// answerKey marks contexts in which a question has a span already.
type answerKey struct{}

// Questions returns opts, which may be nil, with a span for each answered question of revision
// 2026-07-28. Such questions come in results that [Telemetry.Peer] passes on.
func (t *Telemetry) Questions(opts *client.Options) *client.Options {
	var with client.Options
	if opts != nil {
		with = *opts
	}
	with.ElicitForm = traceAnswer(t, protocol.MethodElicit, with.ElicitForm)
	with.ElicitURL = traceAnswer(t, protocol.MethodElicit, with.ElicitURL)
	with.CreateMessage = traceAnswer(t, protocol.MethodCreateMessage, with.CreateMessage)
	with.ListRoots = traceAnswer(t, protocol.MethodListRoots, with.ListRoots)
	return &with
}

func traceAnswer[Q, A any](t *Telemetry, method string,
	answer func(context.Context, Q) (A, error)) func(context.Context, Q) (A, error) {
	if answer == nil {
		return nil
	}
	return func(ctx context.Context, question Q) (A, error) {
		if ctx.Value(answerKey{}) != nil {
			return answer(ctx, question)
		}
		ctx, o := t.begin(ctx, trace.SpanKindServer, method)
		defer func() { o.end(ctx) }()
		a, err := answer(ctx, question)
		o.readError(err, "no_answer")
		return a, err
	}
}

type tracedLegacyPeer struct {
	*tracedPeer
	legacy protocol.LegacyPeer
}

// Probe implements [protocol.LegacyPeer].
func (p *tracedLegacyPeer) Probe(ctx context.Context, req *protocol.Request) (
	resp *protocol.Response, legacy bool, err error) {
	resp, err = p.send(ctx, req, func(ctx context.Context, req *protocol.Request) (
		_ *protocol.Response, err error) {
		resp, legacy, err = p.legacy.Probe(ctx, req)
		return resp, err
	})
	return resp, legacy, err
}

// OpenSession implements [protocol.LegacyPeer].
func (p *tracedLegacyPeer) OpenSession(ctx context.Context, initialize *protocol.Request,
	back protocol.BackCaller) (session protocol.LegacySession, resp *protocol.Response, err error) {
	resp, err = p.send(ctx, initialize, func(ctx context.Context, req *protocol.Request) (
		_ *protocol.Response, err error) {
		session, resp, err = p.legacy.OpenSession(ctx, req, &tracedBack{back, p.tracedPeer})
		return resp, err
	})
	if session != nil {
		session = &tracedSession{session, p.tracedPeer}
	}
	return session, resp, err
}

type tracedSession struct {
	protocol.LegacySession
	peer *tracedPeer
}

// Handle implements [protocol.Peer].
func (s *tracedSession) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	return s.peer.handle(ctx, s.LegacySession, req, back)
}
