package telemetry_test

import (
	"context"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/telemetry"
	"github.com/rondo-mcp/rondo/server"
)

type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                        { return nil }

// BenchmarkOverhead measures a plain call and a flow of two questions, without traces, unsampled
// and sampled. Client and server share a process, so that the share of tracing is largest.
func BenchmarkOverhead(b *testing.B) {
	for _, test := range []struct {
		name    string
		sampler sdk.Sampler // nil: no traces
	}{{"none", nil}, {"unsampled", sdk.NeverSample()}, {"sampled", sdk.AlwaysSample()}} {
		for _, tool := range []string{"plain", "deploy"} {
			b.Run(tool+"/"+test.name, func(b *testing.B) {
				c := benchClient(b, test.sampler)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.CallTool(b.Context(), tool, target{"x"}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func benchClient(b *testing.B, sampler sdk.Sampler) *client.Client {
	opts := &client.Options{ElicitForm: func(context.Context, *client.FormQuestion) (
		*protocol.ElicitResult, error) {
		return client.Accept(target{"y"})
	}}
	serving := &server.Options{Roundtrip: roundtrip.Options{MinHumanTime: -1}}
	var tel *telemetry.Telemetry
	if sampler != nil {
		var err error
		if tel, err = telemetry.New(&telemetry.Options{TrustCaller: everybody,
			TracerProvider: sdk.NewTracerProvider(sdk.WithSampler(sampler),
				sdk.WithBatcher(dropped{}))}); err != nil {
			b.Fatal(err)
		}
		serving.Observer, serving.Roundtrip.Tracer = tel, tel
		serving.Middleware = []server.Middleware{tel.Wrap}
	}
	srv, err := server.New(serving)
	noError(b, err)
	server.AddTool(srv, server.Tool{Name: "deploy"}, deploy)
	server.AddTool(srv, server.Tool{Name: "plain"}, func(context.Context, *server.ToolCall,
		target) (protocol.CallToolOutcome, error) {
		return server.Text("done"), nil
	})
	peer := protocol.Peer(srv)
	if tel != nil {
		peer, opts = tel.Peer(srv), tel.Questions(opts)
	}
	c, err := client.New(peer, opts)
	noError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}
