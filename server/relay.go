package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// Relayed tells [Server.Relay] how to answer a request.
type Relayed struct {
	// InputSchema is a tool's: arguments that it mirrors into headers must agree with the headers
	// (basic/transports, "Custom Headers from Tool Parameters"). Nil: not checked.
	InputSchema       json.RawMessage
	AcceptUnsolicited bool // as in [Tool]
	// Handle answers the request with a result of the method's type. It runs once for each leg of
	// tools/call, prompts/get and resources/read, and may ask as their handlers do.
	Handle func(ctx context.Context, call *Call) (protocol.Result, error)
}

// AddRelayedTool registers a tool of another server. Arguments are validated if the input schema
// compiles, and reach the handler unchanged; results are passed on unchecked. report is called for
// unusable schemas and for each result that breaks the output schema; its calls may overlap.
// AddRelayedTool panics if the tool has no name or a taken one, or no handler.
func AddRelayedTool(c *Catalog, definition protocol.Tool, report func(error),
	handler func(ctx context.Context, call *ToolCall) (protocol.CallToolOutcome, error)) {
	mustRegister("tool", definition.Name, checkHandler(handler != nil), checkName(definition.Name))
	if definition.InputSchema == nil {
		definition.InputSchema = json.RawMessage(anyObject)
	}
	added := &tool{definition: definition, relayed: true, handle: handler}
	input, err := compileSchema(definition.InputSchema, schema.Limits{BoundIntegers: true})
	if err == nil {
		added.input = input
		added.headers, err = rules.ParseMirrors(input.Raw())
	}
	if err != nil {
		report(fmt.Errorf("input schema: %w", err))
	}
	output, err := outputSchema(definition.OutputSchema, nil)
	if err != nil {
		report(err)
	}
	if output != nil {
		check := checkOutput(output)
		added.check = func(structured json.RawMessage) error {
			if err := check(structured); err != nil {
				report(fmt.Errorf("structuredContent: %w", err))
			}
			return nil
		}
	}
	mustRegister("tool", definition.Name, c.tools.addEntry(added))
}

// Relay answers a request that is not refused, bypassing the server's registrations. It is for
// middleware that relays requests to another server. Calls may overlap.
func (s *Server) Relay(ctx context.Context, request *Request, relayed Relayed) (
	protocol.Result, error) {
	var arguments json.RawMessage
	retry := &protocol.Retry{}
	switch p := request.Params.(type) {
	case *protocol.CallToolParams:
		arguments, retry = p.Arguments, &p.Retry
		if err := request.checkRelayedHeaders(relayed.InputSchema, arguments); err != nil {
			return nil, err
		}
	case *protocol.GetPromptParams:
		arguments, retry = p.Arguments, &p.Retry
	case *protocol.ReadResourceParams:
		retry = &p.Retry
	}
	call := roundtripCall(request, arguments, retry)
	call.AcceptUnsolicited = relayed.AcceptUnsolicited
	request.releaseBody()
	return s.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
		c := newCall(ctx, request)
		result, err := relayed.Handle(ctx, &c)
		return s.convertOutcome(ctx, request, result, err)
	})
}

func (request *Request) checkRelayedHeaders(schema, arguments json.RawMessage) error {
	lines := request.paramHeaders
	request.paramHeaders = nil
	if lines == nil || !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil
	}
	mirrored, err := rules.ParseMirrors(schema)
	if err != nil {
		return nil
	}
	if err := request.checkParamHeaders(mirrored, arguments, lines); err != nil {
		request.Refuse(protocol.Errorf(protocol.CodeHeaderMismatch, "%v", err))
		return request.refusal
	}
	return nil
}

// MirrorsHeaders reports whether headers must agree with arguments, by [Relayed].InputSchema.
func (request *Request) MirrorsHeaders() bool { return request.paramHeaders != nil }

// Session returns the session of the request, nil in revision 2026-07-28.
func (request *Request) Session() *Session {
	x, _ := request.era.(*Session)
	return x
}

// Lifetime returns a context that ends when the session is closed.
func (x *Session) Lifetime() context.Context { return x.lifetime }

// LogLevel returns the least severe level that the client wants.
func (x *Session) LogLevel() protocol.LoggingLevel { return x.logLevel(nil) }

// Send sends the client a notification unrelated to any request. It fails if the session is closed
// or cannot send one, and may fail while no client is connected.
func (x *Session) Send(ctx context.Context, n *protocol.Notification) error {
	return x.sendNow(ctx, n)
}

// ListChanged announces the change of an externally kept list to clients that see the catalog.
func (c *Catalog) ListChanged(kind Kind) {
	method := protocol.MethodListResources
	switch kind {
	case KindTool:
		method = protocol.MethodListTools
	case KindPrompt:
		method = protocol.MethodListPrompts
	}
	c.server.hub.noteListChanged(c, method)
}

// ListHints returns the cache hints of lists for the caller.
func (s *Server) ListHints(request *Request) protocol.CacheHints {
	return s.listHints(request.private)
}
