package middleware_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/sloglog"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// This server logs, counts, survives panics and enforces limits. The output shows the records of a
// call that asks for consent, and of one that panics.
func Example() {
	core, logs := observer.New(zapcore.InfoLevel) // a program has zap.NewProduction
	registry := prometheus.NewRegistry()          // and prometheus.DefaultRegisterer
	watch, chain, err := middleware.Production(zaplog.New(zap.New(core)), prom.New(registry), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	srv, err := server.New(&server.Options{Observer: watch, Middleware: chain})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	type deploy struct {
		Env string `json:"env"`
	}
	server.AddTool(srv, server.Tool{Name: "deploy"},
		func(ctx context.Context, _ *server.ToolCall, in deploy) (protocol.CallToolOutcome, error) {
			if in.Env == "" {
				panic("no environment")
			}
			return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
		})

	for _, env := range []string{"prod", ""} {
		call := &protocol.CallToolParams{Name: "deploy",
			Arguments: json.RawMessage(`{"env":"` + env + `"}`)}
		call.Version = protocol.Latest
		call.Capabilities = &protocol.ClientCapabilities{
			Elicitation: &protocol.ElicitationCapability{Form: true}}
		params, err := protocol.EncodeParams(call)
		if err != nil {
			fmt.Println(err)
			return
		}
		srv.Handle(context.Background(),
			&protocol.Request{ID: protocol.IntID(1), Method: protocol.MethodCallTool,
				Params: params}, nil)
	}

	for _, entry := range logs.All() {
		fmt.Print(entry.Level, " ", entry.Message)
		for _, name := range []string{"target", "outcome", "kinds", "panic", "code", "error"} {
			if v, ok := entry.ContextMap()[name]; ok {
				fmt.Printf(" %s=%v", name, v)
			}
		}
		fmt.Println()
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP rondo_requests_total Requests answered, counting each leg of a flow.
# TYPE rondo_requests_total counter
rondo_requests_total{era="modern",method="tools/call",outcome="input_required"} 1
rondo_requests_total{era="modern",method="tools/call",outcome="internal_error"} 1
`), "rondo_requests_total")
	fmt.Println("metrics differ:", err)
	// Output:
	// info mcp.request target=deploy outcome=input_required kinds=[elicitation.form]
	// error mcp.handler_panicked target=deploy panic=no environment
	// warn mcp.request target=deploy outcome=internal_error code=-32603 error=internal error
	// metrics differ: <nil>
}

// The entries go to log/slog as well.
func Example_slog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "duration_ms", "request", "era", "version", "principal":
				return slog.Attr{}
			}
			return a
		},
	}))
	log := middleware.NewLog(sloglog.New(logger), nil)
	log.Observe(context.Background(), event.AnswersDropped{Dropped: []event.Dropped{
		{Key: "size", Reason: "unsolicited"}}})
	h := log.Wrap(func(context.Context, *server.Request) (protocol.Result, error) {
		return server.Text("done"), nil
	})
	request := &server.Request{Version: protocol.Latest, Target: "deploy",
		Message: &protocol.Request{Method: protocol.MethodCallTool}}
	if _, err := h(context.Background(), request); err != nil {
		fmt.Println(err)
	}
	// Output:
	// level=INFO msg=mcp.answers_dropped method="" target="" count=1 dropped="[unsolicited size]"
	// level=INFO msg=mcp.request method=tools/call target=deploy outcome=complete
}
