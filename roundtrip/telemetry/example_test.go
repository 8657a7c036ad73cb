package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/telemetry"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

func newServer(provider *sdk.TracerProvider, meters *sdkmetric.MeterProvider,
	isGateway func(*server.Request) bool) (*server.Server, error) {
	tel, err := telemetry.New(&telemetry.Options{TracerProvider: provider, TrustCaller: isGateway})
	if err != nil {
		return nil, err
	}
	observer, chain, err := middleware.Production(nil, telemetry.Metrics(meters), nil)
	if err != nil {
		return nil, err
	}
	srv, err := server.New(&server.Options{
		Observer:   event.Observers(tel, observer),
		Middleware: append([]server.Middleware{tel.Wrap}, chain...),
		Roundtrip:  roundtrip.Options{Tracer: tel},
	})
	return srv, err
}

// newGateway returns a gateway whose requests and upstream calls share a trace.
func newGateway(tel *telemetry.Telemetry, url string) (*gateway.Gateway, error) {
	connect := gateway.HTTP(url, nil)
	g, err := gateway.New(&gateway.Options{
		Server: server.Options{Observer: tel, Middleware: []server.Middleware{tel.Wrap},
			Roundtrip: roundtrip.Options{Tracer: tel}},
		Upstreams: []gateway.Upstream{{Name: "ops",
			Connect: func(ctx context.Context, c gateway.Credential) (protocol.Peer, error) {
				peer, err := connect(ctx, c)
				return tel.Peer(peer), err
			}}},
	})
	return g, err
}

// A call of a tool that asks is two requests, the second linked to the first.
func Example() {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	srv, err := newServer(provider, sdkmetric.NewMeterProvider(), func(*server.Request) bool {
		return true // the client is ours
	})
	if err != nil {
		log.Fatal(err)
	}
	server.AddTool(srv, server.Tool{Name: "greet"}, func(ctx context.Context, _ *server.ToolCall,
		_ struct{}) (protocol.CallToolOutcome, error) {
		who, err := roundtrip.Ask[struct {
			Name string `json:"name"`
		}](ctx, "who", "Who are you?")
		if err != nil {
			return nil, err
		}
		return server.Text("Hello " + who.Name), nil
	})
	tel, err := telemetry.New(&telemetry.Options{TracerProvider: provider})
	if err != nil {
		log.Fatal(err)
	}
	ask := func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
		return client.Accept(map[string]string{"name": "Ada"})
	}
	transport := protocol.Peer(srv)
	c, err := client.New(tel.Peer(transport), tel.Questions(&client.Options{ElicitForm: ask}))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.CallTool(context.Background(), "greet", nil); err != nil {
		log.Fatal(err)
	}
	var out strings.Builder
	for _, span := range exporter.GetSpans() { // in the order of their ends
		_, _ = fmt.Fprintln(&out, span.SpanKind, span.Name, len(span.Links))
	}
	fmt.Print(out.String())
	// Output:
	// server tools/call greet 0
	// client tools/call greet 0
	// server elicitation/create 0
	// server tools/call greet 1
	// client tools/call greet 0
}

var _ = newGateway
