package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// An Extension adds to a server what the protocol itself does not have (basic/versioning,
// "Extensions"), such as package server/tasks. It exists for clients of revision 2026-07-28 alone:
// sessions neither see it declared nor have its methods. It must not be changed after
// [AddExtension].
type Extension struct {
	// Name is declared by clients and servers, such as "io.modelcontextprotocol/tasks".
	Name string
	// Settings are declared with it, a JSON object. Nil: none.
	Settings json.RawMessage
	// Methods are its requests.
	Methods []ExtensionMethod
	// RunTool is called in place of each tools/call whose tool has been found and may be called,
	// also in sessions; next runs it. Calls overlap. Nil: tools run directly.
	RunTool func(ctx context.Context, run *ToolRun, next ToolRunner) (protocol.Result, error)
	// Listen is called when a client opens a subscription that names tasks. It returns the tasks
	// that the client will be notified of, and the sender of the notifications, which may be nil.
	// Calls overlap. Nil: no notifications about tasks.
	Listen func(ctx context.Context, call *ExtensionCall, taskIDs []string) (
		heard []string, announce Announce, err error)
}

// An Announce sends notifications on a subscription until ctx ends, by send, which adds the id of
// the subscription and fails when the client is gone.
type Announce func(ctx context.Context, send func(*protocol.Notification) error)

// An ExtensionMethod is a request that an extension defines.
type ExtensionMethod struct {
	// Method is its name, which the protocol itself does not have.
	Method string
	// Target is the member of the parameters, a string, that the header Mcp-Name repeats. Over HTTP
	// a request without the header, or with another value, is refused. Empty: none.
	Target string
	// Undeclared also serves clients that have not declared the extension. Otherwise they get
	// missing-capability errors.
	Undeclared bool
	// Handle answers the request. Calls overlap.
	Handle func(ctx context.Context, call *ExtensionCall) (protocol.Result, error)
}

// An ExtensionCall is one request of an extension.
type ExtensionCall struct {
	Call
	// Params are a [*protocol.ExtensionParams], or the type that package protocol has for the
	// method.
	Params protocol.Params
	// Target is the value of [ExtensionMethod].Target.
	Target string

	server *Server
}

// SeesResource reports whether the caller sees the resource, as for resources/read. If not, an
// extension must not reveal it.
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
	// Request is the request as middleware passed it on.
	Request *Request
	// Task is that of the [Tool].
	Task TaskMode
	// Call goes to the funnel. It may be changed before the tool runs.
	Call *roundtrip.Call
}

// A ToolRunner runs a tool.
type ToolRunner func(ctx context.Context) (protocol.Result, error)

// A TaskMode says whether calls of a tool become tasks, where package server/tasks is in use. The
// handler begins the task, with [roundtrip.BeginTask].
type TaskMode int

// The modes. A TaskCan tool runs in the foreground where the client does not support tasks. A
// TaskMust tool refuses such clients of revision 2026-07-28; in sessions, whose clients cannot
// support tasks, it runs in the foreground.
const (
	TaskNever TaskMode = iota
	TaskCan
	TaskMust
)

// extensions are those of a server. Reads do not lock: an addition replaces the table.
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

// AddExtension adds an extension, also while the server runs. It panics when the extension is
// invalid: no name or a taken one, a method without handler or that exists, Settings that are not
// an object.
func AddExtension(s *Server, e Extension) {
	mustRegister("extension", e.Name, checkName(e.Name))
	if e.Settings == nil {
		e.Settings = json.RawMessage("{}")
	}
	err := jsonx.Check(e.Settings)
	if err == nil && jsonx.KindOf(e.Settings) != jsonx.Object {
		err = fmt.Errorf("its Settings are no object")
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

// add adds e, and fails where it conflicts with another.
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

// isTaskMethod reports whether package protocol has the method for the extension tasks.
func isTaskMethod(method string) bool {
	switch method {
	case protocol.MethodGetTask, protocol.MethodUpdateTask, protocol.MethodCancelTask:
		return true
	}
	return false
}

func (s *Server) extensionMethod(method string) *extensionMethod {
	if x := s.extensions.Load(); x != nil {
		return x.methods[method]
	}
	return nil
}

// decodeParams reads the parameters of a request, also of an extension, and its target.
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

// isTyped reports whether package protocol has a type for the parameters of the method.
func isTyped(method string) bool {
	_, err := protocol.DecodeParams(method, json.RawMessage(`{}`))
	wire, ok := protocol.AsError(err)
	return !ok || wire.Code != protocol.CodeMethodNotFound
}

// declareExtensions adds the extensions to what the options declare.
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

// callExtension answers a request of an extension.
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

// runTool runs a tool through the extension's RunTool. It is not inlined, so that servers without
// extensions do not pay for the copy of call.
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

// listenToTasks asks the extension which of the tasks the client will be notified of.
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

// NeedsExtension returns the capabilities of a client that has declared an extension, for
// [Tool].Needs.
func NeedsExtension(name string) protocol.ClientCapabilities {
	return protocol.ClientCapabilities{
		Extensions: map[string]json.RawMessage{name: json.RawMessage("{}")}}
}

// refuseUndeclaredTask refuses a task handle, which only middleware can have made, for a client
// that has not declared the extension.
func refuseUndeclaredTask(request *Request) error {
	declared := declaredBy(request.Meta)
	if missing := declared.Lacks(NeedsExtension(protocol.ExtensionTasks)); !missing.IsZero() {
		return fmt.Errorf("a task for a client that has not declared %s", protocol.ExtensionTasks)
	}
	return nil
}

// InTask reports whether the request is a run of a task, for which no client waits: it has neither
// credentials nor an address, and the timeout of a leg does not apply.
func (request *Request) InTask() bool { return request.inTask }

// noteTaskRun marks the request of a run of a task.
func (request *Request) noteTaskRun(ctx context.Context) { request.inTask = rpc.IsTaskRun(ctx) }
