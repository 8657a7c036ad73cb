// Package rondo is a server written with this library, as documented, with all its defaults.
package rondo

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type approval struct {
	Approve bool   `json:"approve" jsonschema:"whether to proceed"`
	Note    string `json:"note,omitempty" jsonschema:"why"`
}

type outcome = protocol.CallToolOutcome

// New returns a server of both eras. Its handlers return their questions.
func New() http.Handler { return newServer(deploy, &server.Options{}, nil) }

// NewInPlace returns a server of both eras whose Deploy asks in place.
func NewInPlace() http.Handler { return newServer(deployInPlace, &server.Options{}, nil) }

// NewObserved returns New's server, with metrics and a JSON log that is not read.
func NewObserved() http.Handler {
	logs, metrics := newSinks()
	counts, err := middleware.NewMetrics(metrics, nil)
	if err != nil {
		panic(err) // internal error: the registry is empty
	}
	log := middleware.NewLog(logs, nil)
	return newServer(deploy, &server.Options{
		Observer:   event.Observers(log, counts),
		Middleware: []server.Middleware{log.Wrap, counts.Wrap},
	}, nil)
}

func newSinks() (event.LogSink, event.MetricSink) {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.AddSync(io.Discard), zapcore.InfoLevel)
	return zaplog.New(zap.New(core)), prom.New(prometheus.NewRegistry())
}

// NewProduction returns the server with all of examples/production, behind a verified token.
func NewProduction() http.Handler {
	authority := NewAuthority(0)
	token := authority.Token("ann")
	logs, metrics := newSinks()
	observer, chain, err := middleware.Production(logs, metrics, &middleware.Options{
		TraceID: true, Timeout: 30 * time.Second})
	if err != nil {
		panic(err) // internal error: the registry is empty
	}
	h := newServer(deploy, &server.Options{
		Observer: observer, Middleware: chain,
		// The guard has room for all flows of a run, which have one principal.
		Roundtrip: roundtrip.Options{Guard: store.NewMemoryGuard(4 << 20), HideErrors: true},
	}, &serverhttp.Options{Authority: authority.Guard})
	bearer := []string{"Bearer " + token}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header["Authorization"] = bearer
		h.ServeHTTP(w, r)
	})
}

type deployer func(context.Context, *server.ToolCall, wire.DeployArgs) (outcome, error)

func newServer(deploy func(*roundtrip.FormQuestion[approval]) deployer, opts *server.Options,
	over *serverhttp.Options) http.Handler {
	opts.Info = protocol.Implementation{Name: "bench", Version: "1.0.0"}
	srv, err := server.New(opts)
	if err != nil {
		panic(err) // internal error: the options are right
	}
	add(srv, wire.Echo, wire.EchoSchema, echo)
	add(srv, wire.Deploy, wire.DeploySchema,
		deploy(roundtrip.MustQuestion[approval](wire.ConfirmKey)))
	handler, err := serverhttp.New(srv, over)
	if err != nil {
		panic(err) // internal error: the options are right
	}
	return handler
}

func add[T any](srv *server.Server, name, schema string,
	f func(context.Context, *server.ToolCall, T) (outcome, error)) {
	server.AddTool(srv, server.Tool{Name: name, Description: name,
		InputSchema: json.RawMessage(schema)}, f)
}

func echo(_ context.Context, _ *server.ToolCall, in wire.EchoArgs) (outcome, error) {
	if in.Upper {
		in.Message = strings.ToUpper(in.Message)
	}
	return server.Text(in.Message), nil
}

func deploy(confirm *roundtrip.FormQuestion[approval]) deployer {
	return func(ctx context.Context, _ *server.ToolCall, in wire.DeployArgs) (outcome, error) {
		switch a := confirm.Answer(ctx); {
		case a.Outcome != roundtrip.Accepted:
			return roundtrip.InputRequired(confirm.Elicit(in.Question())), nil
		case !a.Content.Approve:
			return server.Text("not deployed"), nil
		}
		return server.Text(in.Deployed()), nil
	}
}

func deployInPlace(confirm *roundtrip.FormQuestion[approval]) deployer {
	return func(ctx context.Context, _ *server.ToolCall, in wire.DeployArgs) (outcome, error) {
		answer, err := confirm.Ask(ctx, in.Question())
		switch {
		case err != nil:
			return nil, err
		case !answer.Approve:
			return server.Text("not deployed"), nil
		}
		return server.Text(in.Deployed()), nil
	}
}
