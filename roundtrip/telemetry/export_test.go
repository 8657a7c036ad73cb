package telemetry

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rondo-mcp/rondo/protocol"
)

// AddToParams returns params with the trace context of ctx.
func AddToParams(ctx context.Context, params json.RawMessage) json.RawMessage {
	return carry(ctx, propagation.TraceContext{}).addToParams(params)
}

// BaggageOf returns the baggage of a _meta.
func BaggageOf(meta json.RawMessage) string {
	return readMeta(protocol.Meta(meta))[protocol.MetaBaggage]
}

// ParentOf returns the traceparent of a _meta.
func ParentOf(meta json.RawMessage) string {
	return readMeta(protocol.Meta(meta))[protocol.MetaTraceParent]
}
