package mcpgo

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/sdk"
	"github.com/rondo-mcp/rondo/protocol"
)

// A BrokenHost is mcp-go as it might become, for the tests of the checks.
type BrokenHost struct {
	Request  func(json.RawMessage) json.RawMessage // before mcp-go sees it
	Response func(string) string                   // as mcp-go wrote it
	Context  func(context.Context) context.Context
}

// RunSelfTest runs the self-test with parts of mcp-go replaced.
func RunSelfTest(b BrokenHost) error {
	h := handleMessage(func(s *server.MCPServer, ctx context.Context,
		message json.RawMessage) mcp.JSONRPCMessage {
		if b.Context != nil {
			ctx = b.Context(ctx)
		}
		if b.Request != nil {
			message = b.Request(message)
		}
		reply := s.HandleMessage(ctx, message)
		if b.Response == nil {
			return reply
		}
		raw, err := json.Marshal(reply)
		if err != nil {
			return reply
		}
		return json.RawMessage(b.Response(string(raw)))
	})
	return sdk.Run(h.checks())
}

// CleanMessage reads a message as Handler does, and Listen with an empty header.
func CleanMessage(message []byte, header string) ([]byte, json.RawMessage, *protocol.Error) {
	return cleanMessage(message, header)
}

// Installed returns how many servers an adapter knows.
func Installed(a *Adapter) (n int) {
	a.installed.Range(func(any, any) bool { n++; return true })
	return n
}

// Marks returns how many marks an adapter has put into queues.
func Marks(a *Adapter) uint64 { return a.flushes.last.Load() }

// CloseIdle closes the connections to other replicas.
func CloseIdle(a *Adapter) { a.forwarder.CloseIdle() }
