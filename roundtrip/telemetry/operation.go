package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Attributes and values of the semantic conventions for MCP.
const (
	methodKey = attribute.Key("mcp.method.name")
	errorKey  = attribute.Key("error.type")
	statusKey = attribute.Key("rpc.response.status_code")

	otherMethod = "_OTHER"     // unknown
	otherCode   = "_OTHER"     // of an unreserved error code
	toolError   = "tool_error" // a result reports the tool's failure
)

const maxID = 64 // bytes kept of a request id, which a peer chooses

type operation struct {
	span           trace.Span
	method, target string
	began          time.Time
	duration       metric.Float64Histogram // nil: no metrics
	failed         string                  // error.type; empty: success
	code           bool                    // failed is a JSON-RPC code
	unknown        bool                    // refused, and its method may be invented
}

// begin begins an operation, which counts as a panic until its answer is read.
func (t *Telemetry) begin(ctx context.Context, kind trace.SpanKind, method string,
	options ...trace.SpanStartOption) (context.Context, operation) {
	ctx, span := t.tracer.Start(ctx, method, append(options, trace.WithSpanKind(kind),
		trace.WithAttributes(methodKey.String(method)))...)
	return ctx, operation{span: span, method: method, began: time.Now(), failed: "panic"}
}

// readError records the code of a peer's error, or missing for any other error.
func (o *operation) readError(err error, missing string) {
	if o.failed = ""; err == nil {
		return
	}
	if said, ok := protocol.AsError(err); ok {
		o.failed, o.code = strconv.FormatInt(said.Code, 10), true
	} else if o.failed = missing; errors.Is(err, context.Canceled) {
		o.failed = "cancelled"
	}
}

// end ends the span. Names and labels omit methods and tools that peers may have invented.
func (o *operation) end(ctx context.Context) {
	defer o.span.End()
	if o.duration == nil && !o.span.IsRecording() {
		return
	}
	var about []attribute.KeyValue
	method, name := o.method, o.method
	if o.unknown || o.failed == strconv.Itoa(protocol.CodeMethodNotFound) {
		method, name = otherMethod, otherMethod
	} else if o.failed == "" || o.failed == toolError {
		switch about = describeTarget(method, o.target); method {
		case protocol.MethodCallTool, protocol.MethodGetPrompt:
			name += " " + event.EscapeTarget(o.target)
		default:
			about = nil
		}
	}
	labels := append(about, methodKey.String(method))
	if o.span.IsRecording() {
		o.span.SetName(name)
		o.span.SetAttributes(o.addFailure(slices.Clone(labels), o.failed)...)
		if o.failed != "" {
			o.span.SetStatus(codes.Error, "") // the message may quote arguments
		}
	}
	if o.duration != nil {
		failed := o.failed
		if code, err := strconv.Atoi(failed); o.code && (err != nil || !isReserved(code)) {
			failed = otherCode
		}
		o.duration.Record(ctx, time.Since(o.began).Seconds(),
			metric.WithAttributeSet(attribute.NewSet(o.addFailure(labels, failed)...)))
	}
}

func (o *operation) addFailure(to []attribute.KeyValue, failed string) []attribute.KeyValue {
	if failed != "" {
		to = append(to, errorKey.String(failed))
	}
	if o.code {
		to = append(to, statusKey.String(failed))
	}
	return to
}

// isReserved reports whether a code is one of JSON-RPC's 105; peers may invent others.
func isReserved(code int) bool {
	return code == protocol.CodeParseError || -32603 <= code && code <= -32600 ||
		-32099 <= code && code <= -32000
}

func isMethod(method string) bool {
	_, err := protocol.DecodeParams(method, json.RawMessage(`{}`))
	said, ok := protocol.AsError(err)
	return !ok || said.Code != protocol.CodeMethodNotFound
}

// describeTarget returns a request's target as attributes: a URI without its query.
func describeTarget(method, target string) []attribute.KeyValue {
	key := attribute.Key("gen_ai.tool.name")
	switch method {
	case protocol.MethodCallTool:
		return []attribute.KeyValue{key.String(event.EscapeTarget(target)),
			attribute.String("gen_ai.operation.name", "execute_tool")}
	case protocol.MethodGetPrompt:
		key = "gen_ai.prompt.name"
	case protocol.MethodReadResource:
		key = "mcp.resource.uri"
	default:
		return nil
	}
	return []attribute.KeyValue{key.String(event.EscapeTarget(target))}
}

func (o *operation) describe(id protocol.ID, version protocol.Version) {
	text := id.String()
	o.span.SetAttributes(append(describeTarget(o.method, o.target),
		attribute.String("jsonrpc.request.id", text[:min(len(text), maxID)]),
		attribute.String("mcp.protocol.version", string(version)))...)
}

func (o *operation) setTransport(http bool) {
	if !http {
		o.span.SetAttributes(attribute.String("network.transport", "pipe"))
		return
	}
	o.span.SetAttributes(attribute.String("network.transport", "tcp"),
		attribute.String("network.protocol.name", "http"))
}
