package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

var (
	_ roundtrip.Tracer = (*Telemetry)(nil)
	_ event.Observer   = (*Telemetry)(nil)
)

// Wrap is the [server.Middleware] with a span per request. Put it first, so that logs are in spans.
func (t *Telemetry) Wrap(next server.Handler) server.Handler {
	return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
		ctx, o := t.beginRequest(ctx, request)
		defer func() { o.end(ctx) }()
		result, err := next(ctx, request)
		if _, said := protocol.AsError(err); err != nil && !said {
			o.readError(&protocol.Error{Code: protocol.CodeInternalError}, "")
			return result, err
		}
		o.readError(err, "")
		if r, ok := result.(*protocol.CallToolResult); ok && r != nil && r.IsError {
			o.failed = toolError
		}
		return result, err
	}
}

// beginRequest begins the span of a request. The caller's span is its parent or a link; a task's
// run has neither, since the server itself makes that request: see LinkSpan.
func (t *Telemetry) beginRequest(ctx context.Context, request *server.Request) (
	context.Context, operation) {
	var options []trace.SpanStartOption
	var meta protocol.Meta
	if request.Meta != nil { // nil in tests only
		meta = request.Meta.Extra
	}
	remote, peer := t.extract(meta)
	switch {
	case request.InTask():
		options = append(options, trace.WithNewRoot())
	case t.trustCaller != nil && t.trustCaller(request):
		ctx = withBaggageOf(ctx, peer)
		if local := trace.SpanContextFromContext(ctx); remote.IsValid() && local.IsValid() &&
			local.SpanID() != remote.SpanID() {
			options = append(options, linkTo(local)) // the transport's span
		}
		if remote.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
		}
	case remote.IsValid():
		options = append(options, linkTo(remote))
	}
	ctx, o := t.begin(ctx, trace.SpanKindServer, request.Message.Method, options...)
	o.unknown = request.Refusal() != nil && !isMethod(o.method)
	if o.target = request.Target; t.serverDuration.Enabled(ctx) {
		o.duration = t.serverDuration
	}
	if o.span.IsRecording() {
		o.describe(request.Message.ID, request.Version)
		if http := request.RemoteAddr != ""; http || request.Principal.IsLocal() {
			o.setTransport(http)
		}
	}
	return ctx, o
}

// CurrentSpan implements [roundtrip.Tracer].
func (t *Telemetry) CurrentSpan(ctx context.Context) (ref roundtrip.SpanRef) {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && !span.IsRemote() {
		ref.Trace, ref.Span = span.TraceID(), span.SpanID()
	}
	return ref
}

// LinkSpan implements [roundtrip.Tracer].
func (t *Telemetry) LinkSpan(ctx context.Context, before roundtrip.SpanRef) {
	trace.SpanFromContext(ctx).AddLink(trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: before.Trace,
			SpanID: before.Span, TraceFlags: trace.FlagsSampled, Remote: true}),
		Attributes: []attribute.KeyValue{attribute.String("rondo.link", "round_before")}})
}

// CarrySpan implements [roundtrip.Tracer].
func (t *Telemetry) CarrySpan(ctx, request context.Context) context.Context {
	return withBaggageOf(trace.ContextWithSpan(ctx, trace.SpanFromContext(request)), request)
}

// BeginQuestion implements [roundtrip.Tracer]: a question to a session's client is a span until its
// answer. The client gets the span's context without baggage.
func (t *Telemetry) BeginQuestion(ctx context.Context, question protocol.InputRequest) (
	protocol.InputRequest, func(error)) {
	ctx, o := t.begin(ctx, trace.SpanKindClient, question.Kind().Method(), trace.WithAttributes(
		attribute.String("rondo.kind", string(question.Kind()))))
	question, meta := protocol.CopyInputRequest(question)
	*meta = carry(ctx, propagation.TraceContext{}).addTo(*meta)
	return question, func(err error) {
		o.readError(err, "no_answer")
		o.end(ctx)
	}
}

// Observe implements [event.Observer]: events become events of the request's span, with names and
// fields as in a log, without error texts.
func (t *Telemetry) Observe(ctx context.Context, e event.Event) {
	span := trace.SpanFromContext(ctx)
	where, located := event.WhereOf(e)
	if !located || !span.IsRecording() {
		return
	}
	if where.Flow != "" {
		span.SetAttributes(attribute.String("rondo.flow", where.Flow),
			attribute.Int("rondo.round", where.Round))
	}
	_, name := event.EntryOf(e)
	fields := &encoder{}
	event.AddFields(e, event.Fields{Encoder: fields,
		FieldOptions: &event.FieldOptions{OmitMessages: true, OmitErrors: true}})
	span.AddEvent(name, trace.WithAttributes(fields.list...))
}

type encoder struct {
	list  []attribute.KeyValue
	items []string
}

func fieldKey(name string) attribute.Key { return attribute.Key("rondo." + name) }

func (e *encoder) AddString(name, value string) {
	switch name {
	case "error", "panic", "stack": // may quote arguments and answers
	default:
		e.list = append(e.list, fieldKey(name).String(value))
	}
}

func (e *encoder) AddInt64(name string, value int64) {
	e.list = append(e.list, fieldKey(name).Int64(value))
}

func (e *encoder) AddFloat64(name string, value float64) {
	e.list = append(e.list, fieldKey(name).Float64(value))
}

func (e *encoder) AddBool(name string, value bool) {
	e.list = append(e.list, fieldKey(name).Bool(value))
}

func (e *encoder) AppendItem(value string) { e.items = append(e.items, value) }

func (e *encoder) AddItems(name string) {
	e.list, e.items = append(e.list, fieldKey(name).StringSlice(e.items)), nil
}
