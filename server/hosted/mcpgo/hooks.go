package mcpgo

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// addHooks adds this package's hooks, which run outside all middleware, once to a server. The
// server gets a copy: several servers may share the original.
func addHooks(s *server.MCPServer) {
	var hooks server.Hooks
	if own := s.GetHooks(); own != nil {
		hooks = *own
	}
	if slices.ContainsFunc(hooks.OnBeforeAny, isAddHeaders) {
		return
	}
	hooks.OnBeforeAny = slices.Concat([]server.BeforeAnyHookFunc{addHeaders}, hooks.OnBeforeAny)
	hooks.OnError = slices.Concat(hooks.OnError, []server.OnErrorHookFunc{noteURLs})
	hooks.OnUnregisterSession = slices.Concat(hooks.OnUnregisterSession,
		[]server.OnUnregisterSessionHookFunc{endSession})
	server.WithHooks(&hooks)(s)
}

// isAddHeaders reports whether a hook is addHeaders. Functions cannot be compared.
func isAddHeaders(hook server.BeforeAnyHookFunc) bool {
	return reflect.ValueOf(hook).Pointer() == reflect.ValueOf(addHeaders).Pointer()
}

// addHeaders sets the caller's headers in a request, as mcp-go's HTTP server does.
func addHeaders(ctx context.Context, _ any, _ mcp.MCPMethod, message any) {
	r := runFrom(ctx)
	if r == nil || r.caller.Header == nil {
		return
	}
	field := reflect.Indirect(reflect.ValueOf(message)).FieldByName("Header")
	if header := reflect.ValueOf(r.caller.Header.Clone()); field.CanSet() &&
		header.Type().AssignableTo(field.Type()) {
		field.Set(header)
	}
}

// noteURLs keeps the error that requires visits, which mcp-go hides if questions may be returned.
func noteURLs(ctx context.Context, _ any, _ mcp.MCPMethod, _ any, err error) {
	r := runFrom(ctx)
	if r == nil {
		return
	}
	var required mcp.URLElicitationRequiredError
	var pointer *mcp.URLElicitationRequiredError
	switch {
	case errors.As(err, &required):
	case errors.As(err, &pointer) && pointer != nil:
		required = *pointer
	default:
		return
	}
	details := required.JSONRPCError().Error
	r.urls = &details
}

// endSession ends a session that the server has unregistered.
func endSession(_ context.Context, s server.ClientSession) {
	if x, ok := s.(*session); ok {
		x.end()
	}
}
