package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
	"github.com/rondo-mcp/rondo/server"
)

// newPayer returns a server with a tool in each style, and one that pushes its question.
func newPayer(t testing.TB, opts roundtrip.Options) *server.Server {
	t.Helper()
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "payer"},
		Roundtrip: opts})
	noError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	said := &protocol.Notification{Method: protocol.NotifyMessage,
		Params: json.RawMessage(`{"level":"info","data":"about to ask"}`)}
	addTool(srv, "flow", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		_ = call.Notify(ctx, said)
		if _, err := roundtrip.Ask[struct{}](ctx, "pay", "Pay?"); err != nil {
			return nil, err
		}
		return server.Text("paid"), nil
	})
	addTool(srv, "guard", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		_ = call.Notify(ctx, said)
		switch roundtrip.Answer[struct{}](ctx, "pay").Outcome {
		case roundtrip.Accepted:
			return server.Text("paid"), nil
		case roundtrip.Declined, roundtrip.Cancelled:
			return server.Text("declined: nothing was paid"), nil
		}
		return roundtrip.InputRequired(roundtrip.Elicit[struct{}]("pay", "Pay?")), nil
	})
	addTool(srv, "push", func(ctx context.Context, call *server.ToolCall) (toolOutcome, error) {
		raw, err := call.Push(ctx, &protocol.ElicitForm{Message: "Pay?",
			Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
		if err != nil {
			return nil, err
		}
		answer, err := protocol.DecodeElicitResult(raw)
		if err != nil {
			return nil, err
		}
		return server.Text("declined? " + string(answer.Action)), nil
	})
	return srv
}

func callAfter(t *testing.T, peer protocol.Peer, era protocol.Era, tool string,
	after time.Duration, action protocol.ElicitAction) string {
	t.Helper()
	c, err := client.New(peer, &client.Options{Era: era,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			time.Sleep(after)
			return &protocol.ElicitResult{Action: action}, nil
		}})
	noError(t, err)
	defer c.Close()
	result, err := c.CallTool(t.Context(), tool, nil)
	noError(t, err)
	text, _, _ := strings.Cut(result.Content[0].(*protocol.TextContent).Text, ":")
	return text
}

func serveLines(t *testing.T, srv *server.Server,
	out func(io.WriteCloser) io.WriteCloser) protocol.Peer {
	t.Helper()
	r, w := servertest.ServeLines(t, func(ctx context.Context, in io.Reader, to io.Writer) {
		_ = srv.ServeStream(ctx, in, out(to.(io.WriteCloser)), nil)
	})
	stream := client.NewStream(r, w, nil)
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// On lines a slow answer may come from a user; a push returns the client's answer.
func TestUnseenOnAWire(t *testing.T) {
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		for _, tc := range []struct {
			tool, want string
			after      time.Duration
			action     protocol.ElicitAction
		}{
			{"flow", "unseen", 399 * time.Millisecond, protocol.ActionDecline},
			{"flow", "declined", 401 * time.Millisecond, protocol.ActionDecline},
			{"flow", "unseen", 0, protocol.ActionCancel},
			{"flow", "paid", 0, protocol.ActionAccept},
			{"guard", "unseen", 399 * time.Millisecond, protocol.ActionDecline},
			{"guard", "declined", 401 * time.Millisecond, protocol.ActionDecline},
			{"guard", "paid", 0, protocol.ActionAccept},
			{"push", "declined? decline", 0, protocol.ActionDecline},
			{"push", "declined? cancel", 0, protocol.ActionCancel},
		} {
			if era == protocol.Modern && tc.tool == "push" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				peer := serveLines(t, newPayer(t, roundtrip.Options{}),
					func(w io.WriteCloser) io.WriteCloser { return w })
				wantEqual(t, fmt.Sprintf("%v, %s, %s after %v", era, tc.tool, tc.action, tc.after),
					callAfter(t, peer, era, tc.tool, tc.after, tc.action), tc.want)
			})
		}
	}
}

// A stuckWriter delays the notification before the question by a minute.
type stuckWriter struct{ io.WriteCloser }

func (w stuckWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "notifications/message") {
		time.Sleep(time.Minute)
	}
	return w.WriteCloser.Write(p)
}

// The time starts with the write of the question, after earlier messages were read.
func TestUnseenBehindAStuckClient(t *testing.T) {
	for _, tool := range []string{"flow", "guard"} {
		synctest.Test(t, func(t *testing.T) {
			srv := newPayer(t, roundtrip.Options{})
			peer := serveLines(t, srv, func(w io.WriteCloser) io.WriteCloser {
				return stuckWriter{w}
			})
			wantEqual(t, tool,
				callAfter(t, peer, protocol.Legacy, tool, 0, protocol.ActionDecline), "unseen")
		})
	}
}

// In-process answers come from programs and tests.
func TestUnseenIsOffInProcessUnlessSet(t *testing.T) {
	for min, want := range map[time.Duration]string{0: "declined", -1: "declined",
		time.Hour: "unseen"} {
		for _, tool := range []string{"flow", "guard"} {
			opts := roundtrip.Options{MinHumanTime: min}
			if got := callAfter(t, newPayer(t, opts), protocol.Modern, tool, 0,
				protocol.ActionDecline); got != want {
				t.Errorf("in process, %v, %s: got %q, want %q", min, tool, got, want)
			}
			for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
				kit := roundtriptest.Server(func() (*server.Server, error) {
					return newPayer(t, opts), nil
				})
				wantEqual(t, fmt.Sprintf("in the test kit, %v, %v, %s", min, era, tool),
					callAfter(t, kit.Connect(t, ""), era, tool, 0, protocol.ActionDecline), want)
			}
		}
	}
}
