package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// addDelete adds a tool that asks before it acts, and returns how often it was started and
// how often it acted.
func addDelete(s *server.MCPServer) (started, acted *atomic.Int32) {
	started, acted = new(atomic.Int32), new(atomic.Int32)
	s.AddTool(mcp.NewTool("delete"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			started.Add(1)
			answer, err := mcpgo.Elicit(ctx, "sure", mcp.ElicitationRequest{Params: form("Sure?")})
			if err != nil {
				return nil, err
			}
			if answer.Action != mcp.ElicitationResponseActionAccept {
				return mcp.NewToolResultText("kept"), nil
			}
			acted.Add(1)
			return mcp.NewToolResultText("deleted"), nil
		})
	s.AddTool(mcp.NewTool("plain"),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("plain"), nil
		})
	return started, acted
}

func quiet() server.StreamableHTTPOption {
	return server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))
}

// newAdapter is an adapter that is installed on no server yet, and what it reports.
func newAdapter(t *testing.T) (*mcpgo.Adapter, *bugs) {
	t.Helper()
	found := &bugs{}
	a, err := mcpgo.New(&mcpgo.Options{Options: roundtrip.Options{Observer: found}})
	if err != nil {
		t.Fatal(err)
	}
	return a, found
}

// callRefused calls a tool, which must fail with an error that says what is missing.
func callRefused(t *testing.T, c peer, found *bugs, want string) {
	t.Helper()
	got, err := c.tool(within(t), "delete", nil)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if bug := found.err(); bug == nil || !strings.Contains(bug.Error(), want) {
		t.Errorf("reported %v, want %q", bug, want)
	}
}

// An installed server that is served without the adapter asks nobody, and says what to use.
func TestServingWithoutTheAdapter(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for name, want := range map[string]string{
			"rondo/http": "Adapter.Handler", "mcp-go/http": "Adapter.Handler",
			"rondo/lines": "Adapter.Listen", "mcp-go/lines": "Adapter.Listen",
		} {
			t.Run(revision+"/"+name, func(t *testing.T) {
				a, found := newAdapter(t)
				s := newHostServer()
				started, _ := addDelete(s)
				if err := a.Install(s); err != nil {
					t.Fatal(err)
				}
				who := newPerson(nil)
				callRefused(t, links(revision)[name](t, nil, s, who), found, want)
				if who.once(t); started.Load() != 0 {
					t.Error("the handler was started")
				}
			})
		}
	}
}

// A context function that drops the context of the request hides the adapter from its own
// middleware.
func TestContextOfTheRequestIsDropped(t *testing.T) {
	a, found := newAdapter(t)
	s := newHostServer()
	addDelete(s)
	if err := a.Install(s); err != nil {
		t.Fatal(err)
	}
	endpoint, _ := serveHTTP(t, a, s, server.WithHTTPContextFunc(
		func(ctx context.Context, _ *http.Request) context.Context {
			return s.WithContext(context.Background(), server.ClientSessionFromContext(ctx))
		}))
	callRefused(t, dialRondo(t, endpoint, modern, newPerson(nil)), found, "WithHTTPContextFunc")
}

// Behind a handler of another type than mcp-go's a server that was forgotten is refused at its
// first call.
func TestServerIsNotInstalled(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		t.Run(revision, func(t *testing.T) {
			a, found := newAdapter(t)
			s := newHostServer()
			_, acted := addDelete(s)
			next := server.NewStreamableHTTPServer(s, quiet())
			h := a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
			}))
			call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete"}}`
			if revision == modern {
				call = request{method: protocol.MethodCallTool, target: "delete"}.message()
			}
			send := exchangeHTTP(t, h, revision)
			if got := send(call); !strings.HasPrefix(got, `500 {"jsonrpc":"2.0","id":7,"error":`) ||
				!strings.Contains(got, "call Adapter.Install") {
				t.Errorf("got %s", got)
			}
			if err := found.err(); err == nil || acted.Load() != 0 {
				t.Errorf("reported %v, acted %d times", err, acted.Load())
			}
			if err := a.Install(s); err != nil {
				t.Fatal(err)
			}
			plain := strings.ReplaceAll(call, "delete", "plain")
			if got := send(plain); !strings.HasPrefix(got, "200 ") {
				t.Errorf("installed: got %s", got)
			}
		})
	}
}

// Handler and Listen install the adapter themselves on the server that they serve.
func TestHandlerAndListenInstall(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for name, link := range links(revision) {
			t.Run(revision+"/"+name, func(t *testing.T) {
				a, _ := newAdapter(t)
				s := newHostServer()
				_, acted := addDelete(s)
				who := newPerson(nil)
				got, err := link(t, a, s, who).tool(within(t), "delete", nil)
				if who.once(t, "Sure?"); err != nil || got != "deleted" || acted.Load() != 1 {
					t.Errorf("got %q, %v, acted %d times", got, err, acted.Load())
				}
			})
		}
	}
}

// Two adapters on one server would ask twice.
func TestSecondAdapterIsReported(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for _, transport := range []string{"http", "lines"} {
			t.Run(revision+"/"+transport, func(t *testing.T) {
				s := newHostServer()
				started, _ := addDelete(s)
				outer, found := newAdapter(t)
				inner, _ := newAdapter(t)
				if err := errors.Join(outer.Install(s), inner.Install(s)); err != nil {
					t.Fatal(err)
				}
				who := newPerson(nil)
				c := links(revision)["rondo/"+transport](t, outer, s, who)
				got, err := c.tool(within(t), "delete", nil)
				if err == nil || !strings.Contains(err.Error(), "two adapters") {
					t.Errorf("got %q, %v, reported %v", got, err, found.err())
				}
				if who.once(t); started.Load() != 0 {
					t.Error("the handler was started")
				}
			})
		}
	}
}

// Install is the same as often as it is called, at once too.
func TestInstallingAgainDoesNothing(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		t.Run(revision, func(t *testing.T) {
			a, _ := newAdapter(t)
			s := server.NewMCPServer("host", "1", server.WithElicitation(), a.Option(), a.Option())
			_, acted := addDelete(s)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := a.Install(s); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			who := newPerson(nil)
			c := links(revision)["rondo/http"](t, a, s, who)
			if got, err := c.tool(within(t), "delete", nil); err != nil || got != "deleted" {
				t.Errorf("got %q, %v", got, err)
			}
			if who.once(t, "Sure?"); acted.Load() != 1 {
				t.Errorf("acted %d times", acted.Load())
			}
		})
	}
}

// A server for each request, without sessions: modern clients are asked over as many servers
// as there are rounds, and plain calls of the others work as without the adapter.
func TestServerForEachRequest(t *testing.T) {
	a, _ := newAdapter(t)
	var made atomic.Int32
	behind := httptest.NewServer(a.Handler(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			s := newHostServer()
			addDelete(s)
			if err := a.Install(s); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			made.Add(1)
			server.NewStreamableHTTPServer(s, quiet(), server.WithStateLess(true)).ServeHTTP(w, r)
		})))
	defer behind.Close()
	for _, revision := range []string{modern, v20251125} {
		for name, dial := range map[string]func(*testing.T, string, string, *person) peer{
			"rondo": dialRondo, "mcp-go": dialHost,
		} {
			t.Run(revision+"/"+name, func(t *testing.T) {
				who := newPerson(nil)
				c := dial(t, behind.URL+"/mcp", revision, who)
				if got, err := c.tool(within(t), "plain", nil); err != nil || got != "plain" {
					t.Errorf("plain: got %q, %v", got, err)
				}
				got, err := c.tool(within(t), "delete", nil)
				if revision == modern {
					if err != nil || got != "deleted" {
						t.Errorf("got %q, %v", got, err)
					}
					who.once(t, "Sure?")
					return
				}
				if !strings.Contains(fmt.Sprint(got, err), "elicitation") {
					t.Errorf("got %q, %v", got, err)
				}
				who.once(t)
			})
		}
	}
	if made.Load() < 10 {
		t.Errorf("%d servers were made", made.Load())
	}
}

// Install is cheap enough for a server that lives for one request: it runs no self-test.
func TestInstallIsCheap(t *testing.T) {
	a, _ := newAdapter(t)
	alone := testing.AllocsPerRun(100, func() { newHostServer() })
	installed := testing.AllocsPerRun(100, func() {
		if err := a.Install(newHostServer()); err != nil {
			t.Error(err)
		}
	})
	if installed > alone+25 {
		t.Errorf("%v allocations, %v without the adapter", installed, alone)
	}
}

// An adapter does not keep the servers alive that it was installed on.
func TestServersAreForgotten(t *testing.T) {
	a, _ := newAdapter(t)
	func() {
		for range 100 {
			if err := a.Install(newHostServer()); err != nil {
				t.Fatal(err)
			}
		}
	}()
	for range 100 {
		runtime.GC()
		if mcpgo.Installed(a) == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d servers are kept", mcpgo.Installed(a))
}

// A call within the process that a handler makes has responses of its own: those of the
// outer request are not confused with them.
func TestCallWithinACall(t *testing.T) {
	a, _ := newAdapter(t)
	inner := newHostServer()
	inner.AddResource(mcp.NewResource("vault://codes", "codes"),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return mcpgo.ResourceInput(confirm.Elicit("Sure?"))
		})
	outer := newHostServer()
	outer.AddTool(mcp.NewTool("delete"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			session := server.NewInProcessSession("inner", nil)
			reply := inner.HandleMessage(inner.WithContext(ctx, session), []byte(
				request{method: protocol.MethodReadResource, target: "vault://codes"}.message()))
			return mcp.NewToolResultText(fmt.Sprintf("%+v", reply)), nil
		})
	if err := errors.Join(a.Install(inner), a.Install(outer)); err != nil {
		t.Fatal(err)
	}
	// Over HTTP mcp-go compares the inner request with the headers of the outer one.
	c := links(modern)["rondo/lines"](t, a, outer, newPerson(nil))
	got, err := c.tool(within(t), "delete", nil)
	if err != nil || !strings.Contains(got, "needs the server's Handler") {
		t.Errorf("got %q, %v", got, err)
	}
}
