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

// Peer returns peer, a server as clients and gateways reach it, with a span for each request and
// for each question that the server pushes. The server is told of the span of a request. Nil stays
// nil.
//
// A flow of revision 2026-07-28 is several requests: with a span of yours around the call they are
// one trace.
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

// A tracedPeer is a connection. It has the methods by which clients and gateways know others.
type tracedPeer struct {
	protocol.Peer
	telemetry *Telemetry

	mu      sync.Mutex
	running map[trace.SpanID]trace.SpanContext // of the requests that run
}

func (p *tracedPeer) ServerURL() string {
	if named, ok := p.Peer.(interface{ ServerURL() string }); ok {
		return named.ServerURL()
	}
	return ""
}

// Done returns nil where the peer does not say when it ends.
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

// send has a request sent within a span.
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

// targetOf returns what a request that is to be sent is about: a tool, a prompt or a URI.
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

// readResponse reads how a request ended; its result, which may be long, only where that is wanted.
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

// setServer sets which server a request goes to.
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

// addRunning notes the span of a request until the function is called.
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

// findParent returns a context for what a server asks. Its parent is the span of the server where
// that is of the trace of a request that runs, and it is sampled as that request is. Any other is a
// link: no server writes into other traces, or decides what is sampled here.
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

// A tracedBack receives what a server sends, with a span for each question.
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

// answerKey is of contexts in which a question is a span already.
type answerKey struct{}

// Questions returns opts, which may be nil, with a span for each question that a handler answers:
// those of revision 2026-07-28 come in results, which [Telemetry.Peer] passes on.
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

// A tracedLegacyPeer is a connection that supports sessions.
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

// A tracedSession is a session of a connection.
type tracedSession struct {
	protocol.LegacySession
	peer *tracedPeer
}

// Handle implements [protocol.Peer].
func (s *tracedSession) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	return s.peer.handle(ctx, s.LegacySession, req, back)
}
