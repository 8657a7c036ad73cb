package mcpgo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// heard is what the tool says.
var heard = []string{"notifications/test/0", "notifications/test/1", "notifications/test/2"}

// addTalker adds a tool that sends notifications until it returns.
func addTalker(s *server.MCPServer, asks bool, said ...string) {
	s.AddTool(mcp.NewTool("talk"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if asks {
				if _, err := mcpgo.Elicit(ctx, "sure",
					mcp.ElicitationRequest{Params: form("Sure?")}); err != nil {
					return nil, err
				}
			}
			for _, method := range said {
				if err := s.SendNotificationToClient(ctx, method, nil); err != nil {
					return nil, err
				}
			}
			return mcp.NewToolResultText("said"), nil
		})
}

// What a handler says last is written before its response, though mcp-go drops a
// notification that its goroutine has taken when the call ends. The mark that makes sure of
// it is not sent.
func TestLastNotificationsOfACallAreWritten(t *testing.T) {
	for _, said := range [][]string{heard[:1], heard} {
		for _, asks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/asks %v/%s", len(said), asks, v20251125), func(t *testing.T) {
				s := newHostServer()
				addTalker(s, asks, said...)
				c := openSession(t, "http", v20251125, install(t, s, nil), s)
				lost := 0
				for id := range 100 {
					before := len(c.said())
					c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call",`+
						`"params":{"name":"talk"}}`, id+1000))
					if asks {
						c.say(`{"jsonrpc":"2.0","id":` + string(c.question().ID) +
							`,"result":{"action":"accept","content":{"zeal":"much"}}}`)
					}
					c.response(fmt.Sprint(id + 1000))
					var text strings.Builder
					for _, m := range c.said()[before:] {
						text.Write(m.Body)
					}
					if missingSaid(text.String(), said) != "" {
						lost++
					}
					checkNoMark(t, text.String())
				}
				// The requests of a session share a queue, and mcp-go's goroutine for the one
				// before may take a notification of this one and drop it. Without the mark
				// most calls lose one.
				if lost > 5 {
					t.Errorf("of 100 calls %d have lost a notification", lost)
				}
			})
		}
		t.Run(fmt.Sprintf("%d/%s", len(said), modern), func(t *testing.T) {
			s := newHostServer()
			addTalker(s, false, said...)
			h := install(t, s, nil).Handler(server.NewStreamableHTTPServer(s, quiet()))
			send := exchangeHTTP(t, h, modern)
			for range 300 {
				checkSaid(t, send(request{method: "tools/call", target: "talk"}.message()), said)
			}
		})
	}
}

// missingSaid returns which of the notifications, or the result, is missing or too late in a
// text, "" if none is.
func missingSaid(text string, said []string) string {
	at := 0
	for _, want := range append(slices.Clone(said), `"result":{"`) {
		i := strings.LastIndex(text, want)
		if i < at {
			return want
		}
		at = i
	}
	return ""
}

func checkSaid(t *testing.T, text string, said []string) {
	t.Helper()
	if missing := missingSaid(text, said); missing != "" {
		t.Fatalf("%s is missing or too late in %s", missing, text)
	}
	checkNoMark(t, text)
}

func checkNoMark(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "notifications/rondo") {
		t.Fatalf("a mark was sent: %s", text)
	}
}

// Where mcp-go stores events for redelivery no mark is stored with them.
func TestNoMarkIsStored(t *testing.T) {
	s := newHostServer()
	addTalker(s, true, heard...)
	a := install(t, s, nil)
	c := openSession(t, "http, stored", v20251125, a, s)
	c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"talk"}}`)
	c.say(`{"jsonrpc":"2.0","id":` + string(c.question().ID) +
		`,"result":{"action":"accept","content":{"zeal":"much"}}}`)
	c.response("7")
	checkSaid(t, c.text(), heard)
	if n := mcpgo.Marks(a); n != 0 {
		t.Errorf("%d marks were made", n)
	}
}

// A response without notifications stays one of JSON.
func TestNoStreamWithoutNotifications(t *testing.T) {
	s := newHostServer()
	addDelete(s)
	h := install(t, s, nil).Handler(server.NewStreamableHTTPServer(s, quiet()))
	for _, revision := range []string{modern, v20251125} {
		call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"plain"}}`
		if revision == modern {
			call = request{method: "tools/call", target: "plain"}.message()
		}
		if got := exchangeHTTP(t, h, revision)(call); !strings.HasPrefix(got, "200 {") {
			t.Errorf("%s: got %s", revision, got)
		}
	}
}
