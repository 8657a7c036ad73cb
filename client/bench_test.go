package client_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A stub is a peer that answers at once, so that the benchmark measures the client.
type stub func(req *protocol.Request) string

func (s stub) Handle(_ context.Context, req *protocol.Request, _ protocol.Back) (response, error) {
	return reply(req, s(req))
}
func (stub) Notify(context.Context, *protocol.Notification) error { return nil }
func (stub) Close() error                                         { return nil }

func BenchmarkEcho(b *testing.B) {
	c, err := client.New(stub(func(*protocol.Request) string { return done }), nil)
	noError(b, err)
	args := json.RawMessage(`{"message":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CallTool(b.Context(), "echo", args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTwoLegs(b *testing.B) {
	question, n := ask(`"inputRequests":{"who":`+nameForm+`},"requestState":"s1"`), 0
	c, err := client.New(stub(func(*protocol.Request) string {
		if n++; n%2 == 1 {
			return question
		}
		return done
	}), &client.Options{ElicitForm: acceptName})
	noError(b, err)
	args := json.RawMessage(`{"message":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CallTool(b.Context(), "deploy", args); err != nil {
			b.Fatal(err)
		}
	}
}
