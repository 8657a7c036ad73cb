package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/fleettest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

func TestInstallRefuses(t *testing.T) {
	a, err := mcpgo.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Install(nil); err == nil {
		t.Error("a nil server: no error")
	}
	for _, tc := range []struct {
		name string
		opts roundtrip.Options
		want string
	}{
		{"no shared key", roundtrip.Options{RequireSharedKey: true},
			"a shared key is required"},
		{"no audience", roundtrip.Options{Sealer: fleettest.NewKeyring("k1")}, "set Audience"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := mcpgo.New(&mcpgo.Options{Options: tc.opts}); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestInProcess: mcp-go's client in the same process, where nothing is wrapped.
func TestInProcess(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for _, sc := range flowScenarios() {
			if strings.Contains("resource template", sc.name) && revision == modern {
				continue // needs Handler or Listen
			}
			t.Run(revision+"/"+sc.name, func(t *testing.T) {
				s := newHostServer()
				addFlow(s, changed())
				install(t, s, nil)
				who := newPerson(sc.answers)
				h := hostPerson{who}
				over := transport.NewInProcessTransportWithOptions(s,
					transport.WithElicitationHandler(h),
					transport.WithSamplingHandler(h), transport.WithRootsHandler(h))
				c := newHost(t, over, revision, who)
				got, err := sc.call(within(t), c)
				if err != nil || !strings.Contains(got, sc.want) {
					t.Errorf("got %q, %v, want %q", got, err, sc.want)
				}
				who.once(t, sc.asked...)
			})
		}
	}
}

// TestPrincipal: state is bound to who the host says calls.
func TestPrincipal(t *testing.T) {
	s := newHostServer()
	addGuard(s)
	var who atomic.Value
	who.Store("ada")
	opts := &mcpgo.Options{Principal: func(ctx context.Context,
		header http.Header) protocol.Principal {
		if ctx == nil || header.Get("Mcp-Method") == "" {
			t.Error("the principal is asked for without the request")
		}
		return protocol.Principal{Issuer: "test", Subject: who.Load().(string)}
	}}
	endpoint, _ := serveHTTP(t, install(t, s, opts), s)
	send := post(t, endpoint)
	first := send(typed.message())
	who.Store("eve")
	if got := send(typed.retry(first,
		yes).message()); got.Error.Code != protocol.CodeInvalidParams {
		t.Errorf("another's state: got %s", got.body)
	}
	who.Store("ada")
	if got := send(typed.retry(first, yes).message()); got.text() != "much 2" {
		t.Errorf("one's own state: got %s", got.body)
	}
}

// TestLocalPrincipal: what was asked on standard output is not answered over
// HTTP, whatever session the caller claims to have.
func TestLocalPrincipal(t *testing.T) {
	s := newHostServer()
	addGuard(s)
	a := install(t, s, nil)
	send := senders(t, a, s)
	first := send["lines"](t)(typed.message())
	endpoint, _ := serveHTTP(t, a, s)
	got := post(t, endpoint, "Mcp-Session-Id", "stdio")(typed.retry(first, yes).message())
	if got.Error.Code != protocol.CodeInvalidParams {
		t.Errorf("got %s", got.body)
	}
}

// TestGuard: with a guard a state is good for once, and the same message again
// gets the same outcome without another run.
func TestGuard(t *testing.T) {
	runs := 0
	add := func(s *server.MCPServer) {
		s.AddTool(mcp.NewTool("pay"),
			func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if _, ok := confirm.AcceptedContent(ctx); !ok {
					return mcpgo.ToolInput(confirm.Elicit("Pay?")), nil
				}
				runs++
				return mcp.NewToolResultStructured(map[string]any{"runs": runs},
					fmt.Sprintf("paid %d", runs)), nil
			})
		s.AddPrompt(mcp.NewPrompt("brief"),
			func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				if _, ok := confirm.AcceptedContent(ctx); !ok {
					return mcpgo.PromptInput(confirm.Elicit("Pay?")), nil
				}
				runs++
				return briefed("paid"), nil
			})
		s.AddResource(mcp.NewResource("vault://codes", "codes"),
			func(ctx context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				if _, ok := confirm.AcceptedContent(ctx); !ok {
					return mcpgo.ResourceInput(confirm.Elicit("Pay?"))
				}
				runs++
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI,
					Text: "paid"}}, nil
			})
	}
	for _, r := range []request{{method: protocol.MethodCallTool, target: "pay"},
		{method: protocol.MethodGetPrompt, target: "brief"},
		{method: protocol.MethodReadResource, target: "vault://codes"}} {
		t.Run(r.method, func(t *testing.T) {
			runs = 0
			s := newHostServer()
			add(s)
			a := install(t, s,
				&mcpgo.Options{Options: roundtrip.Options{Guard: store.NewMemoryGuard(0)}})
			send := senders(t, a, s)["http"](t)
			first := send(r.message())
			retry := r.retry(first, yes).message()
			once, twice := send(retry), send(retry)
			if runs != 1 || !strings.Contains(once.body, "paid") ||
				!strings.Contains(twice.body, "paid") {
				t.Errorf("%d runs: %s, then %s", runs, once.body, twice.body)
			}
			got := send(r.retry(first, `{"confirm":{"action":"decline"}}`).message())
			if got.Error.Code != protocol.CodeInvalidParams {
				t.Errorf("another answer to a spent state: got %s", got.body)
			}
		})
	}
}

// TestNotInstalled: what is built for the adapter says nothing by mistake
// without it.
func TestNotInstalled(t *testing.T) {
	s := newHostServer()
	addGuard(s)
	endpoint, _ := serveHTTP(t, nil, s)
	got := post(t, endpoint)(typed.message())
	if got.text() != "asks" || strings.Contains(got.body, `"rondo/asks":{`) {
		t.Errorf("got %s", got.body)
	}
	if got := post(t, endpoint)(request{method: protocol.MethodReadResource,
		target: "vault://codes"}.message()); got.Error.Code != -32603 {
		t.Errorf("got %s", got.body)
	}
	if _, err := mcpgo.Elicit(t.Context(), "k",
		mcp.ElicitationRequest{Params: form("?")}); !errors.Is(err, roundtrip.ErrNoRound) {
		t.Errorf("got %v", err)
	}
}

// TestMiddlewareOutside sees what asks as a result like any other, and errors
// with their type.
func TestMiddlewareOutside(t *testing.T) {
	var saw []string
	s := newHostServer(server.WithToolHandlerMiddleware(
		func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
			return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				result, err := next(ctx, r)
				switch e, ok := protocol.AsError(err); {
				case ok:
					saw = append(saw, fmt.Sprint(e.Code))
				case result.NeedsInput():
					saw = append(saw, fmt.Sprint("asks ", len(result.InputRequests)))
				default:
					saw = append(saw, "done")
				}
				return result, err
			}
		}))
	addGuard(s)
	endpoint, _ := serveHTTP(t, install(t, s, nil), s)
	send := post(t, endpoint)
	first := send(typed.message())
	send(typed.retry(first, yes).message())
	other := typed
	other.arguments = `{"n":1}`
	send(other.retry(first, yes).message())
	if got := strings.Join(saw, ", "); got != "asks 1, done, -32602" {
		t.Errorf("saw %s", got)
	}
}

// TestWithoutRound: where the adapter is not, the changed call is mcp-go's own.
func TestWithoutRound(t *testing.T) {
	s := newHostServer()
	addFlow(s, changed())
	who := newPerson(map[string]string{"First?": `{"zeal":"much","amount":2}`,
		"Second after accept much 2?": `{"zeal":"much","amount":2}`})
	endpoint, _ := serveHTTP(t, nil, s)
	got, err := dialHost(t, endpoint, v20251125, who).tool(within(t), "steps", nil)
	if err != nil || got != "accept much 2, accept much 2, accept" {
		t.Errorf("legacy: got %q, %v", got, err)
	}
	if got := post(t, endpoint)(request{method: protocol.MethodCallTool,
		target: "steps"}.message()); got.Error.Code != -32603 {
		t.Errorf("modern: got %s", got.body)
	}
}

// TestEarlierRevision: the spelling of a question is that of the revision.
func TestEarlierRevision(t *testing.T) {
	const revision = "2025-06-18"
	for _, name := range []string{"mcp-go/http", "mcp-go/lines"} {
		t.Run(name, func(t *testing.T) {
			s := newHostServer()
			addGuard(s)
			who := newPerson(nil)
			got, err := links(revision)[name](t, install(t, s, nil), s, who).tool(within(t),
				"typed", nil)
			if err != nil || got != "much 2" {
				t.Errorf("got %q, %v", got, err)
			}
			who.once(t, "Sure?")
		})
	}
}

// TestStatelessMustAsk: an unmodified handler that asks without looking whether it can would wait
// for an answer that cannot come. MustAsk refuses the call.
func TestStatelessMustAsk(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("delete"), func(ctx context.Context,
		_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if _, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{
			Params: form("Sure?")}); err != nil {
			return mcp.NewToolResultText("kept"), nil
		}
		return mcp.NewToolResultText("deleted"), nil
	})
	a := install(t, s, &mcpgo.Options{UnmodifiedHandlers: true, MustAsk: true})
	endpoint, _ := serveHTTP(t, a, s, server.WithStateLess(true))
	who := newPerson(nil)
	if got, err := dialRondo(t, endpoint, modern, who).tool(within(t), "delete",
		nil); err != nil || got != "deleted" {
		t.Errorf("modern: got %q, %v", got, err)
	}
	if got, err := dialRondo(t, endpoint, v20251125, who).tool(within(t), "delete",
		nil); err != nil || !strings.HasPrefix(got,
		"error: the client does not support: elicitation") {
		t.Errorf("legacy: got %q, %v", got, err)
	}
	who.once(t, "Sure?")
}

// TestStatelessReplicas: without sessions any replica that has the key serves any request,
// and a question is answered on another replica than asked it.
func TestStatelessReplicas(t *testing.T) {
	var replicas []http.Handler
	for range 2 {
		s := newHostServer()
		addDelete(s)
		a := install(t, s, &mcpgo.Options{
			Options: roundtrip.Options{Sealer: fleettest.NewKeyring("k1"), Audience: "files"}})
		replicas = append(replicas, a.Handler(server.NewStreamableHTTPServer(s, quiet(),
			server.WithStateLess(true))))
	}
	var turn atomic.Int32
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replicas[turn.Add(1)%2].ServeHTTP(w, r)
	}))
	t.Cleanup(behind.Close)
	for _, revision := range []string{modern, v20251125} {
		who := newPerson(nil)
		c := dialRondo(t, behind.URL+"/mcp", revision, who)
		for range 3 {
			if got, err := c.tool(within(t), "plain", nil); err != nil || got != "plain" {
				t.Errorf("%s: plain: got %q, %v", revision, got, err)
			}
		}
		got, err := c.tool(within(t), "delete", nil)
		if revision == modern {
			if who.once(t, "Sure?"); err != nil || got != "deleted" {
				t.Errorf("got %q, %v", got, err)
			}
		} else if who.once(t); !strings.Contains(got, "does not support: elicitation") {
			t.Errorf("%s: got %q, %v", revision, got, err)
		}
	}
}

// TestTask: what runs in the background has no response to ask in.
func TestTask(t *testing.T) {
	s := newHostServer(server.WithTaskCapabilities(true, true, true))
	done := make(chan string, 1)
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result, err := next(ctx, r)
			done <- fmt.Sprintf("%v %v", result, err)
			return result, err
		}
	})
	s.AddTool(mcp.NewTool("typed", mcp.WithTaskSupport(mcp.TaskSupportOptional)),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if _, ok := confirm.AcceptedContent(ctx); !ok {
				return mcpgo.ToolInput(confirm.Elicit("Sure?")), nil
			}
			return mcp.NewToolResultText("done"), nil
		})
	install(t, s, nil)
	r := typed
	r.more = `,"task":{}`
	s.HandleMessage(t.Context(), json.RawMessage(r.message()))
	if got := <-done; !strings.Contains(got, "a task cannot ask") {
		t.Errorf("got %s", got)
	}
}

// plainWriter is a ResponseWriter that cannot flush.
type plainWriter struct{ http.ResponseWriter }

// TestWriterAbilities: the handler behind sees a writer that can what the one
// in front of it can, and no more.
func TestWriterAbilities(t *testing.T) {
	a, err := mcpgo.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, flushes := range []bool{true, false} {
		var out http.ResponseWriter = httptest.NewRecorder()
		if !flushes {
			out = plainWriter{out}
		}
		a.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, got := w.(http.Flusher); got != flushes {
				t.Errorf("flushes %v, want %v", got, flushes)
			}
			if got := http.NewResponseController(w).Flush(); (got == nil) != flushes {
				t.Errorf("the controller flushes: %v, want %v", got, flushes)
			}
			_, _ = io.WriteString(w, "as it is")
		})).ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{}`)))
		if recorder, ok := out.(*httptest.ResponseRecorder); ok &&
			recorder.Body.String() != "as it is" {
			t.Errorf("got %q", recorder.Body)
		}
	}
	sse := server.NewSSEServer(newHostServer())
	if got := a.Handler(sse); got != http.Handler(sse) {
		t.Errorf("an SSE server was wrapped: %T", got)
	}
}

// TestAnonymousCallersLeaveRoomWherePrincipalsAreTold: the guard has four places. Where the host
// tells principals, anonymous callers get three of them.
func TestAnonymousCallersLeaveRoomWherePrincipalsAreTold(t *testing.T) {
	nobody := func(context.Context, http.Header) protocol.Principal { return protocol.Principal{} }
	for want, principal := range map[int]func(context.Context, http.Header) protocol.Principal{
		3: nobody, 4: nil} {
		s := newHostServer()
		s.AddTool(mcp.NewTool("pay"),
			func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if _, ok := confirm.AcceptedContent(ctx); ok {
					return mcp.NewToolResultText("paid"), nil
				}
				return mcpgo.ToolInput(confirm.Elicit("Pay?")), nil
			})
		send := senders(t, install(t, s, &mcpgo.Options{Principal: principal,
			Options: roundtrip.Options{Guard: store.NewMemoryGuard(4)}}), s)["http"](t)
		served := 0
		for range 4 {
			r := request{method: protocol.MethodCallTool, target: "pay"}
			if send(r.retry(send(r.message()), yes).message()).text() == "paid" {
				served++
			}
		}
		if served != want {
			t.Errorf("%d anonymous callers are served, want %d", served, want)
		}
	}
}
