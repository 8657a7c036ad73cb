package interop_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

type taskName struct {
	Name string `json:"name"`
}

type taskInput struct{}

// newTasks returns a server with tools that can be tasks (greet, two, wait), must be tasks (unwell,
// breaks), and never are (plain). Closing it ends its tasks.
func newTasks() (*server.Server, error) {
	srv, err := server.New(&server.Options{Info: servertest.Info(),
		Roundtrip: roundtrip.Options{MinHumanTime: -1}})
	if err == nil {
		_, err = tasks.New(srv, nil)
	}
	if err != nil {
		return nil, err
	}
	add := func(name string, mode server.TaskMode,
		run func(ctx context.Context) (protocol.CallToolOutcome, error)) {
		server.AddTool(srv, server.Tool{Name: name, Task: mode},
			func(ctx context.Context, _ *server.ToolCall, _ taskInput) (
				protocol.CallToolOutcome, error) {
				if mode != server.TaskNever {
					if err := roundtrip.BeginTask(ctx); err != nil {
						return nil, err
					}
				}
				return run(ctx)
			})
	}
	greet := func(ctx context.Context) (protocol.CallToolOutcome, error) {
		who, err := roundtrip.Ask[taskName](ctx, "who", "Ada")
		if err != nil {
			return nil, err
		}
		return server.Text("hello " + who.Name), nil
	}
	add("greet", server.TaskCan, greet)
	add("plain", server.TaskNever, func(context.Context) (protocol.CallToolOutcome, error) {
		return server.Text("plain"), nil
	})
	add("two", server.TaskCan, askTwo)
	add("wait", server.TaskCan, func(ctx context.Context) (protocol.CallToolOutcome, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	add("unwell", server.TaskMust, func(context.Context) (protocol.CallToolOutcome, error) {
		result := server.Text("unwell")
		result.IsError = true
		return result, nil
	})
	add("breaks", server.TaskMust, func(context.Context) (protocol.CallToolOutcome, error) {
		return nil, protocol.Errorf(protocol.CodeInternalError, "broken")
	})
	return srv, nil
}

func listenTasks(t *testing.T) (endpoint string) {
	t.Helper()
	srv, err := newTasks()
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	endpoint, _ = listen(t, servertest.NewHandler(t, srv, nil))
	return endpoint
}

var (
	firstName  = roundtrip.MustQuestion[taskName]("one")
	secondName = roundtrip.MustQuestion[taskName]("two")
)

func askTwo(ctx context.Context) (protocol.CallToolOutcome, error) {
	a, b := firstName.Answer(ctx), secondName.Answer(ctx)
	if a.Outcome != roundtrip.Accepted || b.Outcome != roundtrip.Accepted {
		return roundtrip.InputRequired(firstName.Elicit("One?"), secondName.Elicit("Two?")), nil
	}
	return server.Text(a.Content.Name + " and " + b.Content.Name), nil
}

// Clients that do not know tasks would take a handle for an empty success, so they get none.
func TestClientsThatDoNotKnowTasks(t *testing.T) {
	dials := map[string]func(t *testing.T, who *person, revision, endpoint string) peer{
		"go-sdk": func(t *testing.T, who *person, revision, endpoint string) peer {
			return connectGoSDK(t, who, false, revision, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: newHTTPClient(t)})
		},
		"mcp-go": func(t *testing.T, who *person, revision, endpoint string) peer {
			over, err := transport.NewStreamableHTTP(endpoint,
				transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
				transport.WithHTTPBasicClient(newHTTPClient(t)))
			noError(t, err)
			return connectMCPGo(t, who, false, revision, over)
		},
	}
	for name, dial := range dials {
		for _, revision := range []string{modern, v20251125} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				endpoint := listenTasks(t)
				who := newPerson(t, answers{"Ada": `{"name":"Ada"}`})
				c := dial(t, who, revision, endpoint)
				ctx := within(t, patience)
				got, err := c.do(ctx, request{Method: protocol.MethodCallTool, Target: "greet"})
				if err != nil || got != "hello Ada" {
					t.Errorf("greet: %q, %v", got, err)
				}
				got, err = c.do(ctx, request{Method: protocol.MethodCallTool, Target: "unwell"})
				if revision == modern && (err == nil || !strings.Contains(err.Error(), "missing")) {
					t.Errorf("unwell: %q, %v; want that a capability is missing", got, err)
				}
				if revision != modern && !strings.Contains(got+fmt.Sprint(err), "unwell") {
					t.Errorf("unwell: %q, %v; want its result", got, err)
				}
			})
		}
	}
}
