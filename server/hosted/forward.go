package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// answerHosted is the innermost middleware: requests for offered features go to the hosted server.
func (h *Server) answerHosted(next server.Handler) server.Handler {
	return func(ctx context.Context, req *server.Request) (protocol.Result, error) {
		if req.Refusal() != nil {
			return next(ctx, req)
		}
		switch p := req.Params.(type) {
		case *protocol.InitializeParams:
			return h.answerInitialize(ctx, req, next)
		case *protocol.ListenParams:
			return h.answerListen(ctx, req, p, next)
		case *protocol.SubscribeParams:
			return h.answerSubscribe(ctx, req, p, next)
		case *protocol.ListParams, *protocol.CompleteParams, *protocol.CallToolParams,
			*protocol.GetPromptParams, *protocol.ReadResourceParams:
			return h.forward(ctx, req)
		}
		return next(ctx, req)
	}
}

// answerInitialize opens the hosted server's session along with the client's.
func (h *Server) answerInitialize(
	ctx context.Context, req *server.Request, next server.Handler,
) (protocol.Result, error) {
	s, giveBack, err := h.sessions.sessionFor(ctx, req)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	req.Catalogs = append(req.Catalogs, s.catalog)
	result, err := next(ctx, req)
	if r, ok := result.(*protocol.InitializeResult); ok && err == nil &&
		h.opts.Server.Instructions == "" {
		own := *r
		own.Instructions = s.offers.Instructions
		return &own, nil
	}
	return result, err
}

func (h *Server) forward(ctx context.Context, req *server.Request) (protocol.Result, error) {
	s, giveBack, err := h.sessions.sessionFor(ctx, req)
	if err != nil {
		return nil, err
	}
	kept := false // a handler that goes on after this request keeps the session
	defer func() {
		if !kept {
			giveBack()
		}
	}()
	caller := callerOf(ctx, req)
	caller.SessionID = s.caller.SessionID
	relayed := server.Relayed{
		AcceptUnsolicited: slices.Contains(h.opts.AcceptUnsolicited, req.Target),
	}
	if req.MirrorsHeaders() {
		relayed.InputSchema = s.annotated().schemaOf(ctx, s, req.Target)
	}
	method, params, hints := req.Message.Method, req.Params, h.front.ListHints(req)
	runsOnce := method == protocol.MethodCallTool && slices.Contains(h.opts.Park, req.Target) &&
		(req.Session() == nil || h.opts.Server.Roundtrip.Page != nil) // calls go on by text, too
	relayed.Handle = func(ctx context.Context, call *server.Call) (protocol.Result, error) {
		ctx = WithCaller(ctx, caller)
		l := newLeg(ctx, s, call)
		l.optional, l.lenient = slices.Contains(h.opts.Optional, req.Target),
			relayed.AcceptUnsolicited
		if runsOnce {
			keep := func() func() { kept = true; return giveBack }
			return h.parkCall(ctx, call, l, keep, method, params)
		}
		result, err := l.run(method, params)
		if err == nil {
			s.noteLists(result, hints)
		}
		return result, err
	}
	return h.park.WatchRequest(ctx, req,
		func(ctx context.Context, req *server.Request) (protocol.Result, error) {
			return h.front.Relay(ctx, req, relayed)
		})
}

// noteLists sets the cache hints of lists, and records which tools mirror arguments into headers.
func (s *session) noteLists(result protocol.Result, hints protocol.CacheHints) {
	switch r := result.(type) {
	case *protocol.ListToolsResult:
		r.Cache = hints
		s.annotated().note(r.Tools)
	case *protocol.ListPromptsResult:
		r.Cache = hints
	case *protocol.ListResourcesResult:
		r.Cache = hints
	case *protocol.ListResourceTemplatesResult:
		r.Cache = hints
	}
}

// An annotatedTools has the listed tools, with schemas that mirror arguments into headers: over
// HTTP calls of revision 2026-07-28 are checked against them.
type annotatedTools struct {
	mu      sync.Mutex
	schemas map[string]json.RawMessage // nil: the tool mirrors none
	whole   bool                       // all tools have been read
}

func (a *annotatedTools) note(tools []protocol.Tool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.schemas == nil {
		a.schemas = map[string]json.RawMessage{}
	}
	for i := range tools {
		schema := json.RawMessage(nil)
		if bytes.Contains(tools[i].InputSchema, []byte("x-mcp-header")) {
			schema = bytes.Clone(tools[i].InputSchema)
		}
		a.schemas[tools[i].Name] = schema
	}
}

func (a *annotatedTools) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.schemas, a.whole = nil, false
}

// schemaOf returns the schema of a tool that mirrors arguments, or nil. It lists the session's
// tools unless the tool is known: callers may see different tools.
func (a *annotatedTools) schemaOf(
	ctx context.Context, s *session, name string,
) json.RawMessage {
	if schema, listed := a.find(name); listed {
		return schema
	}
	cursor := ""
	for range maxPages {
		result, err := s.list(ctx, cursor)
		if err != nil {
			return nil // the call will report the error
		}
		a.note(result.Tools)
		if result.NextCursor == "" || result.NextCursor == cursor {
			break
		}
		cursor = result.NextCursor
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.whole = a == &s.tools // a shared server may list other tools to the next caller
	return a.schemas[name]
}

const maxPages = 1000 // pages of a list that are read

func (a *annotatedTools) find(name string) (schema json.RawMessage, listed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	schema, listed = a.schemas[name]
	return schema, listed || a.whole
}

func (s *session) list(ctx context.Context, cursor string) (*protocol.ListToolsResult, error) {
	raw, err := s.send(ctx, protocol.MethodListTools, &protocol.ListParams{Cursor: cursor})
	if err != nil {
		return nil, err
	}
	result, err := protocol.DecodeResult(protocol.V20251125, protocol.MethodListTools, raw)
	if err != nil {
		return nil, err
	}
	return result.(*protocol.ListToolsResult), nil
}
