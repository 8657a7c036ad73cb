package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Tool describes a tool to register (server/tools). It must not be changed afterwards.
type Tool struct {
	// Name is unique within the server. Headers carry it and models write it: up to 128 ASCII
	// letters, digits, '_', '-' and '.' (server/tools, "Tool Names"); clients may refuse others.
	Name        string
	Title       string
	Description string
	Icons       []protocol.Icon
	Annotations *protocol.ToolAnnotations
	Meta        protocol.Meta
	// InputSchema describes the arguments; its type must be "object". If nil, it is inferred from
	// the handler's input type or, without one, any object.
	InputSchema json.RawMessage
	// OutputSchema describes structured content, which successful results must have. If nil, it is
	// inferred from the handler's output type, if any.
	OutputSchema json.RawMessage
	// Needs are required capabilities. A client that lacks any is refused before the handler runs,
	// with an error that lists them. Questions are checked anyway, when they are asked.
	Needs protocol.ClientCapabilities
	// Scopes are all required: a request that lacks any is refused with a [*ScopeError] before
	// Needs is checked. Over HTTP a serverhttp.Authority supplies the scopes of callers, who have
	// none without it. The local caller (in process, stdio) has all. Lists ignore scopes.
	Scopes []string
	// AcceptUnsolicited accepts answers without proof of a question; see [roundtrip.Call].
	AcceptUnsolicited bool
	Task              TaskMode // says whether calls become tasks, with package server/tasks
}

// A ToolCall is one leg of a call of a tool.
type ToolCall struct {
	Call
	Name string
	// Arguments is the JSON object of the call, {} if absent. It matches the input schema. Optional
	// members sent as null are left out, unless the schema admits null there.
	Arguments json.RawMessage
}

type tool struct {
	definition        protocol.Tool
	needs             protocol.ClientCapabilities
	scopes            []string
	acceptUnsolicited bool
	task              TaskMode
	input             *schema.Schema                         // nil: not checked
	noText            map[string]bool                        // see Options.ParseArguments; or nil
	relayed           bool                                   // arguments are passed on as they came
	check             func(structured json.RawMessage) error // nil without an output schema
	headers           rules.Mirrors                          // mirrored arguments
	handle            func(ctx context.Context, call *ToolCall) (protocol.CallToolOutcome, error)
}

func (t *tool) entryKey() string { return t.definition.Name }

// AddTool registers a tool whose arguments are decoded into In. The input schema is inferred from
// In unless t has one: fields are named and omitted as by encoding/json, required unless they omit
// empty values, and described by a tag such as `jsonschema:"what it means"`. The tags of forms
// apply: title, minimum, maximum, minLength, maxLength, minItems, maxItems, format, enum,
// enumTitles and default. An absent member gets its default in In, not in call.Arguments. Other
// constraints go into t.InputSchema, which is used unchanged. Invalid arguments never reach the
// handler; the caller learns which field is wrong.
//
// AddTool may be called while the server runs. It panics, as registering with net/http does, if the
// tool is invalid: no name or a taken one, no handler, an unusable type or schema, a misspelled
// ("minumum", "pattern", "required") or contradictory tag, or an InputSchema that does not fit In:
// a property without a field, a type that its field cannot be decoded from, a bound in a tag that
// the schema lacks. Tags of other libraries are ignored.
func AddTool[In any](s Registrar, t Tool,
	handler func(ctx context.Context, call *ToolCall, in In) (protocol.CallToolOutcome, error)) {
	mustRegister("tool", t.Name, checkHandler(handler != nil))
	s.registrations().addTool(t, reflect.TypeFor[In](), nil, withArguments(handler))
}

func withArguments[In any](
	next func(ctx context.Context, call *ToolCall, in In) (protocol.CallToolOutcome, error),
) func(context.Context, *ToolCall) (protocol.CallToolOutcome, error) {
	decoder, absent := jsonx.NewDecoder[In](), defaultsOf(reflect.TypeFor[In]())
	return func(ctx context.Context, call *ToolCall) (protocol.CallToolOutcome, error) {
		in, err := decodeArguments(decoder, absent.fillAbsent(call.Arguments))
		if err != nil {
			return badArguments(err), nil
		}
		return next(ctx, call, in)
	}
}

// AddToolOut registers a tool that returns a value of type Out, sent as structured content and, for
// older clients, as JSON in a text block. The output schema is inferred from Out unless t has one.
//
// The handler asks with roundtrip.Ask and its kind, or returns an [*InputRequiredError]. Without a
// value it returns a [*ToolError]: the client gets its text as an error result, which needs no
// structured content (server/tools, "Output Schema"). Otherwise it is like [AddTool].
func AddToolOut[In, Out any](s Registrar, t Tool,
	handler func(ctx context.Context, call *ToolCall, in In) (Out, error)) {
	mustRegister("tool", t.Name, checkHandler(handler != nil))
	s.registrations().addTool(t, reflect.TypeFor[In](), reflect.TypeFor[Out](), withArguments(
		func(ctx context.Context, call *ToolCall, in In) (protocol.CallToolOutcome, error) {
			out, err := handler(ctx, call, in)
			if err != nil {
				return nil, err
			}
			return Structured(out)
		}))
}

// AddRawTool registers a tool that decodes its arguments itself. They match the input schema, by
// default any object. Otherwise it is like [AddTool].
func AddRawTool(s Registrar, t Tool,
	handler func(ctx context.Context, call *ToolCall) (protocol.CallToolOutcome, error)) {
	mustRegister("tool", t.Name, checkHandler(handler != nil))
	s.registrations().addTool(t, reflect.TypeFor[any](), nil, handler)
}

// RemoveTool removes a tool and reports whether it existed. Running calls go on.
func (s *Server) RemoveTool(name string) bool { return s.own.tools.removeEntry(name) }

// addTool registers a tool. out is nil for handlers that build their results.
func (c *Catalog) addTool(t Tool, in, out reflect.Type,
	handle func(context.Context, *ToolCall) (protocol.CallToolOutcome, error)) {
	input, err := inputSchema(t.InputSchema, in)
	mustRegister("tool", t.Name, checkName(t.Name), validateScopes(t.Scopes), err)
	output, err := outputSchema(t.OutputSchema, out)
	mustRegister("tool", t.Name, err)
	mirrored, err := rules.ParseMirrors(input.Raw())
	mustRegister("tool", t.Name, err)
	added := &tool{
		definition: protocol.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, Icons: t.Icons,
			InputSchema: input.Raw(), Annotations: t.Annotations, Meta: t.Meta,
		},
		needs: t.Needs, scopes: t.Scopes, acceptUnsolicited: t.AcceptUnsolicited, task: t.Task,
		input: input, headers: mirrored, handle: handle,
	}
	if c.server.opts.ParseArguments {
		added.noText = propertiesWithoutText(input.Raw())
	}
	if output != nil {
		added.definition.OutputSchema = output.Raw()
		added.check = checkOutput(output)
	}
	mustRegister("tool", t.Name, c.tools.addEntry(added))
}

func checkOutput(output *schema.Schema) func(json.RawMessage) error {
	return func(structured json.RawMessage) error {
		if structured == nil {
			return errors.New("must be present: the tool has an output schema")
		}
		return output.Validate(structured)
	}
}

func renderTools(tools []*tool, next string, cache protocol.CacheHints) protocol.Result {
	return &protocol.ListToolsResult{NextCursor: next, Cache: cache,
		Tools: definitionsOf(tools, func(t *tool) protocol.Tool { return t.definition })}
}

func (s *Server) callTool(ctx context.Context, request *Request,
	p *protocol.CallToolParams) (protocol.Result, error) {
	t, ok := find(s, request, KindTool, toolsOf, p.Name)
	if !ok {
		return nil, protocol.Errorf(protocol.CodeInvalidParams,
			"unknown tool: %s; tools/list has the names", clipQuoted(p.Name))
	}
	if lines := request.paramHeaders; lines != nil {
		request.paramHeaders = nil
		if err := request.checkParamHeaders(t.headers, p.Arguments, lines); err != nil {
			request.Refuse(protocol.Errorf(protocol.CodeHeaderMismatch, "%v", err))
			return nil, request.refusal
		}
	}
	if err := request.checkScopes(t.scopes); err != nil {
		return nil, err
	}
	if err := s.checkNeeds(ctx, request, t.needs); err != nil {
		return request.era.refuseTool(err)
	}
	call := roundtripCall(request, p.Arguments, &p.Retry)
	call.AcceptUnsolicited, call.CheckOutput = t.acceptUnsolicited, t.check
	request.releaseBody()
	if x := s.extensions.Load(); x != nil && x.runTool != nil {
		return s.runTool(ctx, x, request, t, p, call)
	}
	if t.task == TaskMust && request.Version.Era() == protocol.Modern {
		return nil, s.reportBug(ctx, request, errNoTasks)
	}
	return s.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
		return s.handleTool(ctx, request, t, p)
	})
}

func (s *Server) handleTool(ctx context.Context, request *Request, t *tool,
	p *protocol.CallToolParams) (protocol.Result, error) {
	// Equal memory is compared without reading it; another check would cost 2 % of a call.
	checked := bytes.Equal(p.Arguments, request.checkedArguments)
	arguments, err := t.readArguments(p.Arguments, checked)
	if err != nil {
		parsed, names := t.parseTexts(p.Arguments)
		if names == nil {
			return badArguments(err), nil
		}
		s.reportRepair(ctx, request, names...)
		arguments = parsed
	}
	result, err := t.handle(ctx,
		&ToolCall{Call: newCall(ctx, request), Name: p.Name, Arguments: arguments})
	return s.convertOutcome(ctx, request, result, err)
}

// readArguments returns the arguments for the handler, without nulls that mean absent; a flow's
// state stays bound to the original. Arguments replaced by middleware must be strict JSON.
func (t *tool) readArguments(arguments json.RawMessage, checked bool) (json.RawMessage, error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments, checked = json.RawMessage("{}"), true
	}
	if !checked {
		if err := jsonx.Check(arguments); err != nil {
			return nil, err
		}
	}
	if t.input == nil {
		return arguments, nil
	}
	dropped := t.input.DropNulls(arguments)
	if !t.relayed {
		arguments = dropped
	}
	return arguments, t.input.ValidateChecked(dropped)
}

// badArguments returns a tool result, for the model to correct (server/tools, "Error Handling").
func badArguments(err error) *protocol.CallToolResult {
	return ErrorText(fmt.Sprintf("invalid arguments: %v", err))
}

func checkHandler(handler bool) error {
	if !handler {
		return errors.New("handler must not be nil")
	}
	return nil
}
