package telemetry

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/propagation"

	"github.com/rondo-mcp/rondo/protocol"
)

// AddToParams returns params with the context of ctx.
func AddToParams(ctx context.Context, params json.RawMessage) json.RawMessage {
	return carry(ctx, propagation.TraceContext{}).addToParams(params)
}

// BaggageOf returns the baggage that a _meta brings.
func BaggageOf(meta json.RawMessage) string {
	return readMeta(protocol.Meta(meta))[protocol.MetaBaggage]
}

// ParentOf returns the traceparent that a _meta brings.
func ParentOf(meta json.RawMessage) string {
	return readMeta(protocol.Meta(meta))[protocol.MetaTraceParent]
}
