package mcpgo

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/mark3labs/mcp-go/server"
)

// Mistakes in the use of the adapter. They go to the observer, and to the client as well:
// without an observer nobody else would read what is missing.
var (
	errInstalledTwice = errors.New("mcpgo: two adapters are installed on one server; use one " +
		"Adapter for all servers")
	errNotInstalled = errors.New("mcpgo: the request came through Adapter.Handler, but its " +
		"server is not installed; call Adapter.Install with it, or give Adapter.Option to " +
		"server.NewMCPServer")
	errNotWrapped = errors.New("mcpgo: the server has Adapter.Install, but the request did not " +
		"come through the adapter; serve Adapter.Handler in place of the " +
		"StreamableHTTPServer (also in place of its Start), and keep the request's context in " +
		"WithHTTPContextFunc and in HTTP middleware")
	errNotListening = errors.New("mcpgo: the server has Adapter.Install, but the request did " +
		"not come through the adapter; call Adapter.Listen in place of server.ServeStdio or " +
		"StdioServer.Listen, and keep the context in WithStdioContextFunc")
)

// ensureInstalled adds the middleware, unless s has it. When it returns, s has it, also
// where another goroutine installs at the same time.
func (a *Adapter) ensureInstalled(s *server.MCPServer) {
	key := weak.Make(s)
	known, ok := a.installed.Load(key)
	if !ok {
		known, ok = a.installed.LoadOrStore(key, new(sync.Once))
		if !ok {
			runtime.AddCleanup(s, a.forgetServer, key)
		}
	}
	known.(*sync.Once).Do(func() {
		server.WithToolHandlerMiddleware(a.wrapTool)(s)
		server.WithPromptHandlerMiddleware(a.wrapPrompt)(s)
		server.WithResourceHandlerMiddleware(a.wrapResource)(s)
		a.used.Store(true)
	})
}

// forgetServer removes a server that nobody uses any more.
func (a *Adapter) forgetServer(key weak.Pointer[server.MCPServer]) { a.installed.Delete(key) }

// findServer returns the server that a transport of mcp-go serves, nil for handlers of
// other types. The field is not exported; a check of the self-test reads it.
func findServer(transport any) *server.MCPServer {
	switch transport.(type) {
	case *server.StreamableHTTPServer, *server.StdioServer:
	default:
		return nil
	}
	v := reflect.ValueOf(transport)
	if v.IsNil() {
		return nil
	}
	field := v.Elem().FieldByName("server")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*server.MCPServer]() {
		return nil
	}
	return (*server.MCPServer)(field.UnsafePointer())
}

// checkInstallation returns what is missing before a request may pass the funnel, nil if
// nothing is.
func (a *Adapter) checkInstallation(ctx context.Context, header http.Header) error {
	s := server.ServerFromContext(ctx)
	if outer, ok := ctx.Value(servingKey{}).(serving); ok && outer.adapter != a &&
		outer.server == s {
		return errInstalledTwice
	}
	if rw := rewriterFrom(ctx); rw != nil && rw.adapter == a {
		return nil
	}
	switch session := server.ClientSessionFromContext(ctx).(type) {
	case nil, *server.InProcessSession, interface{ realSession() server.ClientSession }:
		return nil
	case server.SessionWithStreamableHTTPConfig:
		if len(header) > 0 { // sessions of other packages come without
			return errNotWrapped
		}
	default:
		if session.SessionID() == stdioSessionID {
			return errNotListening
		}
	}
	return nil
}

// servingKey is the context key of the request that an adapter serves.
type servingKey struct{}

type serving struct {
	adapter *Adapter
	server  *server.MCPServer
}
