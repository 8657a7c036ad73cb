package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// An Extension adds features to a server that the protocol itself lacks (basic/versioning,
// "Extensions"), as package server/tasks does. Only clients of revision 2026-07-28 see its
// declaration and methods, not sessions. It must not be changed after [AddExtension].
type Extension struct {
	// Name is declared by clients and servers, such as "io.modelcontextprotocol/tasks".
	Name     string
	Settings json.RawMessage // declared with the name, a JSON object; nil means empty
	Methods  []ExtensionMethod
	// RunTool is called for each permitted tools/call, in sessions too. Calls overlap. May be nil.
	RunTool func(ctx context.Context, run *ToolRun, next ToolRunner) (protocol.Result, error)
	// Listen is called when a client opens a subscription to tasks. It returns the tasks of which
	// the client will be notified, and the sender of notifications, which may be nil. Calls
	// overlap. If nil, there are no notifications about tasks.
	Listen func(ctx context.Context, call *ExtensionCall, taskIDs []string) (
		heard []string, announce Announce, err error)
}

// An Announce is a function that sends notifications on a subscription until ctx ends. send adds
// the id of the subscription, and fails if the client is gone.
type Announce func(ctx context.Context, send func(*protocol.Notification) error)

// An ExtensionMethod is a request method of an extension.
type ExtensionMethod struct {
	Method string // its name, not one of the protocol itself
	// Target is the parameter, a string, that the header Mcp-Name repeats. Over HTTP requests with
	// a missing or different header are refused. If empty, there is no such header.
	Target string
	// Undeclared also serves clients that did not declare the extension, instead of refusing them.
	Undeclared bool
	// Handle answers the request. Calls overlap.
	Handle func(ctx context.Context, call *ExtensionCall) (protocol.Result, error)
}

// An ExtensionCall is one request of an extension.
type ExtensionCall struct {
	Call
	// Params are a [*protocol.ExtensionParams], or the type in package protocol for the method.
	Params protocol.Params
	Target string // value of [ExtensionMethod].Target

	server *Server
}

// SeesResource reports whether the caller sees the resource; if not, do not mention the resource.
func (c *ExtensionCall) SeesResource(uri string) bool {
	_, sees := find(c.server, c.request, KindResource, resourcesOf, uri)
	return sees
}

// ListCache returns the cache hints of lists for this caller.
func (c *ExtensionCall) ListCache() protocol.CacheHints {
	return c.server.listHints(c.request.private)
}

// A ToolRun is the call of a tool on its way to the handler, see [Extension].RunTool.
type ToolRun struct {
	Request *Request        // as middleware passed it on
	Task    TaskMode        // as in the [Tool]
	Call    *roundtrip.Call // goes to the funnel; may be changed before the tool runs
}

// A ToolRunner runs a tool.
type ToolRunner func(ctx context.Context) (protocol.Result, error)

// A TaskMode says whether calls of a tool become tasks, which begin with [roundtrip.BeginTask].
type TaskMode int

// The modes. Without client support, a TaskCan tool runs in the foreground, and a TaskMust tool
// refuses clients of revision 2026-07-28. Sessions lack tasks: both run in the foreground.
const (
	TaskNever TaskMode = iota
	TaskCan
	TaskMust
)

// extensions are immutable: an addition replaces the table, so that reads need no lock.
type extensions struct {
	methods map[string]*extensionMethod
	named   map[string]json.RawMessage
	runTool func(context.Context, *ToolRun, ToolRunner) (protocol.Result, error)
	listen  *Extension
}

type extensionMethod struct {
	ExtensionMethod
	extension string
	typed     bool // package protocol has a type for its parameters
}

// AddExtension adds an extension, even while the server runs. It panics if e is invalid: no name or
// a taken one, an existing method or one without handler, Settings that are not an object.
func AddExtension(s *Server, e Extension) {
	mustRegister("extension", e.Name, checkName(e.Name))
	if e.Settings == nil {
		e.Settings = json.RawMessage("{}")
	}
	err := jsonx.Check(e.Settings)
	if err == nil && jsonx.KindOf(e.Settings) != jsonx.Object {
		err = fmt.Errorf("its Settings are not a JSON object")
	}
	mustRegister("extension", e.Name, err)
	s.extending.Lock()
	defer s.extending.Unlock()
	next := &extensions{methods: map[string]*extensionMethod{}, named: map[string]json.RawMessage{}}
	if old := s.extensions.Load(); old != nil {
		maps.Copy(next.methods, old.methods)
		maps.Copy(next.named, old.named)
		next.runTool, next.listen = old.runTool, old.listen
	}
	mustRegister("extension", e.Name, next.add(&e))
	s.extensions.Store(next)
}

func (x *extensions) add(e *Extension) error {
	if _, taken := x.named[e.Name]; taken {
		return fmt.Errorf("is added already")
	}
	x.named[e.Name] = e.Settings
	for _, m := range e.Methods {
		switch {
		case m.Handle == nil || m.Method == "":
			return fmt.Errorf("method %q: needs a name and Handle", m.Method)
		case x.methods[m.Method] != nil || isTyped(m.Method) && !isTaskMethod(m.Method):
			return fmt.Errorf("method %q: exists already", m.Method)
		}
		x.methods[m.Method] = &extensionMethod{m, e.Name, isTyped(m.Method)}
	}
	if e.RunTool != nil {
		if x.runTool != nil {
			return fmt.Errorf("another extension has a RunTool")
		}
		x.runTool = e.RunTool
	}
	if e.Listen != nil {
		if x.listen != nil {
			return fmt.Errorf("another extension has a Listen")
		}
		x.listen = e
	}
	return nil
}

// isTaskMethod reports whether a method is one of the extension tasks in package protocol.
func isTaskMethod(method string) bool {
	return method == protocol.MethodGetTask || method == protocol.MethodUpdateTask ||
		method == protocol.MethodCancelTask
}

func (s *Server) extensionMethod(method string) *extensionMethod {
	if x := s.extensions.Load(); x != nil {
		return x.methods[method]
	}
	return nil
}

// decodeParams returns the parameters and the target of a request.
func (s *Server) decodeParams(method string, raw json.RawMessage) (
	params protocol.Params, target string, err error) {
	m := s.extensionMethod(method)
	if m == nil || m.typed {
		if params, err = protocol.DecodeParams(method, raw); err == nil {
			target = targetOf(params)
		}
		return params, target, err
	}
	p, err := protocol.DecodeExtensionParams(raw)
	if err == nil && m.Target != "" {
		target, _, err = p.Text(m.Target)
	}
	return p, target, err
}

// isTyped reports whether package protocol has a type for the method's parameters.
func isTyped(method string) bool {
	_, err := protocol.DecodeParams(method, json.RawMessage(`{}`))
	wire, ok := protocol.AsError(err)
	return !ok || wire.Code != protocol.CodeMethodNotFound
}

func (s *Server) declareExtensions(c *protocol.ServerCapabilities) {
	x := s.extensions.Load()
	if x == nil {
		return
	}
	declared := maps.Clone(c.Extensions)
	if declared == nil {
		declared = map[string]json.RawMessage{}
	}
	maps.Copy(declared, x.named)
	c.Extensions = declared
}

func (s *Server) callExtension(ctx context.Context, request *Request, m *extensionMethod) (
	protocol.Result, error) {
	if !m.Undeclared {
		if err := s.checkNeeds(ctx, request, NeedsExtension(m.extension)); err != nil {
			return nil, err
		}
	}
	result, err := m.Handle(ctx, &ExtensionCall{Call: newCall(ctx, request),
		Params: request.Params, Target: request.Target, server: s})
	return result, request.spellLack(err)
}

// runTool calls x.RunTool. Not inlined, so that servers without extensions do not copy call.
//
//go:noinline
func (s *Server) runTool(ctx context.Context, x *extensions, request *Request, t *tool,
	p *protocol.CallToolParams, call roundtrip.Call) (protocol.Result, error) {
	next := func(ctx context.Context) (protocol.Result, error) {
		return s.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
			return s.handleTool(ctx, request, t, p)
		})
	}
	return x.runTool(ctx, &ToolRun{Request: request, Task: t.task, Call: &call}, next)
}

var errNoTasks = errors.New("a tool that must be a task was called, and the server has none: " +
	"call tasks.New")

// listenToTasks asks the extension which tasks the client will be notified of.
func (s *Server) listenToTasks(ctx context.Context, request *Request, ids []string) (
	heard []string, announce Announce, err error) {
	x := s.extensions.Load()
	if len(ids) == 0 || x == nil || x.listen == nil {
		return nil, nil, nil
	}
	if err := s.checkNeeds(ctx, request, NeedsExtension(x.listen.Name)); err != nil {
		return nil, nil, err
	}
	if len(ids) > maxSubscribedResources {
		ids = ids[:maxSubscribedResources]
	}
	return x.listen.Listen(ctx, &ExtensionCall{Call: newCall(ctx, request),
		Params: request.Params, server: s}, ids)
}

// NeedsExtension returns the capabilities of clients that declare an extension, for [Tool].Needs.
func NeedsExtension(name string) protocol.ClientCapabilities {
	return protocol.ClientCapabilities{
		Extensions: map[string]json.RawMessage{name: json.RawMessage("{}")}}
}

// refuseUndeclaredTask refuses a task handle from middleware for a client without the extension.
func refuseUndeclaredTask(request *Request) error {
	declared := declaredBy(request.Meta)
	if missing := declared.Lacks(NeedsExtension(protocol.ExtensionTasks)); !missing.IsZero() {
		return fmt.Errorf("a task for a client that has not declared %s", protocol.ExtensionTasks)
	}
	return nil
}

// InTask reports whether the request is a run of a task, for which no client waits: it has no
// credentials or address, and the timeout of a leg does not apply.
func (request *Request) InTask() bool { return request.inTask }
