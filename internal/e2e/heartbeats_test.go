package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// addHeartbeatHosts adds a tool of each kind that waits for a person: author asks itself, gateway
// is one of a gateway, whose router asks by the call of our server.
func addHeartbeatHosts(t *testing.T, srv *server.Server) {
	t.Helper()
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddRawTool(srv, server.Tool{Name: "author"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			_ = call.Progress(ctx, 1, 3, "one")
			_, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
			_ = call.Progress(ctx, 2, 3, "two")
			return server.Text("done"), err
		})
	server.AddRawTool(srv, server.Tool{Name: "gateway"},
		func(ctx context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			session, err := router.Attach(elicitation.SessionInfo{Capabilities: call.Capabilities(),
				Version: call.Version})
			if err != nil {
				return nil, err
			}
			defer session.Detach()
			routed, err := router.Begin(ctx, elicitation.Origin{Session: session},
				elicitation.ViaAsker(
					elicitation.AskFunc(func(ctx context.Context, q elicitation.Question,
						_ func()) (json.RawMessage, error) {
						return call.Push(ctx, q.Request)
					})), "")
			if err != nil {
				return nil, err
			}
			defer routed.End()
			// What the upstream reports is relayed as the handler's own: here that it has begun,
			// and that it waits for a person, too.
			_ = call.Progress(ctx, 1, 3, "one")
			_ = call.Progress(ctx, 1.00048828125, 3, "the upstream waits")
			_, err = routed.Elicit(context.Background(), json.RawMessage(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`), nil)
			_ = call.Progress(ctx, 2, 3, "two")
			return server.Text("done"), err
		})
}

// TestClientsOfOlderRevisionsHearThatACallWaits: while a person thinks, progress rises on the token
// of the call, up to what is reported afterwards; nothing follows the result.
func TestClientsOfOlderRevisionsHearThatACallWaits(t *testing.T) {
	for over, open := range rawTransports {
		for _, revision := range []string{"2025-06-18", "2025-11-25"} {
			for _, tool := range []string{"author", "gateway"} {
				t.Run(fmt.Sprint(tool, "/", over, "/", revision), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv, _ := mustServe(t, nil)
						addHeartbeatHosts(t, srv)
						checkHeartbeats(open(t, srv, revision), tool)
					})
				})
			}
		}
	}
}

// checkHeartbeats calls a tool and answers its question after three heartbeats.
func checkHeartbeats(c *rawClient, tool string) {
	c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","_meta":{"progressToken":"p"}}}`)
	question, beats, last, texts := rawMessage{}, 0, 0.0, ""
	for answered := false; ; {
		m := c.next()
		switch {
		case m.Method == protocol.MethodElicit:
			question = m
		case m.Params.Message == "waiting for an answer":
			beats++
		case m.Method == protocol.NotifyProgress:
			texts += m.Params.Message + ", "
		}
		if m.Method == protocol.NotifyProgress {
			if m.Params.Progress <= last {
				c.Errorf("%v follows %v", m.Params.Progress, last)
			}
			last = m.Params.Progress
		}
		if beats == 3 && !answered {
			answered = true
			c.say(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept","content":{"reason":"why not"}}}`)
		}
		if m.Method == "" && string(m.ID) == "7" {
			if !strings.Contains(m.raw, "done") {
				c.Errorf("got %s", m.raw)
			}
			break
		}
	}
	if !strings.HasPrefix(texts, "one, ") || !strings.HasSuffix(texts, "two, ") || last != 2 {
		c.Errorf("reported was %sup to %v", texts, last)
	}
	time.Sleep(time.Hour)
	if n := len(c.heard); n > 0 {
		c.Errorf("%d messages after the result, the first is %s", n, (<-c.heard).raw)
	}
}
