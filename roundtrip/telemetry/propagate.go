package telemetry

import (
	"bytes"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/protocol"
)

// maxBaggage is how many bytes of baggage must be passed on according to W3C Baggage.
const maxBaggage = 8 << 10

// A carrier is trace context in _meta (basic/index, "OpenTelemetry trace context").
type carrier map[string]string

var reserved = [...]string{protocol.MetaTraceParent, protocol.MetaTraceState, protocol.MetaBaggage}

// readMeta returns a peer's context, without non-strings and an overlong baggage.
func readMeta(meta protocol.Meta) carrier {
	c := carrier{}
	for _, key := range reserved {
		if !bytes.Contains(meta, []byte(key)) {
			continue
		}
		var text string
		raw, _ := meta.Get(key)
		if json.Unmarshal(raw, &text) == nil && len(text) <= maxBaggage {
			c[key] = text
		}
	}
	return c
}

// extract returns a peer's context, without a span if that is missing or malformed.
func (t *Telemetry) extract(meta protocol.Meta) (trace.SpanContext, context.Context) {
	ctx, c := context.Background(), readMeta(meta)
	if len(c) > 0 {
		ctx = t.propagator.Extract(ctx, propagation.MapCarrier(c))
	}
	return trace.SpanContextFromContext(ctx), ctx
}

// carry returns the trace context to send for ctx, whose baggage cannot be too long.
func carry(ctx context.Context, p propagation.TextMapPropagator) carrier {
	c := carrier{}
	p.Inject(ctx, propagation.MapCarrier(c))
	return c
}

func (c carrier) addTo(meta protocol.Meta) protocol.Meta {
	for _, key := range reserved {
		if value := c[key]; value != "" {
			if longer, err := meta.With(key, value); err == nil {
				meta = longer
			}
		}
	}
	return meta
}

func (c carrier) addToParams(params json.RawMessage) json.RawMessage {
	if len(c) == 0 {
		return params
	}
	meta, _ := protocol.Meta(params).Get("_meta")
	all, err := protocol.Meta(params).With("_meta", json.RawMessage(c.addTo(protocol.Meta(meta))))
	if err != nil {
		return params
	}
	return json.RawMessage(all)
}

func withBaggageOf(ctx, from context.Context) context.Context {
	if b := baggage.FromContext(from); b.Len() > 0 {
		return baggage.ContextWithBaggage(ctx, b)
	}
	return ctx
}

// linkTo returns a link to a peer's span, without tracestate, which would travel on.
func linkTo(span trace.SpanContext) trace.SpanStartOption {
	return trace.WithLinks(trace.Link{SpanContext: span.WithTraceState(trace.TraceState{})})
}
