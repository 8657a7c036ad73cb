package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestLegacyListen(t *testing.T) {
	overEach(t, func(t *testing.T, way string) {
		s := &legacyServer{
			caps: `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true}}`,
		}
		s.handle = func(m legacyMessage) string {
			if m.Method == "resources/subscribe" && strings.Contains(string(m.Params), "none") {
				return `"error":{"code":-32002,"message":"no such resource"}`
			}
			return ""
		}
		s.call = func(_ legacyMessage, push pusher) string {
			push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			push(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
			push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}`)
			push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":null}}`)
			return legacyDone
		}
		c := s.reach(t, way, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		events, over, enough := make(chan client.ListenEvent, 8), make(chan error, 1),
			errors.New("enough")
		go func() {
			over <- c.Listen(ctx, protocol.SubscriptionFilter{
				ToolsListChanged: true, PromptsListChanged: true, ResourceSubscriptions: []string{
					"test://a", "test://none",
				},
			}, func(_ context.Context, e client.ListenEvent) { events <- e })
		}()
		ack := (<-events).(client.Acknowledged).Filter
		if !ack.ToolsListChanged || ack.PromptsListChanged ||
			!slices.Equal(ack.ResourceSubscriptions, []string{"test://a"}) {
			t.Errorf("honoured %+v", ack)
		}
		if way == "get stream" {
			// The answer to a call may overtake messages on other streams.
			go func() { _, _ = c.CallTool(ctx, "greet", nil) }()
		} else if _, err := c.CallTool(ctx, "greet", nil); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "event", <-events, client.ToolsChanged{})
		wantEqual(t, "event", <-events, client.ResourceUpdated{URI: "test://a"})
		cancel(enough)
		wantIs(t, "error", <-over, enough)
		wantEqual(t, "unsubscribed", s.params("resources/unsubscribe"), `{"uri":"test://a"}`)
	})
}
