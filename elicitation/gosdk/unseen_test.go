package gosdk_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// TestUnseenIsOffInMemoryUnlessSet: a client in the process is a program of the author's. One over
// lines is not, however near it is.
func TestUnseenIsOffInMemoryUnlessSet(t *testing.T) {
	for name, tt := range map[string]struct {
		min    time.Duration
		lines  bool
		unseen int
	}{"in memory": {0, false, 0}, "set": {time.Hour, false, 1}, "lines": {0, true, 1}} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			router, err := elicitation.New(&elicitation.Options{Log: zaplog.New(zap.New(core)),
				MinHumanTime: tt.min})
			if err != nil {
				t.Fatal(err)
			}
			server := mcp.NewServer(impl, nil)
			clients, err := gosdk.NewDownstream(router, server, nil)
			if err != nil {
				t.Fatal(err)
			}
			server.AddTool(tool("ask"), func(ctx context.Context,
				req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				call, err := clients.Begin(ctx, req, "up")
				if err != nil {
					return nil, err
				}
				defer call.End()
				return tell(gosdk.ElicitationHandler(router, "up")(ctx, &mcp.ElicitRequest{
					Params: &mcp.ElicitParams{Mode: "form", Message: "Sure?",
						RequestedSchema: map[string]any{"type": "object",
							"properties": map[string]any{}}}})), nil
			})
			decline := func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			declines := mcp.NewClient(impl, &mcp.ClientOptions{ElicitationHandler: decline})
			connect := connectInMemory
			if tt.lines {
				connect = connectLines
			}
			session := connect(t, server, declines)
			defer session.Close()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
			if err != nil || result.IsError {
				t.Fatal(result, err)
			}
			if n := logs.Filter(isUnseen).Len(); n != tt.unseen {
				t.Errorf("%d entries say unseen, want %d", n, tt.unseen)
			}
		})
	}
}

// connectLines connects a client over two pipes.
func connectLines(t *testing.T, server *mcp.Server, c *mcp.Client) *mcp.ClientSession {
	t.Helper()
	one, other := newPipe(), newPipe()
	if _, err := server.Connect(t.Context(),
		&mcp.IOTransport{Reader: one.r, Writer: other.w}, nil); err != nil {
		t.Fatal(err)
	}
	session, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: other.r, Writer: one.w},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// A pipe is one direction of standard input and output.
type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

// connectInMemory connects a client of a legacy revision to server.
func connectInMemory(t *testing.T, server *mcp.Server, c *mcp.Client) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	session, err := c.Connect(t.Context(), ours,
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func isUnseen(e observer.LoggedEntry) bool { return e.ContextMap()["unseen"] == true }
