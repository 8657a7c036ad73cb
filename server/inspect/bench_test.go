package inspect_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/inspect"
)

// BenchmarkFlow is a flow of one question in process, with and without a page.
func BenchmarkFlow(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(map[bool]string{false: "nobody observes", true: "with a page"}[kept],
			func(b *testing.B) {
				opts := &server.Options{Observer: counting{}}
				if kept {
					page, err := inspect.New(nil)
					noError(b, err)
					opts.Observer = event.Observers(counting{}, page)
				}
				c := benchClient(b, opts)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := c.CallTool(context.Background(), "ask", nil); err != nil {
							b.Error(err)
						}
					}
				})
			})
	}
}

// The type counting is an observer, so that both servers make the events.
type counting struct{}

func (counting) Observe(context.Context, event.Event) {}

func benchClient(b *testing.B, opts *server.Options) *client.Client {
	srv, err := server.New(opts)
	noError(b, err)
	server.AddTool(srv, server.Tool{Name: "ask"},
		func(ctx context.Context, _ *server.ToolCall, _ struct{}) (protocol.CallToolOutcome,
			error) {
			_, err := roundtrip.Ask[confirmation](ctx, "confirm", "Sure?")
			return server.Text("done"), err
		})
	c, err := client.New(srv, &client.Options{
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return client.Accept(map[string]any{"name": "x"})
		}})
	noError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// BenchmarkObserve observes one event, of many flows and of one flow.
func BenchmarkObserve(b *testing.B) {
	page, err := inspect.New(nil)
	noError(b, err)
	ids := make([]string, 4096)
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			page.Observe(context.Background(), event.Resumed{Where: event.Where{
				Version: protocol.Latest, Method: "tools/call", Target: "deploy",
				Flow: ids[i%len(ids)], Round: 2}})
		}
	})
}
