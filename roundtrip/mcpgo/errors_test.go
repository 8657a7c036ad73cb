package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// exchangeHTTP returns a function that sends a message over HTTP as a client of a revision,
// and returns the status and the body.
func exchangeHTTP(t *testing.T, h http.Handler, revision string) func(message string) string {
	t.Helper()
	session := ""
	send := func(message string) (*httptest.ResponseRecorder, string) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(message))
		r = r.WithContext(within(t))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", revision)
		if revision == modern {
			method, target := between(message, `"method":"`), between(message, `"name":"`)
			r.Header.Set("Mcp-Method", method)
			r.Header.Set("Mcp-Name", target+between(message, `"uri":"`))
		}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w, fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String()))
	}
	if revision != modern {
		w, _ := send(handshake(revision))
		session = w.Header().Get("Mcp-Session-Id")
	}
	return func(message string) string { _, got := send(message); return got }
}

// between returns what is between a prefix and the next quotation mark.
func between(text, prefix string) string {
	_, rest, _ := strings.Cut(text, prefix)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Middleware outside of the adapter sees the handler's own error.
func TestErrorsKeepTheirType(t *testing.T) {
	var seen error
	s := newHostServer(server.WithResourceHandlerMiddleware(
		func(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
			return func(ctx context.Context,
				r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				contents, err := next(ctx, r)
				seen = err
				return contents, err
			}
		}))
	s.AddResource(mcp.NewResource("test://wrapped", "wrapped"),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return nil, fmt.Errorf("read: %w", io.ErrUnexpectedEOF)
		})
	send := senders(t, install(t, s, nil), s)["http"](t)
	send(request{method: "resources/read", target: "test://wrapped"}.message())
	if !errors.Is(seen, io.ErrUnexpectedEOF) {
		t.Errorf("seen %v", seen)
	}
}

// panics collects the panics that are reported.
type panics struct {
	mu     sync.Mutex
	values []any
}

func (p *panics) Observe(_ context.Context, e event.Event) {
	if e, ok := e.(event.HandlerPanicked); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.values = append(p.values, e.Value)
	}
}

// Of what panics or returns a nil result, inside or outside of the middleware, the client
// gets an error, and the next request is served.
func TestPanicsAndNilResultsAreAnswered(t *testing.T) {
	hooks := &server.Hooks{}
	hooks.AddBeforeGetPrompt(func(_ context.Context, _ any, r *mcp.GetPromptRequest) {
		if r.Params.Name == "hook" {
			panic("hook")
		}
	})
	newServer := func() *server.MCPServer {
		s := newHostServer(server.WithHooks(hooks), server.WithCompletions(),
			server.WithToolFilter(func(_ context.Context, tools []mcp.Tool) []mcp.Tool {
				panic("filter")
			}),
			server.WithPromptCompletionProvider(completer{}))
		s.AddPrompt(mcp.NewPrompt("hook"), nil)
		s.AddPrompt(mcp.NewPrompt("panic"),
			func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				panic("prompt")
			})
		s.AddPrompt(mcp.NewPrompt("nil"),
			func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return nil, nil
			})
		s.AddResource(mcp.NewResource("test://panic", "panic"),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				panic("resource")
			})
		s.AddPrompt(mcp.NewPrompt("fine"),
			func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return briefed("fine"), nil
			})
		return s
	}
	complete := func(name string) string {
		return `"ref":{"type":"ref/prompt","name":"` + name +
			`"},"argument":{"name":"a","value":""}`
	}
	for _, tc := range []struct {
		name, method, params string
		panics               []any // as reported; on lines the host recovers most of them
	}{
		{"a hook panics", "prompts/get", `"name":"hook"`, []any{"hook"}},
		{"a prompt panics", "prompts/get", `"name":"panic"`, []any{"prompt"}},
		{"a prompt is nil", "prompts/get", `"name":"nil"`, nil},
		{"a resource panics", "resources/read", `"uri":"test://panic"`, []any{"resource"}},
		{"a completion panics", "completion/complete", complete("panic"), []any{"completion"}},
		{"a completion is nil", "completion/complete", complete("nil"), nil},
		{"a filter panics", "tools/list", ``, []any{"filter"}},
	} {
		for _, revision := range []string{modern, v20251125} {
			for _, transport := range []string{"http", "lines"} {
				t.Run(tc.name+"/"+revision+"/"+transport, func(t *testing.T) {
					s := newServer()
					found := &panics{}
					a := install(t, s, &mcpgo.Options{
						Options: roundtrip.Options{Observer: found}})
					var send func(string) string
					if transport == "http" {
						send = exchangeHTTP(t,
							a.Handler(server.NewStreamableHTTPServer(s, quiet())), revision)
					} else {
						lines := senders(t, a, s)["lines"](t)
						send = func(message string) string { return lines(message).body }
						if revision != modern {
							send(handshake(revision))
						}
					}
					message := func(method, params string) string {
						if revision == modern {
							params = strings.TrimPrefix(params+
								`,"_meta":{"io.modelcontextprotocol/protocolVersion":"`+modern+
								`","io.modelcontextprotocol/clientCapabilities":{}}`, ",")
						}
						return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` +
							params + `}}`
					}
					got := send(message(tc.method, tc.params))
					if !strings.Contains(got, `"id":7,"error":{"code":-32603`) &&
						!strings.Contains(got, `"completion":{"values":[]}`) {
						t.Errorf("got %s", got)
					}
					if transport == "http" && !slices.Equal(found.values, tc.panics) {
						t.Errorf("reported %v", found.values)
					}
					if got := send(message("prompts/get", `"name":"fine"`)); !strings.Contains(got,
						"fine") {
						t.Errorf("afterwards: got %s", got)
					}
				})
			}
		}
	}
}

// completer panics, or returns nil.
type completer struct{}

func (completer) CompletePromptArgument(_ context.Context, name string, _ mcp.CompleteArgument,
	_ mcp.CompleteContext) (*mcp.Completion, error) {
	if name == "panic" {
		panic("completion")
	}
	return nil, nil
}
